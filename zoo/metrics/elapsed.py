"""Corrections of cumulative elapsed times, as the tools that publish such logs apply them."""

from collections.abc import Sequence

from zoo.types import Seconds


def fbk_elapsed(
    delays: Sequence[Seconds], elapsed: Sequence[Seconds], offsets: Sequence[Seconds]
) -> list[Seconds]:
    """Correct a cumulative log as FBK's StreamLAAL v2.0 does.

    A unit with the same logged elapsed time as the previous unit gets the lag of that unit, as it
    is after subtraction and clamping; only this order reproduces the published numbers.

    Args:
        delays: Logged delay of each unit in seconds.
        elapsed: Logged elapsed time of each unit in seconds.
        offsets: Start of the segment of each unit in seconds.

    Returns:
        Seconds from the start of the unit's segment, at least 0, one per unit.
    """
    corrected: list[Seconds] = []
    lag = 0.0
    for index, (delay, logged, offset) in enumerate(zip(delays, elapsed, offsets, strict=True)):
        if index == 0:
            time = logged
        elif logged == elapsed[index - 1]:
            time = lag + delay
        else:
            time = logged - elapsed[index - 1] + delays[index - 1]

        corrected.append(max(0.0, time - offset))
        lag = corrected[-1] - max(0.0, delay - offset)
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
