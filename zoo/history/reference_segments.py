"""Sentence-level input (SimulST): the reference segments of a talk, one after the other, nothing remembered across.

The setting of AlignAtt, EDAtt and most published curves. Knows no network.
"""

from typing import ClassVar

from zoo.errors import ZooError
from zoo.history.base import History
from zoo.streaming.session import Session
from zoo.types import Capability, Cut, Frames, Hypothesis, Samples


class ReferenceSegments(History):
    """Write a segment out where it ends, and hear nothing of what lies between segments.

    Ends are rounded up to a frame, beginnings down. Of segments that overlap, the later one begins where the earlier
    one ends; one that lies within another is part of it.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.AUDIO_TRIMMING})

    def onset(self, session: Session) -> Frames | None:
        """The beginning of the present segment, once it is heard. Raises ZooError for a stream without segments."""
        begin, _ = _present(session)
        if begin >= session.received_samples:
            return None
        return max(begin - session.audio_start, 0) // session.frame_samples

    def boundary(self, session: Session) -> Frames | None:
        """The end of the present segment, once it is heard."""
        _, end = _present(session)
        return (
            None
            if end > session.received_samples
            else -(-(end - session.audio_start) // session.frame_samples)
        )

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        """Between segments, forget all but the frame in which the next one may begin."""
        begin, _ = _present(session)
        gap = min(begin, session.received_samples) - session.audio_start
        return Cut(frames=max(gap, 0) // session.frame_samples)


def _present(session: Session) -> tuple[Samples, Samples]:
    """(begin, end) of the first segment that has not been written out; behind the last one, where nothing begins."""
    if not session.segments:
        raise ZooError(
            f"History ReferenceSegments needs reference segments, and the stream {session.talk!r} has none; choose "
            f"another history."
        )
    later = [
        span for span in sorted(session.segments) if span[1] > max(span[0], session.audio_start)
    ]
    never = session.received_samples + 1
    return later[0] if later else (never, never)
