"""Offline encoder-decoders behind the backbone contract.

All kept audio is encoded again at every request; the written prefix is forced, then continued. A
family fills ``build``, ``encode_audio`` and ``opening``.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, get_args

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from zoo.backbones.base import Backbone, dtype_named
from zoo.backbones.common.alignment import AlignmentConfig, Heads
from zoo.backbones.common.encoder_decoder.branches import Branch, EncoderDecoderBranches
from zoo.backbones.common.encoder_decoder.decoder import Decoder
from zoo.backbones.common.encoder_memory import (
    OFFLINE,
    StreamState,
    encoder_memories,
    forget_memory,
)
from zoo.backbones.common.partial_text import PartialText
from zoo.backbones.common.search import Answer, Context, SearchConfig
from zoo.backbones.common.search import search as search_text
from zoo.backbones.common.text.vocabulary import Vocabulary, containing, detokenise
from zoo.errors import ZooError
from zoo.streaming.session import Session
from zoo.types import Capability, Cut, Frames, Hypothesis, Request, Task, UnitKind


class EncoderDecoder(Backbone):
    """An encoder-decoder whose cross-attention aligns target tokens with frames of its encoder.

    ``build`` sets ``decoder``, ``tokenizer`` and ``end`` (the id that ends a text); it may fill
    ``never`` (ids that are never generated) and ``never_first`` (ids that no text begins with).
    """

    exposes: ClassVar[frozenset[Capability]] = OFFLINE

    decoder: Decoder
    tokenizer: PreTrainedTokenizerBase
    end: int
    _heads: Heads
    _vocabularies: dict[UnitKind, Vocabulary]

    def __init__(
        self,
        *,
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        alignment: AlignmentConfig = AlignmentConfig(),  # noqa: B008 (frozen)
        max_tokens: int = 200,
        dtype: str = "float32",
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            search: How an answer is generated.
            alignment: Which cross-attention aligns target tokens with source frames.
            max_tokens: Most new ids of an answer, its end included.
            dtype: Of weights and activations.
        """
        super().__init__()
        if max_tokens < 1:
            raise ZooError(f"An encoder-decoder needs max_tokens of at least 1, not {max_tokens}.")
        self.search = search
        self.alignment = alignment
        self.max_tokens = max_tokens
        self.dtype = dtype_named(dtype)
        self.never: list[int] = []
        self.never_first: list[int] = []

    @abstractmethod
    def build(self) -> None:
        """Create modules as children, in ``dtype``, and read weights.

        Raises:
            ZooError: On what cannot be loaded.
        """

    @abstractmethod
    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Encode waves as a batch.

        ``session.backbone_state.features`` may keep what the next request can use again.

        Args:
            sessions: Of the streams.
            waves: (n,) samples, the front of each session's kept audio.

        Returns:
            (frames, width) each; no frames where a wave is too short for one. Frame i stands for
            samples from i x ``frame_samples`` on. Frames beyond the wave (Whisper's 30 s) are
            attended to, but not aligned with.
        """

    @abstractmethod
    def opening(self, session: Session, task: Task) -> list[int]:
        """Decoder ids before the text, at least one: start, language, task."""

    def load(self) -> None:
        """Build the network and check the configuration against it.

        Raises ZooError on a mismatch.
        """
        self.build()
        self.eval()
        self._heads = self.alignment.chosen(layers=self.decoder.depth, heads=self.decoder.heads)
        self._vocabularies = {unit: Vocabulary(self.tokenizer, unit) for unit in get_args(UnitKind)}
        padding = {self.tokenizer.pad_token_id} - {self.end, None}
        self.never = [*self.never, *padding, *containing(self.tokenizer, self.search.suppress)]

    def open(self, session: Session) -> StreamState:
        """An empty state."""
        return StreamState()

    def forget(self, session: Session, cut: Cut) -> None:
        """Drop the encoder output of forgotten audio; kept text is fed again at every request."""
        forget_memory(session, cut)

    def vocabulary(self, session: Session, task: Task) -> Vocabulary:
        """Word boundaries of an answer: in the source language for a transcript, else in the
        target's.
        """
        language = (
            session.source_language if task is Task.TRANSCRIPTION else session.target_language
        )
        return self._vocabularies[language.unit]

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Encode all kept audio, then continue the written prefix, which is forced in one pass.

        A stream whose audio is too short for a frame of memory gets no new token.
        """
        asked = list(zip(sessions, requests, strict=True))
        waves = [session.visible_audio(request.audio_end) for session, request in asked]
        memories = encoder_memories(self.encode_audio, sessions, waves)
        hypotheses = [self._unchanged(session, request, needs) for session, request in asked]
        for task in Task:
            live = [
                index
                for index, request in enumerate(requests)
                if request.task is task and len(memories[index])
            ]
            if not live:
                continue
            batch = (
                [sessions[index] for index in live],
                [requests[index] for index in live],
                [memories[index] for index in live],
            )
            transcribed = task is Task.TRANSCRIPTION
            answers = self.transcribe(*batch) if transcribed else self._continue(*batch, needs)
            for index, answer in zip(live, answers, strict=True):
                hypotheses[index] = answer
        return hypotheses

    def transcribe(
        self, sessions: Sequence[Session], requests: Sequence[Request], memories: Sequence[Tensor]
    ) -> list[Hypothesis]:
        """Answer TRANSCRIPT requests: source tokens, no prefix, ``transcript`` set.

        This default decodes after ``opening(session, Task.TRANSCRIPTION)``.

        Args:
            sessions: Of the streams.
            requests: One per stream.
            memories: (frames, width) each, at least one frame.
        """
        answers = self._continue(sessions, requests, memories, frozenset())
        return [
            replace(answer, transcript=self.text(answer.token_ids.tolist()).strip())
            for answer in answers
        ]

    def _continue(
        self,
        sessions: Sequence[Session],
        requests: Sequence[Request],
        memories: Sequence[Tensor],
        needs: frozenset[Capability],
    ) -> list[Hypothesis]:
        """Continue opening and prefix of each stream."""
        texts = [
            self._text(session, request)
            for session, request in zip(sessions, requests, strict=True)
        ]
        prompts = [text.opening + text.prefix for text in texts]
        limits = [self._limit(len(prompt)) for prompt in prompts]
        heads = self._heads if Capability.ALIGNMENT in needs else {}
        with_states = Capability.SPEECH in needs
        branches = EncoderDecoderBranches(
            self.decoder, memories, prompts, heads=heads, states=with_states
        )
        answers = search_text(
            branches,
            self.search,
            contexts=[Context(earlier=prompt, prompt=prompt) for prompt in prompts],
            limits=limits,
            end=self.end,
            never=self.never,
            never_first=[[] if text.prefix else self.never_first for text in texts],
            stops=[
                text.stop(request.max_words) for text, request in zip(texts, requests, strict=True)
            ],
        )

        hypotheses = []
        for stream, (text, answer) in enumerate(zip(texts, answers, strict=True)):
            hypothesis = text.hypothesis(answer, limit=limits[stream])
            if heads:
                attention = branches.attention(stream, answer.generated)[..., : text.frames]
                opening = len(text.opening)
                hypothesis = text.aligned(hypothesis, self.alignment, attention, opening=opening)
            hypotheses.append(hypothesis)
        if not with_states:
            return hypotheses
        return self._with_states(sessions, branches, answers, hypotheses)

    def _with_states(
        self,
        sessions: Sequence[Session],
        branches: EncoderDecoderBranches,
        answers: Sequence[Answer],
        hypotheses: Sequence[Hypothesis],
    ) -> list[Hypothesis]:
        """The hypotheses with the hidden states of all their tokens.

        The last token of an answer that was cut at a limit is fed here. Each session's state keeps
        its branch, so that a written text can be ended without decoding it again.
        """
        places = [answer.generated for answer in answers]
        cut = [len(fed) < len(answer.tokens) for fed, answer in zip(places, answers, strict=True)]
        if any(cut):
            last = [answer.tokens[-1] if answer.tokens else self.end for answer in answers]
            appended = branches.append(last, places)
            places = [
                torch.cat([fed, new]) if missing else fed
                for fed, new, missing in zip(places, appended, cut, strict=True)
            ]

        extended = []
        for stream, (session, hypothesis) in enumerate(zip(sessions, hypotheses, strict=True)):
            session.backbone_state.branch = Branch(branches, stream, places[stream])
            states = branches.states(stream, places[stream])
            extended.append(replace(hypothesis, decoder_states=states))
        return extended

    def _text(self, session: Session, request: Request) -> PartialText:
        samples = len(session.visible_audio(request.audio_end))
        return PartialText(
            opening=self.opening(session, request.task),
            prefix=[] if request.task is Task.TRANSCRIPTION else session.prefix_ids.tolist(),
            vocabulary=self.vocabulary(session, request.task),
            frames=self._frames(samples),
        )

    def _frames(self, samples: int) -> Frames:
        """Frames that so many samples cover, the last one perhaps in part."""
        return -(-samples // self.frame_samples)

    def _limit(self, prompt: int) -> int:
        """Most new ids after a prompt of so many.

        Raises ZooError where there is no position for one.
        """
        room = self.decoder.room
        if room is None:
            return self.max_tokens
        if prompt >= room:
            raise ZooError(
                f"The decoder has {room} positions, but {prompt} tokens of its opening and of "
                "written text are kept; choose a history that forgets text."
            )
        return min(self.max_tokens, room - prompt)

    def _unchanged(
        self, session: Session, request: Request, needs: frozenset[Capability]
    ) -> Hypothesis:
        """The answer to audio that is too short for a frame of memory."""
        text = self._text(session, request)
        if request.task is Task.TRANSCRIPTION:
            return replace(text.unchanged(aligned=False), transcript="")
        return text.unchanged(aligned=Capability.ALIGNMENT in needs)

    def text(self, token_ids: list[int]) -> str:
        """Plain detokenisation, special tokens left out."""
        return detokenise(self.tokenizer, token_ids)
