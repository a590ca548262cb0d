"""Computation-aware times on cases worked out by hand."""

from dataclasses import replace

import pytest
import torch

from zoo.base.errors import ZooError
from zoo.base.types import ChunkTime, Instance, SpeechOutput
from zoo.streaming.elapsed import finish_times, with_convention

CHUNKS = (ChunkTime(1.0, 0.5), ChunkTime(2.0, 2.0), ChunkTime(3.0, 0.1))


def stream(
    chunks: tuple[ChunkTime, ...] = CHUNKS, chunk_indices: tuple[int, ...] = (0, 2, 2)
) -> Instance:
    return Instance(
        0,
        "t",
        3.0,
        "a b c",
        ("a", "b", "c"),
        (1.0, 3.0, 3.0),
        (9.0, 9.0, 9.0),
        "",
        chunk_indices=chunk_indices,
        chunks=chunks,
    )


@pytest.mark.parametrize(
    ("convention", "finished"),
    [
        ("queue", [1.5, 4.0, 4.1]),  # the third chunk waits for the second
        ("cumulative", [1.5, 4.5, 5.6]),
        ("chunk", [1.5, 4.0, 3.1]),  # the backlog is forgotten
    ],
)
def test_conventions(convention: str, finished: list[float]) -> None:
    assert finish_times(CHUNKS, convention) == pytest.approx(finished)  # type: ignore[arg-type]
    derived = with_convention(stream(), convention)  # type: ignore[arg-type]
    assert derived.elapsed == pytest.approx([finished[0], finished[2], finished[2]])
    assert derived.convention == convention


@pytest.mark.parametrize(
    ("convention", "elapsed"), [("queue", 4.1), ("cumulative", 5.6), ("chunk", 3.1)]
)
def test_speech_follows_the_convention_too(convention: str, elapsed: float) -> None:
    spoken = SpeechOutput(torch.ones(3), delay=3.0, elapsed=9.0, chunk=2, text="b c")
    [derived] = with_convention(replace(stream(), speech=(spoken,)), convention).speech  # type: ignore[arg-type]
    assert derived.elapsed == pytest.approx(elapsed)
    assert (derived.delay, derived.chunk, derived.text, derived.samples) == (
        3.0,
        2,
        "b c",
        spoken.samples,
    )


def test_queue_drains_when_the_system_catches_up() -> None:
    chunks = [ChunkTime(1.0, 2.5), *(ChunkTime(float(second), 0.2) for second in range(2, 6))]
    assert finish_times(chunks, "queue") == pytest.approx([3.5, 3.7, 3.9, 4.2, 5.2])


def test_recorded_log_keeps_its_own_times() -> None:
    recorded = Instance(0, "t", 1.0, "a", ("a",), (1.0,), (7.0,), convention="cumulative")
    assert with_convention(recorded, "queue") == recorded


def test_an_unknown_convention_and_wrong_counts_are_refused() -> None:
    with pytest.raises(ZooError, match="queue, cumulative, chunk"):
        with_convention(stream(), "wall")  # type: ignore[arg-type]
    with pytest.raises(ZooError, match=r"'t'.*3 units.*2 chunk"):
        with_convention(stream(chunk_indices=(0, 1)), "queue")


def test_no_chunks() -> None:
    assert finish_times([], "queue") == []
