"""A backbone that returns scripted transcripts, and a stream through it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from tests.fixtures.streams import new_system
from zoo.backbones.base import Backbone
from zoo.base.types import SAMPLE_RATE, Capability, Hypothesis, Request, Seconds, SpeechChunk, Task
from zoo.history.base import History
from zoo.policies.base import Policy
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem

FRAME = 10
CHUNK = 2 * FRAME
CHUNK_SECONDS: Seconds = CHUNK / SAMPLE_RATE

# Maps (chunks dropped, chunks received) to a transcript.
Script = dict[tuple[int, int], str]


class Transcriber(Backbone):
    """Looks up transcripts in a script and translates them word by word to upper case.

    Attributes:
        asked: (chunks dropped, chunks received, transcript to translate or None, maximum number
            of words) of each request.
    """

    exposes: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.TRANSCRIPT, Capability.PREFIX, Capability.AUDIO_TRIMMING}
    )
    frame_samples = FRAME

    def __init__(self, scripts: dict[str, Script]) -> None:
        super().__init__()
        self.scripts = scripts
        self.words: list[str] = []
        self.asked: list[tuple[int, int, str | None, int | None]] = []

    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        return [
            self.answer(session, request)
            for session, request in zip(sessions, requests, strict=True)
        ]

    def answer(self, session: Session, request: Request) -> Hypothesis:
        samples = session.visible_audio(request.audio_end).numel()
        span = (session.audio_start // CHUNK, (session.audio_start + samples) // CHUNK)
        if request.task is Task.TRANSCRIPTION:
            self.asked.append((*span, None, None))
            text = self.scripts[session.talk][span]
            return self.hypothesis(text.split(), 0, text)
        assert request.transcript_ids is not None
        source = self.text(request.transcript_ids.tolist())
        self.asked.append((*span, source, request.max_words))
        target, prefix = source.upper().split(), session.prefix_ids.numel()
        assert self.text(session.prefix_ids.tolist()) == " ".join(target[:prefix])
        return self.hypothesis(
            target[: None if request.max_words is None else prefix + request.max_words + 1], prefix
        )

    def hypothesis(
        self, words: Sequence[str], prefix: int, transcript: str | None = None
    ) -> Hypothesis:
        """Return one token per word; a punctuation mark alone does not begin a word."""
        self.words += [word for word in words if word not in self.words]
        ids = torch.tensor([self.words.index(word) for word in words[prefix:]], dtype=torch.long)
        starts = torch.tensor([any(map(str.isalnum, word)) for word in words], dtype=torch.bool)
        return Hypothesis(ids, starts, prefix, finished=True, transcript=transcript)

    def text(self, token_ids: list[int]) -> str:
        return " ".join(self.words[token] for token in token_ids)


@dataclass(slots=True)
class Streamed:
    """A system, its only stream and the text written after each chunk."""

    system: StreamingSystem
    session: Session
    texts: list[str] = field(default_factory=list)

    @property
    def asked(self) -> list[tuple[int, int, str | None, int | None]]:
        """Requests since the last access to this property."""
        asked = list(self.system.backbone.asked)  # type: ignore[arg-type]
        self.system.backbone.asked.clear()  # type: ignore[operator, union-attr]
        return asked

    @property
    def cut(self) -> int:
        """Number of dropped chunks."""
        return self.session.audio_start // CHUNK

    def step(self, samples: int = CHUNK, *, final: bool = False) -> str:
        """Process one chunk and return the text written."""
        [action] = self.system.step(
            [self.session], [SpeechChunk(torch.zeros(samples), final=final)]
        )
        self.texts.append(action.text.strip())
        return self.texts[-1]

    def run(self, chunks: int, *, final: bool = False) -> list[str]:
        """Process several chunks and return the text written after each."""
        return [self.step(final=final and chunk == chunks - 1) for chunk in range(chunks)]


def scripted_system(
    policy: Policy, scripts: dict[str, Script], history: History | None = None, source: str = "en"
) -> StreamingSystem:
    """Build a system with a :class:`Transcriber`."""
    return new_system(
        Transcriber(scripts), policy, history, chunk_seconds=CHUNK_SECONDS, source_language=source
    )


def streamed(
    policy: Policy,
    script: Script,
    history: History | None = None,
    *,
    source: str = "en",
    segments: Sequence[float] = (),
) -> Streamed:
    """Open a stream.

    Args:
        policy: The policy under test.
        script: Transcripts of the stream.
        history: History of the system. None: keep everything.
        source: Code of the source language.
        segments: Chunks at which reference segments begin and end, alternating.
    """
    system = scripted_system(policy, {"talk": script}, history, source)
    bounds = [chunk * CHUNK_SECONDS for chunk in segments]
    return Streamed(
        system, system.open("talk", segments=list(zip(bounds[::2], bounds[1::2], strict=True)))
    )


def growing(*texts: str, cut: int = 0) -> Script:
    """Return the script of a segment that begins after ``cut`` chunks, one text per chunk."""
    return {(cut, cut + chunks): text for chunks, text in enumerate(texts, start=1)}
