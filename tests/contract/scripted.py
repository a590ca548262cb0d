"""Networks that play a script: sound is made of numbered words, and each is translated by rule. For tests only.

A frame is 512 samples (32 ms) and a word four frames; a sample's whole part is the word's number, its fraction the
frame within the word. Word 0 is silence; words from 50 on end a sentence. Word 7 reads " w7en" in tokens 14 and 15.
A word heard in part is guessed wrong, and differently with every frame.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.streaming.session import Session
from zoo.streaming.simulate import Source
from zoo.types import SAMPLE_RATE, Capability, Cut, Frames, Hypothesis, Request, Seconds, Task

FRAME = 512
WORD_FRAMES = 4
GUESS = 1001  # odd ids from here on continue a word wrongly
SENTENCE_END = 50
OPENING = 2  # states before those of the text


class Heard(NamedTuple):
    """A source word, the number of its frames received and the index of the last one."""

    word: int
    part: Frames
    last: Frames


def speak(words: Sequence[int]) -> Tensor:
    """(512 * 4 * words,) samples."""
    frames = [word + part / 8 for word in words for part in range(WORD_FRAMES)]
    return torch.tensor(frames).repeat_interleave(FRAME)


def source(words: Sequence[int], chunk_samples: int, talk: str = "talk") -> Source:
    """The words as a stream; its reference segments lie between silences."""
    return Source(talk, speak(words).split(chunk_samples) if words else (), segments=spans(words))


def spans(words: Sequence[int]) -> list[tuple[Seconds, Seconds]]:
    """Begin and end of the speech between silences, in seconds; the whole audio without speech."""
    word_seconds, found, begin = WORD_FRAMES * FRAME / SAMPLE_RATE, [], 0
    for said, run in groupby(words, key=bool):
        end = begin + len(list(run))
        if said:
            found.append((begin * word_seconds, end * word_seconds))
        begin = end
    return found or [(0.0, begin * word_seconds)]


def listen(samples: Tensor) -> list[Heard]:
    """The words in some audio; the first may lack its beginning, the last its end."""
    words: list[Heard] = []
    for frame, value in enumerate(samples[::FRAME].tolist()):
        word, part = int(value), round(value % 1 * 8) + 1
        if words and part > 1 and words[-1].word == word:
            words.pop()
        words.append(Heard(word, part, frame))
    return [heard for heard in words if heard.word]


def translate(heard: Heard) -> list[int]:
    """The two tokens of a word; the second is wrong until the whole word has been received."""
    return [
        2 * heard.word,
        2 * heard.word + 1 if heard.part == WORD_FRAMES else GUESS + 2 * heard.part,
    ]


def transcribe(heard: Heard) -> str:
    """A word's number; the full stop appears only with its last frame."""
    return (
        f"{heard.word}."
        if heard.word >= SENTENCE_END and heard.part == WORD_FRAMES
        else f"{heard.word}"
    )


def written(words: Sequence[int]) -> str:
    """The right translation."""
    return " ".join(f"w{word}en" for word in words if word)


def opened(tokens: Tensor) -> Tensor:
    """(tokens,) ids to (opening + tokens, 1) states: the ids themselves."""
    return torch.cat([torch.full((OPENING,), -1.0), tokens]).double()[:, None]


class Scripted(Backbone):
    """Encodes all kept audio per request, as an offline model, and exposes all but turns."""

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
        heard = listen(session.visible_audio(request.audio_end))
        transcript = " ".join(transcribe(word) for word in heard)
        if request.task is Task.TRANSCRIPTION:
            source_ids = torch.tensor([word.word for word in heard], dtype=torch.long)
            return Hypothesis(
                source_ids, torch.ones(len(heard), dtype=torch.bool), transcript=transcript
            )
        if request.transcript_ids is not None:
            assert request.transcript_ids.tolist() == [word.word for word in heard]
        prefix = session.prefix_ids.numel()
        tokens = [token for word in heard for token in translate(word)][prefix:]
        finished = all(word.part == WORD_FRAMES for word in heard)
        if request.max_words is not None and len(tokens) > 2 * request.max_words:
            tokens, finished = tokens[: 2 * request.max_words + 1], False
        rows = prefix + len(tokens)
        states = torch.cat([session.prefix_ids, torch.tensor(tokens, dtype=torch.long)])
        last = torch.tensor([word.last for word in heard for _ in range(2)], dtype=torch.long)[
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
        """As sentencepiece does it: the first space is lost."""
        pieces = [
            f"?{token - GUESS}" if token >= GUESS else "en" if token % 2 else f" w{token // 2}"
            for token in token_ids
        ]
        return "".join(pieces).removeprefix(" ")


@dataclass(slots=True)
class Conversation:
    """State of a turn-taking network: audio of an unfinished word, and sizes of committed turns."""

    rest: Tensor = field(default_factory=lambda: torch.zeros(0))
    turns: list[int] = field(default_factory=list)


class TurnTaker(Scripted):
    """Encodes each chunk once, generates the words that ended in it and keeps its own window."""

    exposes: ClassVar[frozenset[Capability]] = frozenset({Capability.TURNS})

    def open(self, session: Session) -> Conversation:
        return Conversation()

    def answer(
        self, session: Session, request: Request, needs: frozenset[Capability]
    ) -> Hypothesis:
        conversation: Conversation = session.backbone_state
        samples = torch.cat([conversation.rest, session.visible_audio(request.audio_end)])
        session.forget(Cut(tokens=session.prefix_ids.numel(), frames=session.kept_frames))
        heard = listen(samples)
        partial = bool(heard) and heard[-1].part < WORD_FRAMES and not session.must_flush
        conversation.rest = samples[-heard.pop().part * FRAME :] if partial else samples[:0]
        tokens = torch.tensor(
            [token for word in heard for token in translate(word)], dtype=torch.long
        )
        return Hypothesis(tokens, torch.arange(tokens.numel()) % 2 == 0, finished=True)

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        session.backbone_state.turns.append(tokens)
