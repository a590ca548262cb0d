"""The policy of StreamUni (section 3.1): truncate at sentence ends, else wait k words.

After each chunk the policy transcribes the kept audio. If the transcript shows that a sentence is
complete, the policy finishes its translation and drops its audio. Otherwise the translation stays
k words behind the transcript. The rules of truncation are in ``zoo/policies/truncation.py``.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.base.types import (
    SAMPLE_RATE,
    Capability,
    Cut,
    Decision,
    Frames,
    Hypothesis,
    Request,
    Samples,
    Seconds,
    StreamOutline,
    Task,
)
from zoo.policies.base import DecisionGenerator, Policy
from zoo.policies.truncation import (
    SentenceDetector,
    Truncation,
    paper_truncation,
    released_truncation,
)
from zoo.streaming.session import Session

Convention = Literal["paper", "released"]


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript of the kept audio up to a chunk boundary.

    Attributes:
        start: Start of the transcribed audio, in samples of the stream.
        end: End of the transcribed audio, in samples of the stream.
        token_ids: (n,) source token ids.
        text: Text of the transcript, stripped.
    """

    start: Samples
    end: Samples
    token_ids: Tensor
    text: str


@dataclass(slots=True)
class SegmentState:
    """State since the last truncation.

    Attributes:
        transcripts: One transcript per chunk, in order (the queue q of the paper).
        word_starts: (written,) bool, True where a written token begins a word.
    """

    transcripts: list[Transcript] = field(default_factory=list)
    word_starts: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))


