"""An offline encoder-decoder behind the backbone contract: hears all kept audio anew, continues what was written.

Knows neither a network's features nor its vocabulary: a concrete class fills ``build``, ``listen`` and ``opening``.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from zoo.backbones.base import dtype_named
from zoo.backbones.common.alignment import AlignmentConfig, Heads
from zoo.backbones.common.encoder_decoder.continuation import Branch, Continuation
from zoo.backbones.common.encoder_decoder.decoder import Decoder
from zoo.backbones.common.offline import Listener
from zoo.backbones.common.search import Answer, Context, SearchConfig, Stop
from zoo.backbones.common.search import search as find
from zoo.backbones.common.text.vocabulary import Vocabulary, containing
from zoo.errors import ZooError
from zoo.streaming.session import Session
from zoo.types import Capability, Frames, Hypothesis, Request, Task, UnitKind


@dataclass(frozen=True, slots=True)
class Text:
    """What a look is to continue. opening: ids before the text. prefix: ids of it that are there. frames: heard."""

    opening: list[int]
    prefix: list[int]
    vocabulary: Vocabulary
    frames: Frames

    def stop(self, max_words: int | None) -> Stop | None:
        """When an answer is enough: so many words and the token that begins the next one."""
        if max_words is None:
            return None
        return lambda tokens: self.vocabulary.words(tokens) >= max_words

    def hypothesis(self, answer: Answer, *, limit: int) -> Hypothesis:
        """The answer as a policy sees it, without an alignment."""
        ids = torch.tensor(self.prefix + answer.tokens, dtype=torch.long)
        cut = not answer.finished and len(answer.tokens) >= limit
        return Hypothesis(
            token_ids=ids[len(self.prefix) :],
            word_starts=self.vocabulary.word_starts(ids),
            prefix_length=len(self.prefix),
            finished=answer.finished or cut,
            truncated=cut,
            sentence_ends=self.vocabulary.sentence_ends(ids),
        )


class Seq2Seq(Listener):
    """An encoder-decoder whose cross-attention aligns target tokens with frames of its encoder.

    search: how an answer is generated. alignment: what is told about it. max_tokens: an answer has at most so many new
    ids, its end included. dtype: of weights and activations.

    ``build`` sets ``decoder``, ``tokenizer`` and ``end`` (the id that closes a text), and may fill ``never`` (ids
    never said) and ``never_first`` (ids that no text begins with).
    """

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
        """Create modules as children, in ``dtype``, read weights, and set ``decoder``, ``tokenizer`` and ``end``.

        Raises ZooError on what cannot be loaded.
        """

    @abstractmethod
    def opening(self, session: Session, task: Task) -> list[int]:
        """Decoder ids before the text, at least one: start, language, task."""

    def load(self) -> None:
        """Build the network and check what was configured against it. Raises ZooError where it does not fit."""
        self.build()
        self.eval()
        self._heads = self.alignment.chosen(layers=self.decoder.depth, heads=self.decoder.heads)
        self._vocabularies = {unit: Vocabulary(self.tokenizer, unit) for unit in get_args(UnitKind)}
        padding = {self.tokenizer.pad_token_id} - {self.end, None}
        self.never = [*self.never, *padding, *containing(self.tokenizer, self.search.suppress)]

    def vocabulary(self, session: Session, task: Task) -> Vocabulary:
        """What tokens of an answer are: by the unit of the target language, of the source's for a transcript."""
        return self._vocabularies[
            (
                session.source_language if task is Task.TRANSCRIPTION else session.target_language
            ).unit
        ]

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Hear all kept audio (once per look), then continue the written prefix, which is forced in one pass.

        A stream whose audio is too short for a single frame of memory says nothing.
        """
        waves = [
            session.visible_audio(request.audio_end)
            for session, request in zip(sessions, requests, strict=True)
        ]
        memories = self.hear(sessions, waves)
        hypotheses = [
            self._silence(*asked, needs) for asked in zip(sessions, requests, waves, strict=True)
        ]
        for task in Task:
            live = [
                i for i, request in enumerate(requests) if request.task is task and len(memories[i])
            ]
            if not live:
                continue
            asked = (
                [sessions[i] for i in live],
                [requests[i] for i in live],
                [memories[i] for i in live],
            )
            answers = (
                self.transcribe(*asked)
                if task is Task.TRANSCRIPTION
                else self._continue(*asked, needs)
            )
            for index, answer in zip(live, answers, strict=True):
                hypotheses[index] = answer
        return hypotheses

    def transcribe(
        self, sessions: Sequence[Session], requests: Sequence[Request], memories: Sequence[Tensor]
    ) -> list[Hypothesis]:
        """Answer TRANSCRIPT requests (for classes that expose it): source tokens, no prefix, ``transcript`` set.

        Here by the decoder itself after ``opening(session, Task.TRANSCRIPTION)``; a network with other means overrides.
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
        """Search what follows opening and prefix."""
        texts = [
            self._text(session, request)
            for session, request in zip(sessions, requests, strict=True)
        ]
        prompts = [text.opening + text.prefix for text in texts]
        limits = [self._limit(len(prompt)) for prompt in prompts]
        heads = self._heads if Capability.ALIGNMENT in needs else {}
        spoken = Capability.SPEECH in needs
        continuation = Continuation(self.decoder, memories, prompts, heads=heads, states=spoken)
        answers = find(
            continuation,
            self.search,
            contexts=[Context(earlier=prompt, prompt=[]) for prompt in prompts],
            limits=limits,
            end=self.end,
            never=self.never,
            never_first=[[] if text.prefix else self.never_first for text in texts],
            stops=[
                text.stop(request.max_words) for text, request in zip(texts, requests, strict=True)
            ],
        )
        hypotheses = []
        for index, (text, answer) in enumerate(zip(texts, answers, strict=True)):
            hypothesis = text.hypothesis(answer, limit=limits[index])
            if heads:
                rows = continuation.looked(index, answer.generated)[..., : text.frames]
                hypothesis = replace(
                    hypothesis, alignment=self._align(rows, text, hypothesis.num_new_tokens)
                )
            hypotheses.append(hypothesis)
        return (
            self._with_states(sessions, continuation, answers, hypotheses) if spoken else hypotheses
        )

    def _with_states(
        self,
        sessions: Sequence[Session],
        continuation: Continuation,
        answers: Sequence[Answer],
        hypotheses: Sequence[Hypothesis],
    ) -> list[Hypothesis]:
        """The hypotheses with the hidden states of all their tokens; an answer that was cut was not fed its last one.

        Each session's state keeps its branch, so that what is written can be closed without running it again.
        """
        places = [answer.generated for answer in answers]
        cut = [len(fed) < len(answer.tokens) for fed, answer in zip(places, answers, strict=True)]
        if any(cut):
            last = [answer.tokens[-1] if answer.tokens else self.end for answer in answers]
            fed = continuation.end_with(last, places)
            places = [
                torch.cat([places[i], fed[i]]) if cut[i] else places[i] for i in range(len(places))
            ]
        told = []
        for stream, (session, hypothesis) in enumerate(zip(sessions, hypotheses, strict=True)):
            session.backbone_state.branch = Branch(continuation, stream, places[stream])
            told.append(
                replace(hypothesis, decoder_states=continuation.states(stream, places[stream]))
            )
        return told

    def _align(self, rows: Tensor, text: Text, new: int) -> Tensor:
        return self.alignment.align(
            rows, opening=len(text.opening), prefix=len(text.prefix), new=new
        ).cpu()

    def _text(self, session: Session, request: Request) -> Text:
        return Text(
            opening=self.opening(session, request.task),
            prefix=[] if request.task is Task.TRANSCRIPTION else session.prefix_ids.tolist(),
            vocabulary=self.vocabulary(session, request.task),
            frames=self._frames(session.visible_audio(request.audio_end)),
        )

    def _frames(self, wave: Tensor) -> Frames:
        """Frames that a wave covers, a started one included."""
        return -(-len(wave) // self.frame_samples)

    def _limit(self, prompt: int) -> int:
        """Most new ids after a prompt of so many. Raises ZooError where not even one has a position."""
        room = self.decoder.room
        if room is None:
            return self.max_tokens
        if prompt >= room:
            raise ZooError(
                f"The decoder has {room} positions, but {prompt} tokens of its opening and of written text are kept; "
                "choose a history that forgets text."
            )
        return min(self.max_tokens, room - prompt)

    def _silence(
        self, session: Session, request: Request, wave: Tensor, needs: frozenset[Capability]
    ) -> Hypothesis:
        """The answer to audio without a frame of memory: nothing new, no frame more likely than others."""
        text = self._text(session, request)
        silence = text.hypothesis(Answer([], True, torch.empty(0)), limit=self.max_tokens)
        if request.task is Task.TRANSCRIPTION:
            return replace(silence, transcript="")
        if Capability.ALIGNMENT in needs:
            return replace(
                silence, alignment=torch.zeros(len(text.prefix), max(1, self._frames(wave)))
            )
        return silence

    def text(self, token_ids: list[int]) -> str:
        """Plain detokenisation, special tokens left out."""
        return str(
            self.tokenizer.decode(
                token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )
