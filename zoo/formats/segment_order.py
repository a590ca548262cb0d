"""The order of the segments of a recording: that of time, whatever the order of their list."""

import logging
from collections.abc import Sequence
from itertools import pairwise

from zoo.base.errors import ZooError
from zoo.base.talks import Segment
from zoo.base.types import Seconds

logger = logging.getLogger(__name__)

SAME: Seconds = 1e-3  # times that differ by less than this are equal


def in_order(listed: Sequence[tuple[Segment, str]], owner: object) -> tuple[Segment, ...]:
    """Return the segments of a recording in order of their start.

    Output is assigned to segments from the first to the last one, so another order gives wrong
    scores. Speakers interrupt each other and corpora round times, so segments may overlap in part;
    a warning names the first two. A segment inside another one is an error of the list.

    Args:
        listed: the segments, each with the file and line that list it.
        owner: the recording, for the warning.

    Raises:
        ZooError: a segment lies in another one.
    """
    pairs = sorted(listed, key=lambda pair: pair[0].offset)
    overlaps = []
    for (before, first), (after, second) in pairwise(pairs):
        if after.offset >= before.end - SAME:
            continue
        if after.end <= before.end + SAME or after.offset <= before.offset + SAME:
            raise ZooError(
                f"{second}: the segment from {after.offset:.2f} to {after.end:.2f} s and the one "
                f"from {before.offset:.2f} to {before.end:.2f} s ({first}) overlap, and one lies "
                "in the other."
            )
        overlaps.append((first, second))
    if overlaps:
        first, second = overlaps[0]
        logger.warning(
            "%s: %d segments overlap the one before, first %s and %s",
            owner,
            len(overlaps),
            first,
            second,
        )
    return tuple(segment for segment, _ in pairs)