@dataclass(kw_only=True, eq=False)
class TranscriptWaitK(Policy):
    """Transcribe after each chunk; truncate, or write O = C - k - W words (equation 6).

    C is the number of words in the transcript and W the number of words in the kept translation.
    Chinese words are those of jieba: with O characters for C words the translation would fall
    behind indefinitely. When the source has ended, the rest of the translation is written.

    The convention ``released`` differs from the paper as follows. One more word is written (O + 1).
    Transcripts are compared in lower case, and empty ones are skipped, so leading silence is kept.
    Silence keeps the newest chunk. Sentences end, and are cut, as in ``released_truncation``.
    The rest of the released code is not copied: audio at 22 050 Hz; talks from their first segment
    to the end of their last one (``data.whole=false``); a clock that steps back after a truncation;
    an empty transcript at the last chunk, which ends the output; lower-cased transcripts that are
    completed at a truncation; full stops removed from text between truncations; silence of more
    than 30 s that grows without a limit; a mark between two spaces as a word; Chinese output split
    at spaces, so that O words can be the whole text.

    Args:
        k: Number of words that the translation stays behind the transcript.
        truncate: Truncate at sentence ends. False: only the generation policy, for single
            sentences (SimulST) or with a history that cuts (the baseline Phi-4-VAD).
        max_seconds: A longer segment is truncated after the newest chunk. Less than the paper's
            30 s caps segments for models trained on shorter ones.
        relaxed: Also accept a next sentence if the words of the complete one were revised. Not in
            the paper.
        abbreviations: Abbreviations in addition to those of the source language.
        max_words: Nothing is written if more words than this may be written, except at the end of
            a segment (8 in the released code). None: no such limit. Not in the paper.
        convention: Follow the ``paper`` or the ``released`` code.

    Raises:
        ZooError: A value is out of range, or ``relaxed`` or ``abbreviations`` is combined with
            ``released``.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.TRANSCRIPT, Capability.PREFIX, Capability.AUDIO_TRIMMING}
    )

    k: int
    truncate: bool = True
    max_seconds: Seconds = 30.0
    relaxed: bool = False
    abbreviations: Sequence[str] = ()
    max_words: int | None = None
    convention: Convention = "paper"

    def __post_init__(self) -> None:
        check_choice("convention of TranscriptWaitK", self.convention, get_args(Convention))
        check_numbers("TranscriptWaitK", least=1, k=self.k, max_words=self.max_words)
        check_numbers("TranscriptWaitK", above=0, max_seconds=self.max_seconds)
        if self.convention == "released" and (self.relaxed or self.abbreviations):
            option = "relaxed=true" if self.relaxed else "abbreviations"
            raise ZooError(
                f"TranscriptWaitK: {option} needs convention=paper, because released has its own "
                "condition."
            )
        if not self.truncate:
            # The needs depend on the options; ``bind`` reads those of the instance.
            self.needs = TranscriptWaitK.needs - {Capability.AUDIO_TRIMMING}  # type: ignore[misc]

    def open(self) -> SegmentState:
        """Return an empty segment."""
        return SegmentState()

    def longest_audio(self, outline: StreamOutline) -> Samples:
        """Return the longest segment, which is truncated after the chunk that exceeds the limit."""
        if not self.truncate:
            return outline.duration
        return round(self.max_seconds * SAMPLE_RATE) + outline.chunk

    def decide(self, session: Session, state: SegmentState) -> DecisionGenerator:
        """Transcribe, then truncate or translate.

        After a truncation the system repeats the decision for the remaining audio.
        """
        yield from self._transcribe(session, state)

        truncation = self._find_truncation(session, state.transcripts)
        if truncation is not None:
            return (yield from _truncate_segment(session, state.transcripts, truncation))
        if session.must_flush:
            hypothesis = yield from _translate_to_end(session, state.transcripts)
            return Decision(write=hypothesis.num_new_tokens if hypothesis else 0)
        return (yield from self._translate_allowed_words(session, state))

    def _transcribe(
        self, session: Session, state: SegmentState
    ) -> Generator[Request, Hypothesis, None]:
        """Append the transcript x(n) of the visible audio (equation 4).

        Transcripts of audio whose beginning has since been dropped are invalid. After a truncation
        at l, the transcripts x(l+1) to x(n) are computed again.
        """
        now = session.audio_start + session.visible_audio().numel()
        invalid_ends = [
            transcript.end
            for transcript in state.transcripts
            if transcript.start != session.audio_start
        ]
        repeated = [end for end in invalid_ends if session.audio_start < end < now][-2:]
        if not self.truncate:
            repeated = []

        state.transcripts = [
            transcript
            for transcript in state.transcripts
            if transcript.start == session.audio_start
        ]
        transcribed = state.transcripts[-1].end if state.transcripts else session.audio_start
        for end in (end for end in [*repeated, now] if end > transcribed):
            answer = yield Request(task=Task.TRANSCRIPTION, audio_end=_frames_until(session, end))
            text = (answer.transcript or "").strip()
            state.transcripts.append(Transcript(session.audio_start, end, answer.token_ids, text))

    def _find_truncation(
        self, session: Session, transcripts: Sequence[Transcript]
    ) -> Truncation | None:
        """Return where to truncate, or None."""
        if not self.truncate:
            return None

        too_long = session.frames_to_seconds(session.visible_frames) > self.max_seconds
        texts = [transcript.text for transcript in transcripts]
        if self.convention == "released":
            truncation = None if too_long else released_truncation(texts)
        else:
            detector = SentenceDetector(session.source_language, self.abbreviations)
            truncation = paper_truncation(texts, detector, relaxed=self.relaxed)
        if truncation is None and too_long:
            return Truncation(chunk=-1, transcript=-1, reason="max_seconds")
        return truncation

    def _translate_allowed_words(self, session: Session, state: SegmentState) -> DecisionGenerator:
        """Write as many words as the transcript allows (equations 6 and 7)."""
        transcript = state.transcripts[-1]
        dropped = state.word_starts.numel() - session.prefix_ids.numel()
        kept_word_starts = state.word_starts[dropped:]

        source_words = len(session.source_language.words(transcript.text))
        allowed = source_words - self.k - int(kept_word_starts.sum())
        if self.convention == "released":
            allowed += 1
        if allowed <= 0 or (self.max_words is not None and allowed > self.max_words):
            return Decision(write=0)

        hypothesis = yield Request(transcript_ids=transcript.token_ids, max_words=allowed)
        write = hypothesis.tokens_in_first_words(allowed)
        new_word_starts = hypothesis.word_starts[hypothesis.prefix_length :][:write]
        state.word_starts = torch.cat([kept_word_starts, new_word_starts.to(kept_word_starts)])
        return Decision(write=write)


def _truncate_segment(
    session: Session, transcripts: Sequence[Transcript], truncation: Truncation
) -> DecisionGenerator:
    """Finish the translation of the audio before the truncation, drop that audio and repeat.

    Args:
        session: The stream.
        transcripts: Transcripts of the segment, one per chunk.
        truncation: Where to truncate.
    """
    finished = transcripts[: len(transcripts) + truncation.transcript + 1]
    hypothesis = yield from _translate_to_end(session, finished)
    write = hypothesis.num_new_tokens if hypothesis else 0
    frames = _frames_until(session, transcripts[truncation.chunk].end) or session.visible_frames
    cut = Cut(tokens=session.prefix_ids.numel() + write, frames=frames)
    return Decision(write=write, cut=cut, repeat=True, reason=truncation.reason)


def _translate_to_end(
    session: Session, transcripts: Sequence[Transcript]
) -> Generator[Request, Hypothesis, Hypothesis | None]:
    """Request the complete translation of the last transcript that is not empty (equation 5).

    Returns:
        The translation. None if nothing has been written and the last three transcripts (or all,
        if there are fewer) are empty: the audio contains no speech.
    """
    is_silent = not any(transcript.text for transcript in transcripts[-3:])
    if not session.prefix_ids.numel() and is_silent:
        return None

    spoken = (transcript for transcript in reversed(transcripts) if transcript.text)
    last = next(spoken, transcripts[-1])
    return (
        yield Request(audio_end=_frames_until(session, last.end), transcript_ids=last.token_ids)
    )


def _frames_until(session: Session, end: Samples) -> Frames | None:
    """Convert a position in the stream to a number of kept frames, rounded up.

    Args:
        session: The stream.
        end: Position in samples of the stream.

    Returns:
        Number of frames. None if they are all visible frames.
    """
    frames = -(-(end - session.audio_start) // session.frame_samples)
    return frames if frames < session.visible_frames else None
