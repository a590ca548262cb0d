"""Corrections of cumulative elapsed times, as the tools that publish such logs apply them."""

from collections.abc import Sequence
from math import inf

from zoo.base.types import Seconds


def fbk_elapsed(
    delays: Sequence[float],
    elapsed: Sequence[float],
    offsets: Sequence[float],
    *,
    clamp: bool = True,
) -> list[float]:
    """Correct a cumulative log as FBK's StreamLAAL does; all times have the same unit.

    A unit with the same logged elapsed time as the previous unit gets the lag of that unit, as it
    is after subtraction and clamping; only this order reproduces the published numbers.

    Args:
        delays: Logged delay of each unit.
        elapsed: Logged elapsed time of each unit.
        offsets: Start of the segment of each unit.
        clamp: Whether negative times become 0 (v2.0; v1.0.0 keeps them).

    Returns:
        Time of each unit from the start of its segment.
    """
    least = 0.0 if clamp else -inf
    corrected: list[float] = []
    lag = 0.0
    for index, (delay, logged, offset) in enumerate(zip(delays, elapsed, offsets, strict=True)):
        if index == 0:
            time = logged
        elif logged == elapsed[index - 1]:
            time = lag + delay
        else:
            time = logged - elapsed[index - 1] + delays[index - 1]

        corrected.append(max(least, time - offset))
        lag = corrected[-1] - max(least, delay - offset)
    return corrected


def omnisteval_elapsed(delays: Sequence[Seconds], elapsed: Sequence[Seconds]) -> list[Seconds]:
    """Correct a cumulative log as ``omnisteval --fix_simuleval_emission_ca`` does.

    Args:
        delays: Logged delay of each unit in seconds.
        elapsed: Logged elapsed time of each unit in seconds.

    Returns:
        Elapsed seconds of each unit, never decreasing.
    """
    corrected: list[Seconds] = []
    for index, logged in enumerate(elapsed):
        if index == 0:
            corrected.append(logged)
        else:
            time = logged - elapsed[index - 1] + delays[index - 1]
            corrected.append(max(time, corrected[-1]))
    return corrected
