"""Computation-aware times under each elapsed convention, derived from the times of the chunks.

queue: a chunk waits until the computation of the previous chunk is done, as in a live stream.
cumulative: source received plus the compute of all chunks so far (SimulEval). Elapsed times of long
    talks are too large, because compute during the arrival of later audio counts as delay.
chunk: source received plus the compute of this chunk (simulstream). Elapsed times are too small if
    compute is slower than the source, because chunks never wait.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import get_args

from zoo.base.errors import ZooError, check_choice, unknown_choice
from zoo.base.types import ChunkTime, Convention, Instance, Seconds, queue_finish_times


def finish_times(chunks: Sequence[ChunkTime], convention: Convention) -> list[Seconds]:
    """Return the time at which each chunk is done.

    Args:
        chunks: Arrival and compute times, in order.
        convention: Name of the elapsed convention.

    Returns:
        Wall-clock seconds since the stream began, one per chunk.

    Raises:
        ZooError: The convention is unknown.
    """
    if convention == "queue":
        return queue_finish_times(chunks)
    if convention == "cumulative":
        compute_so_far = accumulate(chunk.compute for chunk in chunks)
        arrivals = (chunk.arrival for chunk in chunks)
        return [
            arrival + compute for arrival, compute in zip(arrivals, compute_so_far, strict=True)
        ]
    if convention == "chunk":
        return [chunk.arrival + chunk.compute for chunk in chunks]
    raise unknown_choice("elapsed convention", convention, get_args(Convention))


def with_convention(instance: Instance, convention: Convention) -> Instance:
    """Return an instance with elapsed times, of units and of speech, under another convention.

    A recorded log without chunk times keeps the convention in which it was logged.

    Raises:
        ZooError: The convention is unknown, or the units and their chunk numbers differ in number.
    """
    check_choice("elapsed convention", convention, get_args(Convention))
    if not instance.chunks:
        return instance
    if len(instance.chunk_indices) != len(instance.units):
        raise ZooError(
            f"Talk {instance.talk!r} has {len(instance.units)} units but "
            f"{len(instance.chunk_indices)} chunk numbers."
        )
    return instance.with_elapsed(finish_times(instance.chunks, convention), convention)
