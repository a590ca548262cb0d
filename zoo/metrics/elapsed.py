"""Computation-aware times under each convention (METRICS, Quantities). Knows no reference and reads no clock.

queue: a chunk waits until the one before it is done; the only rule that models a live stream.
cumulative: audio read plus all compute so far (SimulEval); over-charges long talks.
chunk: audio read plus the compute of this chunk (simulstream); never charges a backlog.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import get_args

from zoo.errors import ZooError, unknown
from zoo.types import ChunkTime, Convention, Instance, Seconds, queued


def finish_times(chunks: Sequence[ChunkTime], convention: Convention) -> list[Seconds]:
    """Wall-clock seconds since the stream began at which each chunk is done. Raises ZooError for another convention."""
    if convention == "queue":
        return queued(chunks)
    if convention == "cumulative":
        spent = accumulate(chunk.compute for chunk in chunks)
        return [chunk.arrival + compute for chunk, compute in zip(chunks, spent, strict=True)]
    if convention == "chunk":
        return [chunk.arrival + chunk.compute for chunk in chunks]
    raise unknown("elapsed convention", convention, get_args(Convention))


def under(instance: Instance, convention: Convention) -> Instance:
    """The instance with ``elapsed``, of its units and of its speech, under ``convention``.

    A recorded log without chunk times stays as it was logged, in its own convention: nothing else can be known.
    """
    if convention not in get_args(Convention):
        raise unknown("elapsed convention", convention, get_args(Convention))
    if not instance.chunks:
        return instance
    if len(instance.chunk_of) != len(instance.units):
        raise ZooError(
            f"Talk {instance.talk!r} has {len(instance.units)} units but {len(instance.chunk_of)} chunk numbers."
        )
    return instance.finishing(finish_times(instance.chunks, convention), convention)


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
