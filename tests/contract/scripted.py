"""Rule-based backbones for tests: audio consists of numbered words, each translated by a rule.

A frame has 512 samples (32 ms) and a word four frames. The integer part of a sample is the number
of the word, its fraction the frame within the word. Word 0 is silence; words from 50 on end a
sentence. Word 7 is translated as " w7en" with tokens 14 and 15. The translation of an incomplete
word is wrong and different for each number of frames.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.base.types import SAMPLE_RATE, Capability, Cut, Frames, Hypothesis, Request, Seconds, Task
from zoo.streaming.session import Session
from zoo.streaming.simulate import Source

FRAME = 512
WORD_FRAMES = 4
GUESS = 1001  # odd ids from this one on are wrong continuations of a word
SENTENCE_END = 50
OPENING = 2  # decoder states before those of the text


class SourceWord(NamedTuple):
    """A recognised word of the source.

    Attributes:
        word: Number of the word.
        part: Number of frames received.
        last: Index of the last frame.
    """

    word: int
    part: Frames
    last: Frames


def speak(words: Sequence[int]) -> Tensor:
    """Return the (512 * 4 * words,) samples of some words."""
    frames = [word + part / 8 for word in words for part in range(WORD_FRAMES)]
    return torch.tensor(frames).repeat_interleave(FRAME)


def source(words: Sequence[int], chunk_samples: int, talk: str = "talk") -> Source:
    """Return a stream of words with reference segments between silences."""
    return Source(talk, speak(words).split(chunk_samples) if words else (), segments=spans(words))


def spans(words: Sequence[int]) -> list[tuple[Seconds, Seconds]]:
    """Return (begin, end) in seconds of each run of words between silences.

    A stream of silence is one span.
    """
    word_seconds, found, begin = WORD_FRAMES * FRAME / SAMPLE_RATE, [], 0
    for is_speech, run in groupby(words, key=bool):
        end = begin + len(list(run))
        if is_speech:
            found.append((begin * word_seconds, end * word_seconds))
        begin = end
    return found or [(0.0, begin * word_seconds)]


def recognise(samples: Tensor) -> list[SourceWord]:
    """Return the words in some audio; the first and the last one may be incomplete."""
    words: list[SourceWord] = []
    for frame, value in enumerate(samples[::FRAME].tolist()):
        word, part = int(value), round(value % 1 * 8) + 1
        if words and part > 1 and words[-1].word == word:
            words.pop()
        words.append(SourceWord(word, part, frame))
    return [word for word in words if word.word]


def translate(source_word: SourceWord) -> list[int]:
    """Return the two tokens of a word; the second one is wrong while the word is incomplete."""
    first = 2 * source_word.word
    is_complete = source_word.part == WORD_FRAMES
    return [first, first + 1 if is_complete else GUESS + 2 * source_word.part]


def transcribe(source_word: SourceWord) -> str:
    """Return the number of a word; a full stop follows only a complete word."""
    word, part, _ = source_word
    return f"{word}." if word >= SENTENCE_END and part == WORD_FRAMES else f"{word}"


def text_of(words: Sequence[int]) -> str:
    """Return the correct translation."""
    return " ".join(f"w{word}en" for word in words if word)


def opened(tokens: Tensor) -> Tensor:
    """Return (opening + tokens, 1) decoder states for (tokens,) ids: the ids themselves."""
    return torch.cat([torch.full((OPENING,), -1.0), tokens]).double()[:, None]


class Scripted(Backbone):
    """Decodes from all kept audio, as an offline model does, with all capabilities but turns."""

    exposes: ClassVar[frozenset[Capability]] = frozenset(Capability) - {Capability.TURNS}
    frame_samples = FRAME

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []
        self.requests: list[Request] = []
        self.needs: frozenset[Capability] = frozenset()

    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        self.batches.append(len(sessions))
        self.requests += requests
        self.needs = needs
        return [
            self.answer(session, request, needs)
            for session, request in zip(sessions, requests, strict=True)
        ]

    def answer(
        self, session: Session, request: Request, needs: frozenset[Capability]
    ) -> Hypothesis:
        words = recognise(session.visible_audio(request.audio_end))
        transcript = " ".join(transcribe(word) for word in words)
        if request.task is Task.TRANSCRIPTION:
            source_ids = torch.tensor([word.word for word in words], dtype=torch.long)
            return Hypothesis(
                source_ids, torch.ones(len(words), dtype=torch.bool), transcript=transcript
            )
        if request.transcript_ids is not None:
            assert request.transcript_ids.tolist() == [word.word for word in words]
        prefix = session.prefix_ids.numel()
        tokens = [token for word in words for token in translate(word)][prefix:]
        finished = all(word.part == WORD_FRAMES for word in words)
        if request.max_words is not None and len(tokens) > 2 * request.max_words:
            tokens, finished = tokens[: 2 * request.max_words + 1], False
        rows = prefix + len(tokens)
        states = torch.cat([session.prefix_ids, torch.tensor(tokens, dtype=torch.long)])
        last = torch.tensor([word.last for word in words for _ in range(2)], dtype=torch.long)[
            :rows
        ]
        return Hypothesis(
            token_ids=states[prefix:],
            word_starts=torch.arange(rows) % 2 == 0,
            prefix_length=prefix,
            finished=finished,
            sentence_ends=(states % 2 == 1) & (states >= 2 * SENTENCE_END) & (states < GUESS),
            alignment=torch.eye(session.visible_frames)[last]
            if Capability.ALIGNMENT in needs
            else None,
            transcript=transcript,
            decoder_states=opened(states) if Capability.SPEECH in needs else None,
        )

    def text(self, token_ids: list[int]) -> str:
        """Decode tokens as sentencepiece does: the first space is dropped."""
        pieces = [
            f"?{token - GUESS}" if token >= GUESS else "en" if token % 2 else f" w{token // 2}"
            for token in token_ids
        ]
        return "".join(pieces).removeprefix(" ")


@dataclass(slots=True)
class Conversation:
    """State of one stream of :class:`TurnTaker`.

    Attributes:
        rest: Samples of an incomplete last word.
        turns: Number of tokens of each committed turn.
    """

    rest: Tensor = field(default_factory=lambda: torch.zeros(0))
    turns: list[int] = field(default_factory=list)


class TurnTaker(Scripted):
    """Translates the words that end in each chunk and maintains a window of its own."""

    exposes: ClassVar[frozenset[Capability]] = frozenset({Capability.TURNS})

    def open(self, session: Session) -> Conversation:
        return Conversation()

    def answer(
        self, session: Session, request: Request, needs: frozenset[Capability]
    ) -> Hypothesis:
        conversation: Conversation = session.backbone_state
        samples = torch.cat([conversation.rest, session.visible_audio(request.audio_end)])
        session.forget(Cut(tokens=session.prefix_ids.numel(), frames=session.kept_frames))
        words = recognise(samples)
        partial = bool(words) and words[-1].part < WORD_FRAMES and not session.must_flush
        conversation.rest = samples[-words.pop().part * FRAME :] if partial else samples[:0]
        tokens = torch.tensor(
            [token for word in words for token in translate(word)], dtype=torch.long
        )
        return Hypothesis(tokens, torch.arange(tokens.numel()) % 2 == 0, finished=True)

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        session.backbone_state.turns.append(tokens)
