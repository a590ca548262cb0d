"""How two tools of the field read the cumulative elapsed times of a log."""

from collections.abc import Sequence

from zoo.types import Seconds


def fbk_elapsed(
    delays: Sequence[Seconds], elapsed: Sequence[Seconds], offsets: Sequence[Seconds]
) -> list[Seconds]:
    """StreamLAAL v2.0's reading of a cumulative log: per unit, seconds from its segment's start, never below 0.

    delays, elapsed: as logged. offsets: start of the segment of each unit. A unit with the raw elapsed of the one
    before it takes over that one's lag, as it stands after subtraction and clamping (the published numbers say so).
    """
    result: list[Seconds] = []
    lag = 0.0
    for index, (delay, raw, offset) in enumerate(zip(delays, elapsed, offsets, strict=True)):
        if index == 0:
            stream = raw
        elif raw == elapsed[index - 1]:
            stream = lag + delay
        else:
            stream = raw - elapsed[index - 1] + delays[index - 1]
        result.append(max(0.0, stream - offset))
        lag = result[-1] - max(0.0, delay - offset)
    return result


def omnisteval_elapsed(delays: Sequence[Seconds], elapsed: Sequence[Seconds]) -> list[Seconds]:
    """What ``omnisteval --fix_simuleval_emission_ca`` makes of a cumulative log: seconds, never going back."""
    result: list[Seconds] = []
    for index, raw in enumerate(elapsed):
        if index == 0:
            result.append(raw)
        else:
            result.append(max(raw - elapsed[index - 1] + delays[index - 1], result[-1]))
    return result
