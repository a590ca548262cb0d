"""How far target speech is behind its source, segment by segment, and how that grows over a talk.

The lag of a segment is the end of the playback of its last recognised word minus the end of its
source.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Protocol

from zoo.base.types import Seconds

DRIFT_WINDOW: Seconds = 60.0


class SpokenSegment(Protocol):
    """A reference segment with the times of the words that were recognised for it."""

    @property
    def offset(self) -> Seconds:
        """Start in seconds from the start of the talk."""

    @property
    def duration(self) -> Seconds:
        """Duration in seconds."""

    @property
    def delays(self) -> tuple[Seconds, ...]:
        """Ideal end of the playback of each word in seconds from the start of the segment."""

    @property
    def elapsed(self) -> tuple[Seconds, ...]:
        """Computation-aware end of the playback of each word; may be empty."""


def segment_lags(
    segments: Sequence[SpokenSegment], *, aware: bool = False
) -> list[tuple[Seconds, Seconds]]:
    """Return the end of the source of each segment and its lag, in seconds.

    Segments without recognised words are left out.

    Args:
        segments: Segments of a talk with their recognised words.
        aware: Whether to use computation-aware times.
    """
    lags: list[tuple[Seconds, Seconds]] = []
    for segment in segments:
        times = segment.elapsed if aware else segment.delays
        if times:
            lags.append((segment.offset + segment.duration, max(times) - segment.duration))
    return lags


def drift(lags: Sequence[tuple[Seconds, Seconds]], source_length: Seconds) -> Seconds | None:
    """Return the mean lag of the last minute of a talk minus that of its first minute.

    Args:
        lags: (end of the source, lag) of each segment.
        source_length: Duration of the talk; below two minutes, its halves count as the minutes.

    Returns:
        The difference in seconds; None if no segment with words ends in one of the two minutes.
    """
    window = min(DRIFT_WINDOW, source_length / 2)
    first = [lag for end, lag in lags if end <= window]
    last = [lag for end, lag in lags if end > source_length - window]
    return fmean(last) - fmean(first) if first and last else None
