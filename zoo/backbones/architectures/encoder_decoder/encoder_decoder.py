"""Offline encoder-decoders behind the backbone contract.

At every request, the backbone encodes all kept audio, feeds the emitted prefix to the decoder and
continues it. Concrete backbones implement ``build``, ``encode_audio`` and ``opening``.

The prefix has the token ids that were emitted (SimulSeamless and InfiniSST tokenize its text
again), and with beams, a token has the attention of its own beam (simulstream: of another one).
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from zoo.backbones.architectures.encoder_decoder.branches import Branch, EncoderDecoderBranches
from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.backbones.base import Backbone, dtype_named
from zoo.backbones.decoding.alignment import AlignmentConfig, HeadAlignment
from zoo.backbones.decoding.batches import pick, put
from zoo.backbones.decoding.continuation import Answer, SearchContext
from zoo.backbones.decoding.early_stop import can_stop_early, early_stop
from zoo.backbones.decoding.partial_text import PartialText
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.decoding.search import search as search_text
from zoo.backbones.decoding.static_steps import Capture, StaticSteps
from zoo.backbones.encoders.audio.spectrogram import Spectrogram
from zoo.backbones.encoders.encoder_memory import (
    OFFLINE,
    EncodedStreamState,
    encoder_memories,
    forget_memory,
)
from zoo.backbones.text.vocabulary import Vocabulary, containing, detokenise, vocabularies
from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.base.machine.int8 import DecoderWeights, decoder_weights_named
from zoo.base.types import Capability, Cut, Frames, Hypothesis, Request, Task, UnitKind
from zoo.streaming.session import Session

SuppressFirst = Literal["without_text", "always"]


class EncoderDecoder(HeadAlignment, Backbone):
    """Base class of encoder-decoders whose cross-attention aligns target tokens with frames.

    ``build`` must set ``decoder``, ``tokenizer`` and ``end``. It may fill ``never`` and
    ``never_first``.

    Attributes:
        decoder: Text decoder.
        spectrogram: Computes the feature frames of the encoder.
        tokenizer: Tokenizer of the target text.
        end: Id of the token that ends a text.
        never: Ids that are never generated.
        never_first: Ids that are never generated as the first token of a text.
    """

    exposes: ClassVar[frozenset[Capability]] = OFFLINE

    decoder: Decoder
    spectrogram: Spectrogram
    tokenizer: PreTrainedTokenizerBase
    end: int
    _vocabularies: dict[UnitKind, Vocabulary]

    def __init__(
        self,
        *,
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        alignment: AlignmentConfig = AlignmentConfig(),  # noqa: B008 (frozen)
        capture: Capture = "off",
        suppress_first: SuppressFirst = "without_text",
        max_tokens: int = 200,
        dtype: str = "float32",
        decoder_weights: DecoderWeights = "dtype",
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            search: Beam search and repetition settings.
            alignment: Choice and processing of the cross-attention heads for the alignment.
            capture: ``auto`` replays decoding steps as CUDA graphs on a GPU; ``static`` computes
                steps of the same fixed shapes without graphs, on any device; ``off`` does neither.
            suppress_first: When ``never_first`` excludes first new tokens. ``without_text``: if no
                text is kept. ``always``: after kept text, too, and the end token with them
                (SimulStreaming). Every request then has a new token, so that the model writes
                through silence, unless it detects silence itself.
            max_tokens: Maximum number of new ids per request, the end token included.
            dtype: Name of the torch dtype of weights and activations.
            decoder_weights: Type of the weights that each decoding step reads: ``dtype``, or
                ``int8`` for less time per token on a CPU; trainings have no use for it.

        Raises:
            ZooError: If ``max_tokens`` is below 1, or ``capture``, ``suppress_first``, ``dtype`` or
                ``decoder_weights`` is unknown.
        """
        super().__init__()
        check_choice("backbone.suppress_first", suppress_first, get_args(SuppressFirst))
        check_numbers("An encoder-decoder", least=1, max_tokens=max_tokens)
        self.search = search
        self.alignment = alignment
        self.steps = StaticSteps(capture)
        self.suppress_first = suppress_first
        self.max_tokens = max_tokens
        self.dtype = dtype_named(dtype)
        self.decoder_weights = decoder_weights_named(decoder_weights)
        self.never: list[int] = []
        self.never_first: list[int] = []

    def int8_layers(self) -> Iterable[nn.Module]:
        """Return the linear layers that every step of decoding reads, if they get int8 weights."""
        return self.decoder.step_layers() if self.decoder_weights == "int8" else ()

    @abstractmethod
    def build(self) -> None:
        """Create the modules as children, in ``self.dtype``, and read their weights.

        Raises:
            ZooError: If a model, tokenizer or weights file cannot be loaded.
        """

    @abstractmethod
    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Encode one wave per stream, as a batch.

        Implementations may cache features in ``session.backbone_state.features`` for the next
        request.

        Args:
            sessions: One session per stream.
            waves: (n,) samples of each stream, a prefix of the session's kept audio.

        Returns:
            (frames, width) of each stream. A wave shorter than one frame has 0 frames. Frame i
            begins at sample i x ``frame_samples``. The decoder also attends to frames beyond the
            end of the wave (Whisper pads to 30 s), but the alignment excludes these frames.
        """

    @abstractmethod
    def opening(self, session: Session, task: Task) -> list[int]:
        """Return the decoder ids before the text, such as start, language and task ids.

        The list has at least one id.
        """

    def context(self, session: Session, task: Task) -> list[int]:
        """Return the decoder ids before ``opening``, such as earlier text; none by default."""
        return []

    def silent(
        self,
        branches: EncoderDecoderBranches,
        sessions: Sequence[Session],
        texts: Sequence[PartialText],
    ) -> frozenset[int]:
        """Return the indices of the streams in which the model detects no speech.

        Their hypotheses get no new token. By default, no model detects silence.

        Args:
            branches: Decoder after the prompts.
            sessions: One session per stream.
            texts: The text that each stream continues.
        """
        return frozenset()

    def load(self) -> None:
        """Build the network and check the configured alignment heads.

        Raises:
            ZooError: If a configured layer or head does not exist, or no token contains one of the
                suppressed texts.
        """
        self.build()
        self.eval()
        self.align_with(self.alignment)
        self._vocabularies = vocabularies(self.tokenizer)
        padding = {self.tokenizer.pad_token_id} - {self.end, None}
        self.never = [*self.never, *padding, *containing(self.tokenizer, self.search.suppress)]

    @property
    def attention_shape(self) -> tuple[int, int]:
        """Number of decoder layers, and of attention heads per layer."""
        return self.decoder.depth, self.decoder.heads

    def open(self, session: Session) -> EncodedStreamState:
        """Create the empty state of a new stream.

        Raises ZooError if the model does not support the session's languages.
        """
        self.opening(session, Task.TRANSLATION)  # raises ZooError for unsupported languages
        return EncodedStreamState(features=self.spectrogram.open())

    def forget(self, session: Session, cut: Cut) -> None:
        """Drop the encoder output of forgotten audio.

        The decoder has no cache to cut, because the kept text is decoded anew at every request.
        """
        forget_memory(session, cut)

    def vocabulary(self, session: Session, task: Task) -> Vocabulary:
        """Return the word boundaries of the output language.

        The output language is the source language for transcription and the target language for
        translation.
        """
        language = (
            session.source_language if task is Task.TRANSCRIPTION else session.target_language
        )
        return self._vocabularies[language.unit]

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Encode all kept audio, feed the emitted prefix in one pass and continue the prefix.

        A stream whose audio is too short for one encoder frame gets no new token. For the arguments
        see ``Backbone.decode``.
        """
        streams = list(zip(sessions, requests, strict=True))
        waves = [session.visible_audio(request.audio_end) for session, request in streams]
        memories = encoder_memories(self.encode_audio, sessions, waves)
        hypotheses = [self._unchanged(session, request, needs) for session, request in streams]

        # One batch per task: transcriptions and translations may be decoded differently.
        for task in Task:
            batch = [
                index
                for index, request in enumerate(requests)
                if request.task is task and len(memories[index])
            ]
            if not batch:
                continue
            inputs = pick(sessions, batch), pick(requests, batch), pick(memories, batch)
            if task is Task.TRANSCRIPTION:
                decoded = self.transcribe(*inputs, needs)
            else:
                decoded = self._continue(*inputs, needs)
            put(hypotheses, batch, decoded)
        return hypotheses

    def transcribe(
        self,
        sessions: Sequence[Session],
        requests: Sequence[Request],
        memories: Sequence[Tensor],
        needs: frozenset[Capability],
    ) -> list[Hypothesis]:
        """Decode transcription requests: source-language tokens without a prefix.

        By default, the transcript is decoded after ``opening(session, Task.TRANSCRIPTION)``.

        Args:
            sessions: One session per stream.
            requests: One transcription request per stream.
            memories: (frames, width) encoder output of each stream, at least one frame.
            needs: Optional fields of the hypotheses; only ``ALIGNMENT`` changes the computation.

        Returns:
            One hypothesis per stream, with ``transcript`` set.
        """
        alignment = needs & {Capability.ALIGNMENT}
        hypotheses = self._continue(sessions, requests, memories, alignment)
        return [
            replace(hypothesis, transcript=self.text(hypothesis.token_ids.tolist()).strip())
            for hypothesis in hypotheses
        ]

    def _continue(
        self,
        sessions: Sequence[Session],
        requests: Sequence[Request],
        memories: Sequence[Tensor],
        needs: frozenset[Capability],
    ) -> list[Hypothesis]:
        """Continue the emitted prefix of each stream; for the arguments see ``transcribe``.

        Alignments and decoder states are computed if ``needs`` contains ALIGNMENT and SPEECH.
        """
        texts = [
            self._text(session, request)
            for session, request in zip(sessions, requests, strict=True)
        ]
        prompts = [text.opening + text.prefix for text in texts]
        limits = [self._limit(len(prompt)) for prompt in prompts]
        alignment = self.alignment if Capability.ALIGNMENT in needs else None
        branches = EncoderDecoderBranches(
            self.decoder,
            memories,
            prompts,
            heads=self.heads if alignment else {},
            states=Capability.SPEECH in needs,
            drafts=self._drafts(sessions, requests),
            steps=self.steps,
            known=[session.backbone_state.known for session in sessions],
        )
        silent = self.silent(branches, sessions, texts)
        limits = [1 if stream in silent else limit for stream, limit in enumerate(limits)]
        answers = search_text(
            branches,
            self.search,
            contexts=[SearchContext(earlier=prompt, prompt=prompt) for prompt in prompts],
            limits=limits,
            ends=[self.end],
            never=self.never,
            never_first=[self._never_first(text) for text in texts],
            stops=[
                text.stop(request.max_words) for text, request in zip(texts, requests, strict=True)
            ],
            stop_marks=early_stop(branches, alignment, requests, texts, beams=self.search.beams),
            drafts=branches,
        )

        for stream in silent:
            answers[stream] = Answer([], True, answers[stream].generated[:0])

        streams = enumerate(zip(texts, answers, limits, strict=True))
        hypotheses = [
            self._hypothesis(branches, stream, text, answer, limit=limit, alignment=alignment)
            for stream, (text, answer, limit) in streams
        ]
        if Capability.SPEECH not in needs:
            return hypotheses
        return self._with_states(sessions, branches, answers, hypotheses)

    def _never_first(self, text: PartialText) -> list[int]:
        """Return the ids that the search never generates first; see ``suppress_first``."""
        if self.suppress_first == "always":
            return [*self.never_first, self.end]
        return [] if text.prefix else self.never_first

    def _hypothesis(
        self,
        branches: EncoderDecoderBranches,
        stream: int,
        text: PartialText,
        answer: Answer,
        *,
        limit: int,
        alignment: AlignmentConfig | None,
    ) -> Hypothesis:
        """Return the hypothesis of one stream, with its alignment if ``alignment`` is not None.

        Args:
            branches: Decoder after the search.
            stream: Index of the stream.
            text: Text that the search continued.
            answer: Answer of the search.
            limit: Maximum number of ids that the search could generate.
            alignment: Alignment of tokens with frames.
        """
        hypothesis = text.hypothesis(answer, limit=limit)
        room = self.decoder.room
        if room is not None and len(text.opening + text.prefix + answer.tokens) >= room:
            hypothesis = replace(hypothesis, must_restart=True)
        if alignment is None:
            return hypothesis
        attention = branches.attention(stream, answer.generated)
        attention = attention[..., : text.frames]  # (positions, heads, frames)
        return text.aligned(hypothesis, alignment, attention, opening=len(text.opening))

    def _drafts(
        self, sessions: Sequence[Session], requests: Sequence[Request]
    ) -> list[list[int]] | None:
        """Return the unwritten ids of each stream's last translation.

        Only greedy search verifies drafts. Requests that may stop early need none: their answers
        end where the last one ended, or earlier.
        """
        if self.search.beams > 1:
            return None
        stops = can_stop_early(self.alignment, self.search.beams)
        return [
            session.backbone_state.draft
            if request.task is Task.TRANSLATION
            and request.max_words is None
            and not (stops and request.stop_at)
            else []
            for session, request in zip(sessions, requests, strict=True)
        ]

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        """Keep the ids that were not emitted as a draft of the next translation."""
        session.backbone_state.draft = hypothesis.token_ids[tokens:].tolist()

    def _with_states(
        self,
        sessions: Sequence[Session],
        branches: EncoderDecoderBranches,
        answers: Sequence[Answer],
        hypotheses: Sequence[Hypothesis],
    ) -> list[Hypothesis]:
        """Return the hypotheses with the decoder hidden states of all tokens.

        If the search stopped at the length limit, the last token of the answer has no hidden state
        yet, and this function feeds that token to the decoder. Each session's state keeps the
        branch of its hypothesis, so that the end token can be appended without decoding again.
        """
        positions = [answer.generated for answer in answers]  # cache positions of the fed tokens
        last_missing = [
            len(fed) < len(answer.tokens) for fed, answer in zip(positions, answers, strict=True)
        ]
        if any(last_missing):
            last_tokens = [answer.tokens[-1] if answer.tokens else self.end for answer in answers]
            appended = branches.append(last_tokens, positions)
            positions = [
                torch.cat([fed, new]) if missing else fed
                for fed, new, missing in zip(positions, appended, last_missing, strict=True)
            ]

        extended = []
        for stream, (session, hypothesis) in enumerate(zip(sessions, hypotheses, strict=True)):
            session.backbone_state.branch = Branch(branches, stream, positions[stream])
            states = branches.states(stream, positions[stream])
            extended.append(replace(hypothesis, decoder_states=states))
        return extended

    def _text(self, session: Session, request: Request) -> PartialText:
        """Return the partial text that a request continues; a transcription has no prefix."""
        samples = len(session.visible_audio(request.audio_end))
        return PartialText(
            opening=[
                *self.context(session, request.task),
                *self.opening(session, request.task),
            ],
            prefix=[] if request.task is Task.TRANSCRIPTION else session.prefix_ids.tolist(),
            vocabulary=self.vocabulary(session, request.task),
            frames=self._frames(samples),
        )

    def _frames(self, samples: int) -> Frames:
        """Return the number of frames that cover ``samples``, rounded up."""
        return -(-samples // self.frame_samples)

    def _limit(self, prompt: int) -> int:
        """Return the maximum number of new ids after a prompt of ``prompt`` ids.

        Raises:
            ZooError: If the prompt fills all positions of the decoder.
        """
        room = self.decoder.room
        if room is None:
            return self.max_tokens
        if prompt >= room:
            raise ZooError(
                f"The decoder has {room} positions, but {prompt} tokens of its opening and of "
                "written text are kept; choose a history that forgets text, or history.restart={}."
            )
        return min(self.max_tokens, room - prompt)

    def _unchanged(
        self, session: Session, request: Request, needs: frozenset[Capability]
    ) -> Hypothesis:
        """Return the hypothesis for audio that is too short for one encoder frame."""
        unchanged = self._text(session, request).unchanged(aligned=Capability.ALIGNMENT in needs)
        if request.task is Task.TRANSCRIPTION:
            return replace(unchanged, transcript="")
        return unchanged

    def text(self, token_ids: list[int]) -> str:
        """Detokenise ids; special tokens are skipped."""
        return detokenise(self.tokenizer, token_ids)
