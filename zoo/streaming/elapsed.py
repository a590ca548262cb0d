"""Computation-aware times under each elapsed convention, derived from the times of the chunks.

queue: a chunk waits until the one before it is done; the only rule that models a live stream.
cumulative: audio read plus all compute so far (SimulEval); over-charges long talks.
chunk: audio read plus the compute of this chunk (simulstream); never charges a backlog.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import get_args

from zoo.errors import ZooError, unknown_choice
from zoo.types import ChunkTime, Convention, Instance, Seconds, queue_finish_times


def finish_times(chunks: Sequence[ChunkTime], convention: Convention) -> list[Seconds]:
    """Wall-clock seconds from the start of the stream at which each chunk is done.

    Raises ZooError for an unknown convention.
    """
    if convention == "queue":
        return queue_finish_times(chunks)
    if convention == "cumulative":
        spent = accumulate(chunk.compute for chunk in chunks)
        return [chunk.arrival + compute for chunk, compute in zip(chunks, spent, strict=True)]
    if convention == "chunk":
        return [chunk.arrival + chunk.compute for chunk in chunks]
    raise unknown_choice("elapsed convention", convention, get_args(Convention))


def with_convention(instance: Instance, convention: Convention) -> Instance:
    """The instance with ``elapsed``, of its units and of its speech, under ``convention``.

    A recorded log without chunk times stays as it was logged, in its own convention. Raises
    ZooError for an unknown convention and for units without chunk numbers.
    """
    if convention not in get_args(Convention):
        raise unknown_choice("elapsed convention", convention, get_args(Convention))
    if not instance.chunks:
        return instance
    if len(instance.chunk_indices) != len(instance.units):
        raise ZooError(
            f"Talk {instance.talk!r} has {len(instance.units)} units but "
            f"{len(instance.chunk_indices)} chunk numbers."
        )
    return instance.with_elapsed(finish_times(instance.chunks, convention), convention)
