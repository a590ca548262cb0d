"""LST (Zhang et al., 2023) on InfiniSST's network, its offline baseline (section 4.2). Knows no clock and no policy.

Every look hears all kept speech anew and continues all kept text: instruction, speech, text, in a single turn.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.common.alignment import AlignmentConfig, Heads
from zoo.backbones.common.audio.feature_cache import Analysed
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
from zoo.backbones.common.text.vocabulary import Vocabulary
from zoo.backbones.common.wav2vec2.adapter import MERGED, pad_to_multiple
from zoo.backbones.common.wav2vec2.encoded import EncodedTalks, encode_talks
from zoo.backbones.common.wav2vec2.encoder import CHUNK_FRAMES, FRAME_SAMPLES, EncoderConfig
from zoo.backbones.common.wav2vec2.features import Heard, analyse
from zoo.backbones.lst.data import EMBEDDING_SAMPLES, Collator
from zoo.backbones.lst.description import described, local, network
from zoo.data.excerpts import ExcerptConfig
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.streaming.session import Session
from zoo.types import Capability, Cut, Frames, Hypothesis, Request, Samples, UnitKind

SEARCH = SearchConfig(beams=4, no_repeat_ngram=5, repetition_penalty=1.2)  # section 4.3


class LST(SpeechLLM):
    """Instruction, speech history, translation history; self-attention to the speech as alignment.

    name: folder or hub id of an exported or converted LST; None: a network of the parts that the other arguments name,
    see ``SpeechLLM``. encoder, decoder, template, adapter_norm, block_chunks, alignment: None: as the ``config.yaml``
    beside the weights says; without a name as in the paper. block_chunks: the encoder's blocks, in chunks of 960 ms, as
    it was trained (0: one block over all that is kept, as in an offline encoder). alignment: may be a mapping, of which
    options that are None are as beside the weights. search: how an answer is generated. max_tokens: an answer has at
    most so many new ids, its end included.
    """

    exposes: ClassVar[frozenset[Capability]] = OFFLINE
    frame_samples: Samples = EMBEDDING_SAMPLES
    experiment = "lst_minitalks"
    weights_key = "name"
    trains_on = ExcerptConfig

    heads: Heads  # of the decoder, that make the alignment
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
        given: dict[str, Any] = {"encoder": encoder, "decoder": decoder, "template": template}
        given |= {
            "adapter_norm": adapter_norm,
            "block_chunks": block_chunks,
            "alignment": alignment,
        }
        self.said = {key: value for key, value in given.items() if value is not None}
        made = network(self.said)
        named = tokenizer is None and name is None and isinstance(made.decoder, str)
        super().__init__(
            encoder=made.encoder,
            decoder=made.decoder,
            template=made.template,
            tokenizer=str(made.decoder) if named else tokenizer,
            checkpoint=name,
            encoder_weights=encoder_weights,
            adapter_norm=made.adapter_norm,
            embedding_std=embedding_std,
            dtype=dtype,
            suppress=search.suppress,
        )
        if max_tokens < 1:
            raise ZooError(f"LST needs max_tokens of at least 1, not {max_tokens}.")
        self.block_chunks = made.block_chunks
        self.alignment = made.alignment
        self.search = search
        self.max_tokens = max_tokens

    def load(self) -> None:
        """Find out what the network is, create it and read its weights. Raises ZooError on what does not fit."""
        if self.checkpoint is not None:
            self._be(local(self.checkpoint))
        super().load()
        config = self.decoder.config
        self.vocabularies = {unit: Vocabulary(self.tokenizer, unit) for unit in get_args(UnitKind)}
        self.heads = self.alignment.chosen(
            layers=config.num_hidden_layers, heads=config.num_attention_heads
        )

    def _be(self, folder: Path) -> None:
        """What the folder says the network is, but for what the constructor was told."""
        if self.tokenizer_source == self.checkpoint:
            self.tokenizer_source = str(folder)
        self.checkpoint = str(folder)
        if (folder / WEIGHTS).is_file():
            made = network(self.said, described(folder))
            self.encoder_config, self.decoder_source = made.encoder, made.decoder
            self.template, self.adapter_norm = template_named(made.template), made.adapter_norm
            self.block_chunks, self.alignment = made.block_chunks, made.alignment

    def encode_talks(
        self, talks: Sequence[Talk], *, multipliers: Collection[int], device: torch.device
    ) -> EncodedTalks:
        """Frames of whole talks in blocks of ``block_chunks``; raises ZooError without blocks."""
        if self.block_chunks == 0:
            raise ZooError("An LST encodes whole talks with backbone.block_chunks above 0 only.")
        return encode_talks(self.encoder, talks, [self.block_chunks], device=device)

    def collator(self) -> Collator:
        """Makes training batches of excerpts. Raises ZooError for an encoder that hears whole signals only."""
        if self.encoder_config.left_pad == 0:
            raise ZooError(
                "An LST with left_pad=0, as a converted one has, cannot be trained: the last frames of an excerpt make "
                "no embedding."
            )
        return Collator(self.prompt)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Teacher forcing on batches of ``collator``: ``loss`` and ``token_accuracy`` over texts and their ends."""
        frames = batch.audio
        if frames.dim() == 2:
            lengths = MERGED * (batch.speech_positions >= 0).sum(dim=1)
            blocks = self._blocks(batch.audio.shape[1] // FRAME_SAMPLES)
            frames = self.encode_training(batch.audio, blocks, lengths).hidden
        output = self.teach(batch, frames)
        accuracy = (output.logits.argmax(-1) == output.targets).float().mean()
        return {"loss": output.loss, "token_accuracy": accuracy}

    def _blocks(self, frames: int) -> int:
        """The encoder's block for so many frames of it, in chunks."""
        return self.block_chunks or -(-frames // CHUNK_FRAMES)

    def open(self, session: Session) -> StreamState:
        """Nothing heard yet. Raises ZooError when the prompt cannot be made for the session's languages."""
        self._instruction(session)
        frames = torch.zeros(
            0, self.encoder_config.hidden, dtype=self.dtype, device=self.decoder.device
        )
        return StreamState(features=Analysed(frames))

    def forget(self, session: Session, cut: Cut) -> None:
        """Drop the embeddings of forgotten audio; kept text is fed again at every request."""
        forget_memory(session, cut)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Hear all kept audio, once per look, and continue the written prefix, which is forced in the same pass.

        A stream whose audio is too short for an embedding says nothing.
        """
        waves = [
            session.visible_audio(request.audio_end)
            for session, request in zip(sessions, requests, strict=True)
        ]
        speech = encoder_memories(self.encode_audio, sessions, waves)
        texts = [
            self._text(session, len(heard)) for session, heard in zip(sessions, speech, strict=True)
        ]
        aligned = Capability.ALIGNMENT in needs
        hypotheses = [text.unchanged(aligned=aligned) for text in texts]
        live = [index for index, heard in enumerate(speech) if len(heard)]
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
        """Search what follows instruction, speech and prefix."""
        prompts = [text.opening + text.prefix for text in texts]
        branches = AlignedBranches(
            self.decoder,
            [self.embed(ids, heard) for ids, heard in zip(prompts, speech, strict=True)],
            prefixes=[len(text.prefix) for text in texts],
            speech=[
                (ids.index(self.prompt.speech), len(heard))
                for ids, heard in zip(prompts, speech, strict=True)
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
        """Speech embeddings (n, width) of each wave, encoded side by side.

        A last piece of 80 ms is filled up with zeros, but for an encoder without ``left_pad`` (released code), which
        hears whole embeddings only.
        """
        whole = [
            pad_to_multiple(wave, EMBEDDING_SAMPLES) if self.encoder_config.left_pad else wave
            for wave in waves
        ]
        heard = [
            Heard(samples.to(self.decoder.device, self.dtype), wave.numel(), session.audio_start)
            for samples, wave, session in zip(whole, waves, sessions, strict=True)
        ]
        features = analyse(
            self.encoder, [session.backbone_state.features for session in sessions], heard
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
