"""LST (Zhang et al., 2023), the offline baseline of InfiniSST (InfiniSST, section 4.2).

LST uses InfiniSST's network: speech encoder, adapter and large language model. Every request
encodes all kept audio. The language model then receives one turn, which consists of the
instruction, the speech embeddings and the kept translation, and continues the translation.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.architectures.speech_llm.data import Batch
from zoo.backbones.architectures.speech_llm.prompt import Template, template_named
from zoo.backbones.architectures.speech_llm.speech_llm import SpeechLLM
from zoo.backbones.decoding.alignment import AlignmentConfig, HeadAlignment
from zoo.backbones.decoding.batches import pick, put
from zoo.backbones.decoding.causal.aligned import AlignedBranches
from zoo.backbones.decoding.continuation import SearchContext
from zoo.backbones.decoding.early_stop import early_stop
from zoo.backbones.decoding.partial_text import PartialText
from zoo.backbones.decoding.search import SearchConfig, search
from zoo.backbones.decoding.static_steps import Capture
from zoo.backbones.decoding.teacher_forcing import token_accuracy
from zoo.backbones.encoders.encoder_memory import (
    PROMPTED,
    EncodedStreamState,
    encoder_memories,
    forget_memory,
)
from zoo.backbones.encoders.wav2vec2.adapter import MERGED, pad_to_multiple
from zoo.backbones.encoders.wav2vec2.encoder import CHUNK_FRAMES, FRAME_SAMPLES, EncoderConfig
from zoo.backbones.encoders.wav2vec2.features import KeptWave
from zoo.backbones.encoders.wav2vec2.kept_audio import KeptAudio, encode_kept
from zoo.backbones.lst.data import EMBEDDING_SAMPLES, LSTCollator
from zoo.backbones.lst.description import describe, local_folder, plain_values, read_description
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.backbones.pretrained.weights import WEIGHTS
from zoo.backbones.text.vocabulary import Vocabulary, vocabularies
from zoo.base.errors import ZooError, check_numbers
from zoo.base.machine.int8 import DecoderWeights
from zoo.base.types import Capability, Cut, Frames, Hypothesis, Request, Samples, UnitKind
from zoo.streaming.session import Session

SEARCH = SearchConfig(beams=4, no_repeat_ngram=5, repetition_penalty=1.2)  # section 4.3


def _not_none(**arguments: object) -> dict[str, Any]:
    """Return the arguments that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}


