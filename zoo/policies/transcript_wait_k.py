"""StreamUni's policy (section 3.1): transcribe, truncate, else keep the translation k words behind the transcript.

The rules of truncation are in ``zoo.policies.truncation``. Knows no network.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from zoo.errors import ZooError, unknown_choice
from zoo.policies.base import DecisionGenerator, Policy
from zoo.policies.truncation import Sentences, paper_truncation, released_truncation
from zoo.streaming.session import Session
from zoo.types import (
    Capability,
    Cut,
    Decision,
    Frames,
    Hypothesis,
    Request,
    Samples,
    Seconds,
    Task,
)

CONVENTIONS = ("paper", "released")
MOST_WORDS = 8  # the released code writes nothing where it might write more


@dataclass(frozen=True, slots=True)
class Look:
    """A transcript of the kept audio up to a chunk boundary. start, end: that audio, in stream samples."""

    start: Samples
    end: Samples
    token_ids: Tensor
    text: str


@dataclass(slots=True)
class Segment:
    """What was heard and written since the last truncation: the queue q, and where written words begin (tokens,)."""

    looks: list[Look] = field(default_factory=list)
    word_starts: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))


class TranscriptWaitK(Policy):
    """Per chunk: x(n), the transcript; a truncation (the words before it are finished, and what lies behind it is
    heard anew); else O = C - k - written words (equation 6).

    C are words of the transcript, ``written`` those of the kept translation (Chinese: jieba's words). ``truncate``
    False: the generation policy alone, for sentences (SimulST) or with a history that cuts (the baseline Phi-4-VAD).
    max_seconds: a segment that exceeds it is truncated where it stands; below the paper's 30 s it is a segment cap, for
    models that know shorter segments only. relaxed: a sentence also counts as followed by another one when its words
    were revised; not in the paper. abbreviations: beside those known of the source language.

    convention ``released``: one word more (O + 1), nothing where that exceeds 8; transcripts are compared in lower case
    and empty ones left out, so that leading silence stays; silence keeps the newest chunk; a sentence is cut off after
    the last look before another one began, ended or not, and ":" ends one too. See docs/streamuni.md for what of it is
    a mistake and not copied.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.TRANSCRIPT, Capability.PREFIX, Capability.AUDIO_TRIMMING}
    )

    def __init__(
        self,
        *,
        k: int,
        truncate: bool = True,
        max_seconds: Seconds = 30.0,
        relaxed: bool = False,
        abbreviations: Sequence[str] = (),
        convention: Literal["paper", "released"] = "paper",
    ) -> None:
        """Raises ZooError for values that make no sense."""
        if convention not in CONVENTIONS:
            raise unknown_choice("convention of TranscriptWaitK", convention, CONVENTIONS)
        if k < 1 or max_seconds <= 0:
            raise ZooError(
                f"TranscriptWaitK needs k of at least 1 and max_seconds above 0, not {k} and {max_seconds}."
            )
        if relaxed and convention == "released":
            raise ZooError(
                "TranscriptWaitK: relaxed=true goes with convention=paper, for released has its own test."
            )
        self.k = k
        self.truncate = truncate
        self.max_seconds = max_seconds
        self.relaxed = relaxed
        self.abbreviations = tuple(abbreviations)
        self.convention = convention
        if not truncate:
            self.needs = TranscriptWaitK.needs - {Capability.AUDIO_TRIMMING}  # type: ignore[misc]  # binding asks the instance

    def open(self) -> Segment:
        """Nothing heard yet."""
        return Segment()

    def decide(self, session: Session, state: Segment) -> DecisionGenerator:
        """Transcribe and truncate, or translate. After a truncation it is asked once more, about the tail."""
        yield from self._listen(session, state)
        if (last := self._truncation(session, state.looks)) is not None:
            return (yield from _truncated(session, state.looks[: last + 1]))
        if session.must_flush:
            finished = yield from _finished(session, state.looks)
            return Decision(write=finished.num_new_tokens if finished else 0)
        return (yield from self._continued(session, state))

    def _listen(self, session: Session, state: Segment) -> Generator[Request, Hypothesis, None]:
        """x(n) (equation 4). Looks at audio whose front was cut since are void: behind a truncation at l, x(l+1) to
        x(n) are made anew."""
        now = session.audio_start + session.visible_audio().numel()
        void = [look.end for look in state.looks if look.start != session.audio_start]
        behind = (
            [end for end in void if session.audio_start < end < now][-2:] if self.truncate else []
        )
        state.looks = [look for look in state.looks if look.start == session.audio_start]
        known = state.looks[-1].end if state.looks else session.audio_start
        for end in (end for end in [*behind, now] if end > known):
            answer = yield Request(task=Task.TRANSCRIPTION, audio_end=_frames(session, end))
            text = (answer.transcript or "").strip()
            state.looks.append(Look(session.audio_start, end, answer.token_ids, text))

    def _truncation(self, session: Session, looks: Sequence[Look]) -> int | None:
        """Index of the look after which to cut, if any."""
        if not self.truncate:
            return None
        released = self.convention == "released"
        queue = [index for index, look in enumerate(looks) if look.text or not released]
        texts = [looks[index].text for index in queue]
        sentences = Sentences(session.source_language, self.abbreviations, colon=released)
        if released:
            found = released_truncation(texts, sentences)
        else:
            found = paper_truncation(texts, sentences, relaxed=self.relaxed)
        if found is not None:
            return queue[found]
        return (
            len(looks) - 1
            if session.frames_to_seconds(session.visible_frames) > self.max_seconds
            else None
        )

    def _continued(self, session: Session, state: Segment) -> DecisionGenerator:
        """Equations 6 and 7."""
        written = state.word_starts[state.word_starts.numel() - session.prefix_ids.numel() :]
        allowed = (
            len(session.source_language.words(state.looks[-1].text)) - self.k - int(written.sum())
        )
        if self.convention == "released":
            allowed = allowed + 1 if allowed < MOST_WORDS else 0
        if allowed <= 0:
            return Decision(write=0)
        hypothesis = yield Request(transcript_ids=state.looks[-1].token_ids, max_words=allowed)
        write = hypothesis.tokens_in_first_words(allowed)
        state.word_starts = torch.cat(
            [written, hypothesis.word_starts[hypothesis.prefix_length :][:write].to(written)]
        )
        return Decision(write=write)


def _truncated(session: Session, looks: Sequence[Look]) -> DecisionGenerator:
    """Finish what was said up to the last of ``looks`` and forget it, then look at what is left."""
    finished = yield from _finished(session, looks)
    new = finished.num_new_tokens if finished else 0
    frames = _frames(session, looks[-1].end) or session.visible_frames
    cut = Cut(tokens=session.prefix_ids.numel() + new, frames=frames)
    return Decision(write=new, cut=cut, repeat=True)


def _finished(
    session: Session, looks: Sequence[Look]
) -> Generator[Request, Hypothesis, Hypothesis | None]:
    """Equation 5: the translation to its end, after the last of ``looks`` that heard something.

    None: nothing was written, and three looks in a row heard nothing (or all there are), so nothing was said.
    """
    if not session.prefix_ids.numel() and not any(look.text for look in looks[-3:]):
        return None
    heard = next((look for look in reversed(looks) if look.text), looks[-1])
    return (yield Request(audio_end=_frames(session, heard.end), transcript_ids=heard.token_ids))


def _frames(session: Session, end: Samples) -> Frames | None:
    """``end``, a position in the stream, in kept frames (a started one counts); None where it is all there is."""
    frames = -(-(end - session.audio_start) // session.frame_samples)
    return frames if frames < session.visible_frames else None
