"""Sentence-level input (SimulST): translate the reference segments of a talk one after the other.

The setting of AlignAtt, EDAtt and most published latency-quality curves.
"""

from typing import ClassVar

from zoo.errors import ZooError
from zoo.history.base import History
from zoo.streaming.session import Session
from zoo.types import Capability, Cut, Frames, Hypothesis, Samples, StreamOutline


class ReferenceSegments(History):
    """Flush each reference segment at its end and drop the audio between segments.

    Segment ends are rounded up to a frame, segment starts are rounded down. If segments overlap,
    the later one begins where the earlier one ends. A segment within another one is part of it.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.AUDIO_TRIMMING})
    reads_unwritten = False

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
        """Return the end of the current segment once it is received."""
        _, end = _current_segment(session)
        if end > session.received_samples:
            return None
        return -(-(end - session.audio_start) // session.frame_samples)

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        """Between segments, drop all audio before the frame in which the next one may begin."""
        begin, _ = _current_segment(session)
        gap = min(begin, session.received_samples) - session.audio_start
        return Cut(frames=max(gap, 0) // session.frame_samples)

    def longest_audio(self, outline: StreamOutline) -> Samples:
        """Return the longest reference segment, with both ends rounded to frames."""
        lengths = [
            -(-end // outline.frame) - begin // outline.frame for begin, end in outline.segments
        ]
        return max(lengths, default=0) * outline.frame


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