class LST(HeadAlignment, SpeechLLM):
    """Offline speech translation model: speech encoder, adapter and causal language model.

    The decoder receives instruction, speech embeddings and translation as one turn. The decoder's
    self-attention from translation tokens to speech embeddings aligns tokens with audio. One speech
    embedding stands for 80 ms (1280 samples).

    Attributes:
        vocabularies: Word boundaries of the tokenizer's tokens, for each kind of text unit.
    """

    exposes: ClassVar[frozenset[Capability]] = PROMPTED
    frame_samples: Samples = EMBEDDING_SAMPLES
    experiment = "lst_minitalks"
    weights_key = "name"
    trains_on = "ExcerptConfig"

    vocabularies: dict[UnitKind, Vocabulary]

    def __init__(
        self,
        *,
        name: str | None = None,
        encoder: EncoderConfig | None = None,
        decoder: str | Mapping[str, Any] | None = None,
        template: Template | str | None = None,
        adapter_norm: bool | None = None,
        block_chunks: int | None = None,
        alignment: AlignmentConfig | Mapping[str, Any] | None = None,
        tokenizer: str | None = None,
        encoder_weights: str | None = None,
        embedding_std: float | None = None,
        dtype: str = "float32",
        decoder_weights: DecoderWeights = "dtype",
        search: SearchConfig = SEARCH,
        max_tokens: int = 256,
        capture: Capture = "off",
        lora: LoraConfig | None = None,
        gradient_checkpointing: bool = False,
        layer_drop: float = 0.0,
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        The arguments ``encoder`` to ``alignment`` describe the network. An argument of this group
        that is None is read from the ``config.yaml`` next to the weights. If ``name`` is None, the
        argument takes the value of the paper instead.

        Args:
            name: Folder or hub id of an exported or converted LST. None starts from pretrained or
                randomly initialised parts.
            encoder: Shape of the speech encoder.
            decoder: Hub id or folder of the language model, or a mapping of configuration fields,
                which gives a randomly initialised language model.
            template: Chat format of the dialogue, or the name of an entry of ``prompt.TEMPLATES``.
            adapter_norm: Whether a layer norm follows each convolution of the adapter.
            block_chunks: Size of an encoder block in training and inference, in chunks of 960 ms. 0
                makes one block of all kept audio, as in an offline encoder.
            alignment: Self-attention that aligns target tokens with speech embeddings. Options of a
                mapping that are None are read from ``config.yaml``.
            tokenizer: Hub id or folder of the tokenizer, used only if ``name`` is None. None takes
                the tokenizer of the language model.
            encoder_weights: Initial weights of the encoder, used only if ``name`` is None. None
                initialises the encoder randomly.
            embedding_std: Standard deviation of randomly initialised embeddings of the decoder.
            dtype: Data type of weights and activations.
            decoder_weights: Type of the weights that each decoding step reads: ``dtype``, or
                ``int8`` for less time per token on a CPU; trainings have no use for it.
            search: Beam search options of an answer.
            max_tokens: Maximum number of new token ids in an answer, end-of-turn id included.
            capture: ``auto`` replays decoding steps as CUDA graphs on a GPU; ``static`` computes
                steps of the same fixed shapes without graphs, on any device; ``off`` does neither.
            lora: Trainable adapter of the language model. None merges an adapter in ``name`` into
                the weights.
            gradient_checkpointing: Whether training recomputes activations instead of keeping them.
            layer_drop: Probability with which a training step leaves out a layer of the encoder.

        Raises:
            ZooError: ``max_tokens`` is below 1, ``block_chunks`` is negative, or the tokenizer,
                the template or the data type is missing or unknown.
        """
        networks = {"encoder": encoder, "decoder": decoder, "adapter_norm": adapter_norm}
        options = {"template": template, "block_chunks": block_chunks, "alignment": alignment}
        self._configured = _not_none(**networks, **options)
        description = describe(self._configured)
        from_decoder = tokenizer is None and name is None and isinstance(description.decoder, str)
        super().__init__(
            encoder=description.encoder,
            decoder=description.decoder,
            template=description.template,
            tokenizer=str(description.decoder) if from_decoder else tokenizer,
            checkpoint=name,
            encoder_weights=encoder_weights,
            adapter_norm=description.adapter_norm,
            embedding_std=embedding_std,
            dtype=dtype,
            decoder_weights=decoder_weights,
            suppress=search.suppress,
            capture=capture,
            lora=lora,
            gradient_checkpointing=gradient_checkpointing,
            layer_drop=layer_drop,
        )
        check_numbers("LST", least=1, max_tokens=max_tokens)
        self.block_chunks, self.alignment = description.block_chunks, description.alignment
        self.search, self.max_tokens = search, max_tokens

    def load(self) -> None:
        """Read the description of the network, create the network and read the weights.

        Raises:
            ZooError: The weights do not fit the described network, or the alignment names a layer
                or a head that the decoder does not have.
        """
        if self.checkpoint is not None:
            self._take_description(local_folder(self.checkpoint))
        super().load()
        self.vocabularies = vocabularies(self.tokenizer)
        self.align_with(self.alignment)

    @property
    def attention_shape(self) -> tuple[int, int]:
        """Number of decoder layers, and of attention heads per layer."""
        config = self.decoder.config
        return config.num_hidden_layers, config.num_attention_heads

    def _take_description(self, folder: Path) -> None:
        """Read ``config.yaml`` of ``folder`` for all constructor arguments that are None."""
        self.checkpoint = self.tokenizer_source = str(folder)
        if (folder / WEIGHTS).is_file():
            description = describe(self._configured, read_description(folder, self._configured))
            self.encoder_config = description.encoder
            self.decoder_source = description.decoder
            self.template = template_named(description.template)
            self.adapter_norm = description.adapter_norm
            self.block_chunks = description.block_chunks
            self.alignment = description.alignment

    def save(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write weights and tokenizer, and ``config.json`` of a decoder that a folder describes.

        The folder of the decoder need not exist where the export is read.
        """
        super().save(folder, dtype)
        if self._is_local(self.decoder_source):
            self.decoder.config.save_pretrained(folder)

    def exported_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with the description of the network; see ``Backbone``.

        A training that began from a checkpoint has read the description from there.
        """
        source = self.decoder_source
        decoder = dict(source) if isinstance(source, Mapping) else source
        return {
            **super().exported_arguments(arguments),
            "encoder": plain_values(self.encoder_config),
            "decoder": None if self._is_local(source) else decoder,
            "template": plain_values(self.template),
            "adapter_norm": self.adapter_norm,
            "block_chunks": self.block_chunks,
            "alignment": plain_values(self.alignment),
        }

    @staticmethod
    def _is_local(decoder: str | Mapping[str, Any]) -> bool:
        """Return whether a decoder is described by a folder of this machine."""
        return isinstance(decoder, str) and Path(decoder).is_dir()

    def block_sizes(self, multipliers: Collection[int]) -> Collection[int]:
        """Return the only size of the blocks of whole talks in chunks, ``block_chunks``.

        Raises ZooError if it is 0, so that a talk would be a single block.
        """
        if self.block_chunks == 0:
            raise ZooError("An LST encodes whole talks with backbone.block_chunks above 0 only.")
        return [self.block_chunks]

    def collator(self) -> LSTCollator:
        """Return the function that collates excerpts of talks into training batches.

        Raises ZooError for an encoder with ``left_pad`` 0, which returns fewer frames per excerpt.
        """
        if self.encoder_config.left_pad == 0:
            raise ZooError(
                "An LST with left_pad=0, as a converted one has, cannot be trained: the last "
                "frames of an excerpt make no embedding."
            )
        return LSTCollator(self.prompt)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Teacher forcing on a batch of ``collator``.

        Args:
            batch: Padded dialogues with (B, n) samples, or with (B, frames, hidden) outputs of a
                frozen encoder.

        Returns:
            Scalars ``loss`` and ``token_accuracy`` over the translations, end-of-turn ids included.
        """
        frames = batch.audio
        if frames.dim() == 2:  # (B, n) samples
            embedding_counts = (batch.speech_positions >= 0).sum(dim=1)  # (B,)
            lengths = MERGED * embedding_counts
            blocks = self._blocks(batch.audio.shape[1] // FRAME_SAMPLES)
            frames = self.encode_training(batch.audio, blocks, lengths).hidden
        output = self.teacher_forced(batch, frames)
        accuracy = token_accuracy(output.logits, output.targets)
        return {"loss": output.loss, "token_accuracy": accuracy}

    def _blocks(self, frames: int) -> int:
        """Return the size of an encoder block, in chunks, for audio of ``frames`` frames."""
        if self.block_chunks:
            return self.block_chunks
        return -(-frames // CHUNK_FRAMES)  # one block of all frames, rounded up to whole chunks

    def open(self, session: Session) -> EncodedStreamState:
        """Return an empty stream state.

        Raises ZooError if the tokenizer lacks the latency token of the template's instruction.
        """
        self._instruction(session)  # raises here, before the first request
        return EncodedStreamState(features=KeptAudio.of(self.encoder))

    def forget(self, session: Session, cut: Cut) -> None:
        """Drop the speech embeddings of forgotten audio.

        Forgotten text needs no step here, because every request feeds the kept text again.
        """
        forget_memory(session, cut)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Encode all kept audio and continue the emitted translation of each stream.

        The emitted translation is a forced prefix: the decoder receives it together with the prompt
        in one pass. A stream whose audio is too short for a speech embedding gets no new token.

        Args:
            sessions: Streams to decode.
            requests: Limits of the audio and of the new words, one request per session.
            needs: Capabilities that the policy uses. ``ALIGNMENT`` adds alignments.

        Returns:
            One hypothesis per session.
        """
        waves = [
            session.visible_audio(request.audio_end)
            for session, request in zip(sessions, requests, strict=True)
        ]
        speech = encoder_memories(self.encode_audio, sessions, waves)
        texts = [
            self._text(session, len(frames))
            for session, frames in zip(sessions, speech, strict=True)
        ]
        aligned = Capability.ALIGNMENT in needs
        hypotheses = [text.unchanged(aligned=aligned) for text in texts]
        live = [index for index, frames in enumerate(speech) if len(frames)]
        if live:
            inputs = pick(texts, live), pick(requests, live), pick(speech, live)
            put(hypotheses, live, self._continue(*inputs, aligned))
        return hypotheses

    def _continue(
        self,
        texts: Sequence[PartialText],
        requests: Sequence[Request],
        speech: Sequence[Tensor],
        aligned: bool,
    ) -> list[Hypothesis]:
        """Generate a hypothesis for each stream that has at least one speech embedding.

        Args:
            texts: Token ids of the streams: opening (instruction and placeholders of the speech)
                and prefix (emitted translation).
            requests: Limits of the new words, one request per text.
            speech: (n, width) speech embeddings of each stream.
            aligned: Whether to compute alignments.
        """
        prompts = [text.opening + text.prefix for text in texts]
        branches = AlignedBranches(
            self.decoder,
            [self.embed(ids, frames) for ids, frames in zip(prompts, speech, strict=True)],
            prefixes=[len(text.prefix) for text in texts],
            speech=[
                ids.index(self.prompt.speech) + torch.arange(len(frames))
                for ids, frames in zip(prompts, speech, strict=True)
            ],
            heads=self.heads if aligned else None,
            steps=self.steps,
        )
        alignment = self.alignment if aligned else None
        answers = search(
            branches,
            self.search,
            contexts=[
                SearchContext(text.prefix, prompt)
                for text, prompt in zip(texts, prompts, strict=True)
            ],
            limits=[self.max_tokens] * len(texts),
            ends=[self.prompt.end_of_turn],
            never=self.never,
            stops=[
                text.stop(request.max_words) for text, request in zip(texts, requests, strict=True)
            ],
            stop_marks=early_stop(branches, alignment, requests, texts, beams=self.search.beams),
        )
        return branches.hypotheses(texts, answers, limit=self.max_tokens, alignment=alignment)

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Encode waves as a batch.

        An encoder with ``left_pad`` receives each wave padded with zeros to a multiple of 80 ms. An
        encoder without ``left_pad`` (released code) receives the waves without padding, and frames
        at the end that do not fill a speech embedding are dropped.

        Args:
            sessions: Streams, whose feature caches are read and updated.
            waves: (samples,) audio from the start of each session's kept audio.

        Returns:
            (n, width) speech embeddings of each wave; n is 0 if the wave is too short.
        """
        whole = list(waves)
        if self.encoder_config.left_pad:
            whole = [pad_to_multiple(wave, EMBEDDING_SAMPLES) for wave in waves]
        dtype = self.part_dtype("encoder")
        waves_kept = [
            KeptWave(samples.to(self.decoder.device, dtype), wave.numel(), session.audio_start)
            for samples, wave, session in zip(whole, waves, sessions, strict=True)
        ]
        encoded = encode_kept(
            self.encoder,
            [session.backbone_state.features for session in sessions],
            waves_kept,
            block_chunks=self.block_chunks or None,
        )
        counts = [len(frames) for frames in encoded]  # frames of 20 ms, MERGED per embedding
        if max(counts) < MERGED:
            return [encoded[0].new_zeros(0, self.decoder.config.hidden_size) for _ in waves]
        hidden = pad_sequence(encoded, batch_first=True)
        speech = self.adapt(hidden)  # (B, frames // MERGED, width)
        return [
            embeddings[: count // MERGED] for embeddings, count in zip(speech, counts, strict=True)
        ]

    def _text(self, session: Session, frames: Frames) -> PartialText:
        """Return the token ids of a stream with ``frames`` speech embeddings."""
        return PartialText(
            opening=self._instruction(session) + self.prompt.spoken(frames),
            prefix=session.prefix_ids.tolist(),
            vocabulary=self.vocabularies[session.target_language.unit],
            frames=frames,
        )

    def _instruction(self, session: Session) -> list[int]:
        """Return the token ids of the instruction for the languages of a session."""
        return self.prompt.instruction(
            source=session.source_language,
            target=session.target_language,
            multiplier=1,
            context=session.context,
        )
