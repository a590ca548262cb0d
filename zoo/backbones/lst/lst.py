"""LST (Zhang et al., 2023) on InfiniSST's network, its offline baseline (InfiniSST, section 4.2).

Every request encodes all kept speech and continues all kept text: instruction, speech, text, in one
turn.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.common.alignment import AlignmentConfig, Heads
from zoo.backbones.common.audio.feature_cache import FeatureCache
from zoo.backbones.common.causal.aligned import AlignedBranches
from zoo.backbones.common.encoder_memory import (
    OFFLINE,
    StreamState,
    encoder_memories,
    forget_memory,
)
from zoo.backbones.common.partial_text import PartialText
from zoo.backbones.common.pretrained.weights import WEIGHTS
from zoo.backbones.common.search import Context, SearchConfig, search
from zoo.backbones.common.speech_llm.data import Batch
from zoo.backbones.common.speech_llm.prompt import Template, template_named
from zoo.backbones.common.speech_llm.speech_llm import SpeechLLM
from zoo.backbones.common.teacher_forcing import token_accuracy
from zoo.backbones.common.text.vocabulary import Vocabulary
from zoo.backbones.common.wav2vec2.adapter import MERGED, pad_to_multiple
from zoo.backbones.common.wav2vec2.encoded import EncodedTalks, encode_talks
from zoo.backbones.common.wav2vec2.encoder import CHUNK_FRAMES, FRAME_SAMPLES, EncoderConfig
from zoo.backbones.common.wav2vec2.features import KeptWave, kept_features
from zoo.backbones.lst.data import EMBEDDING_SAMPLES, Collator
from zoo.backbones.lst.description import describe, local_folder, read_description
from zoo.data.excerpts import ExcerptConfig
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.streaming.session import Session
from zoo.types import Capability, Cut, Frames, Hypothesis, Request, Samples, UnitKind

SEARCH = SearchConfig(beams=4, no_repeat_ngram=5, repetition_penalty=1.2)  # section 4.3


class LST(SpeechLLM):
    """Instruction, speech and translation in one turn; self-attention to the speech is the
    alignment.

    Attributes:
        heads: Of the decoder, for the alignment.
    """

    exposes: ClassVar[frozenset[Capability]] = OFFLINE
    frame_samples: Samples = EMBEDDING_SAMPLES
    experiment = "lst_minitalks"
    weights_key = "name"
    trains_on = ExcerptConfig

    heads: Heads
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
        search: SearchConfig = SEARCH,
        max_tokens: int = 256,
    ) -> None:
        """Configure the backbone; ``load`` reads weights. Other arguments are those of
        ``SpeechLLM``.

        Those that describe the network (``encoder`` to ``alignment``) are read from the
        ``config.yaml`` beside the weights where they are None; without a name they are the paper's.

        Args:
            name: Folder or hub id of an exported or converted LST; None: untrained parts.
            block_chunks: The encoder's blocks in chunks of 960 ms, as it was trained (0: one block
                over all kept audio, as in an offline encoder).
            alignment: Which self-attention aligns target tokens with speech; in a mapping, options
                that are None are read from ``config.yaml``.
            search: How an answer is generated.
            max_tokens: Most new ids of an answer, its end included.
        """
        given: dict[str, Any] = {
            "encoder": encoder,
            "decoder": decoder,
            "template": template,
            "adapter_norm": adapter_norm,
            "block_chunks": block_chunks,
            "alignment": alignment,
        }
        self._given = {key: value for key, value in given.items() if value is not None}
        description = describe(self._given)
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
            suppress=search.suppress,
        )
        if max_tokens < 1:
            raise ZooError(f"LST needs max_tokens of at least 1, not {max_tokens}.")
        self.block_chunks = description.block_chunks
        self.alignment = description.alignment
        self.search = search
        self.max_tokens = max_tokens

    def load(self) -> None:
        """Read the network's description, create it and read its weights.

        Raises ZooError on a mismatch.
        """
        if self.checkpoint is not None:
            self._take_description(local_folder(self.checkpoint))
        super().load()
        config = self.decoder.config
        self.vocabularies = {unit: Vocabulary(self.tokenizer, unit) for unit in get_args(UnitKind)}
        self.heads = self.alignment.chosen(
            layers=config.num_hidden_layers, heads=config.num_attention_heads
        )

    def _take_description(self, folder: Path) -> None:
        """Use the description in a folder where the constructor's arguments are None."""
        if self.tokenizer_source == self.checkpoint:
            self.tokenizer_source = str(folder)
        self.checkpoint = str(folder)
        if (folder / WEIGHTS).is_file():
            description = describe(self._given, read_description(folder))
            self.encoder_config, self.decoder_source = description.encoder, description.decoder
            self.template, self.adapter_norm = (
                template_named(description.template),
                description.adapter_norm,
            )
            self.block_chunks, self.alignment = description.block_chunks, description.alignment

    def encode_talks(
        self, talks: Sequence[Talk], *, multipliers: Collection[int], device: torch.device
    ) -> EncodedTalks:
        """Frames of whole talks in blocks of ``block_chunks``; raises ZooError without blocks."""
        if self.block_chunks == 0:
            raise ZooError("An LST encodes whole talks with backbone.block_chunks above 0 only.")
        return encode_talks(self.encoder, talks, [self.block_chunks], device=device)

    def collator(self) -> Collator:
        """Makes training batches of excerpts. Raises ZooError for an encoder of whole signals."""
        if self.encoder_config.left_pad == 0:
            raise ZooError(
                "An LST with left_pad=0, as a converted one has, cannot be trained: the last "
                "frames of an excerpt make no embedding."
            )
        return Collator(self.prompt)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Teacher forcing on batches of ``collator``: ``loss`` and ``token_accuracy`` of texts and
        their ends.
        """
        frames = batch.audio
        if frames.dim() == 2:
            lengths = MERGED * (batch.speech_positions >= 0).sum(dim=1)
            blocks = self._blocks(batch.audio.shape[1] // FRAME_SAMPLES)
            frames = self.encode_training(batch.audio, blocks, lengths).hidden
        output = self.teacher_forced(batch, frames)
        accuracy = token_accuracy(output.logits, output.targets)
        return {"loss": output.loss, "token_accuracy": accuracy}

    def _blocks(self, frames: int) -> int:
        """The encoder's block in chunks, for so many frames."""
        return self.block_chunks or -(-frames // CHUNK_FRAMES)

    def open(self, session: Session) -> StreamState:
        """An empty state. Raises ZooError when there is no prompt for the session."""
        self._instruction(session)
        frames = torch.zeros(
            0, self.encoder_config.hidden, dtype=self.dtype, device=self.decoder.device
        )
        return StreamState(features=FeatureCache(frames))

    def forget(self, session: Session, cut: Cut) -> None:
        """Drop the embeddings of forgotten audio; kept text is fed again at every request."""
        forget_memory(session, cut)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Encode all kept audio and continue the written prefix, which is forced in the same pass.

        A stream whose audio is too short for an embedding gets no new token.
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
            asked = (
                [texts[i] for i in live],
                [requests[i] for i in live],
                [speech[i] for i in live],
            )
            for index, answer in zip(live, self._continue(*asked, aligned), strict=True):
                hypotheses[index] = answer
        return hypotheses

    def _continue(
        self,
        texts: Sequence[PartialText],
        requests: Sequence[Request],
        speech: Sequence[Tensor],
        aligned: bool,
    ) -> list[Hypothesis]:
        """Continue instruction, speech and prefix."""
        prompts = [text.opening + text.prefix for text in texts]
        branches = AlignedBranches(
            self.decoder,
            [self.embed(ids, frames) for ids, frames in zip(prompts, speech, strict=True)],
            prefixes=[len(text.prefix) for text in texts],
            speech=[
                (ids.index(self.prompt.speech), len(frames))
                for ids, frames in zip(prompts, speech, strict=True)
            ],
            heads=self.heads if aligned else None,
        )
        answers = search(
            branches,
            self.search,
            contexts=[
                Context(text.prefix, prompt) for text, prompt in zip(texts, prompts, strict=True)
            ],
            limits=[self.max_tokens] * len(texts),
            end=self.prompt.end_of_turn,
            never=self.never,
            stops=[
                text.stop(request.max_words) for text, request in zip(texts, requests, strict=True)
            ],
        )
        alignment = self.alignment if aligned else None
        return branches.hypotheses(texts, answers, limit=self.max_tokens, alignment=alignment)

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Speech embeddings (n, width) of each wave, encoded as a batch.

        A last piece short of 80 ms is padded with zeros, except for an encoder without ``left_pad``
        (released code), for which it is left out.
        """
        whole = [
            pad_to_multiple(wave, EMBEDDING_SAMPLES) if self.encoder_config.left_pad else wave
            for wave in waves
        ]
        waves_kept = [
            KeptWave(samples.to(self.decoder.device, self.dtype), wave.numel(), session.audio_start)
            for samples, wave, session in zip(whole, waves, sessions, strict=True)
        ]
        features = kept_features(
            self.encoder, [session.backbone_state.features for session in sessions], waves_kept
        )
        counts = [len(frames) for frames in features]
        if max(counts) < MERGED:
            return [features[0].new_zeros(0, self.decoder.config.hidden_size) for _ in waves]
        padded = pad_sequence(features, batch_first=True)
        lengths = torch.tensor(counts, device=padded.device)
        speech = self.adapter(
            self.encoder.contextualise(padded, self._blocks(padded.shape[1]), lengths).hidden
        )
        return [
            embeddings[: count // MERGED] for embeddings, count in zip(speech, counts, strict=True)
        ]

    def _text(self, session: Session, embeddings: Frames) -> PartialText:
        return PartialText(
            opening=self._instruction(session) + self.prompt.spoken(embeddings),
            prefix=session.prefix_ids.tolist(),
            vocabulary=self.vocabularies[session.target_language.unit],
            frames=embeddings,
        )

    def _instruction(self, session: Session) -> list[int]:
        return self.prompt.instruction(
            source=session.source_language, target=session.target_language, multiplier=1
        )
