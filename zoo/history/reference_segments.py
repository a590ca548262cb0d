"""Sentence-level input (SimulST): translate the reference segments of a talk one after the other.

The setting of AlignAtt, EDAtt and most published latency-quality curves.
"""

from typing import ClassVar

from zoo.base.errors import ZooError, check_numbers
from zoo.base.types import (
    SAMPLE_RATE,
    Capability,
    Cut,
    Frames,
    Hypothesis,
    Samples,
    Seconds,
    StreamOutline,
)
from zoo.history.base import History
from zoo.streaming.session import Session


class ReferenceSegments(History):
    """Flush each reference segment at its end and drop the audio between segments.

    Segment ends are rounded up to a frame, segment starts are rounded down. If segments overlap,
    the later one begins where the earlier one ends. A segment within another one is part of it.

    Args:
        margin_seconds: Audio after a segment that is translated with it, as far as it has been
            received and no other segment begins. Networks lose words that end with the audio. 0
            (the papers): a segment ends at the time that the corpus gives.

    Raises:
        ZooError: ``margin_seconds`` is out of range.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.AUDIO_TRIMMING})
    reads_unwritten = False

    def __init__(self, *, margin_seconds: Seconds = 0.0) -> None:
        check_numbers("ReferenceSegments", least=0, margin_seconds=margin_seconds)
        self.margin_samples = round(margin_seconds * SAMPLE_RATE)

    def onset(self, session: Session) -> Frames | None:
        """Return the start of the current segment once it is received.

        Raises:
            ZooError: The stream has no reference segments.
        """
        begin, _ = _current_segment(session)
        if begin >= session.received_samples:
            return None
        return max(begin - session.audio_start, 0) // session.frame_samples

    def boundary(self, session: Session) -> Frames | None:
        """Return the end of the current segment, with its margin, once the end is received."""
        _, end = _current_segment(session)
        if end > session.received_samples:
            return None
        margin = min(self.margin_samples, _room_after(session, end))
        return -(-(end + margin - session.audio_start) // session.frame_samples)

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        """Between segments, drop all audio before the frame in which the next one may begin."""
        begin, _ = _current_segment(session)
        gap = min(begin, session.received_samples) - session.audio_start
        return Cut(frames=max(gap, 0) // session.frame_samples)

    def longest_audio(self, outline: StreamOutline) -> Samples:
        """Return the longest reference segment, with both ends rounded to frames.

        A margin never exceeds what the backbone accepts; see ``boundary``.
        """
        lengths = [
            -(-end // outline.frame) - begin // outline.frame for begin, end in outline.segments
        ]
        return max(lengths, default=0) * outline.frame


def _room_after(session: Session, end: Samples) -> Samples:
    """Return the received samples after a segment that no later segment has and that still fit.

    Args:
        session: The stream.
        end: End of the current segment in stream samples, already received.
    """
    limits = [session.received_samples]
    limits += [begin for begin, last in session.segments if last > end]
    if session.longest_input is not None:
        whole_frames = session.longest_input // session.frame_samples
        limits.append(session.audio_start + whole_frames * session.frame_samples)
    return max(min(limits) - end, 0)


def _current_segment(session: Session) -> tuple[Samples, Samples]:
    """Return (begin, end) of the first segment that has not been flushed, in stream samples.

    After the last segment, both lie beyond the received audio.
    """
    if not session.segments:
        raise ZooError(
            f"History ReferenceSegments needs reference segments, and the stream {session.talk!r} "
            f"has none; choose another history."
        )
    for begin, end in sorted(session.segments):
        if end > max(begin, session.audio_start):
            return begin, end
    beyond = session.received_samples + 1
    return beyond, beyond
