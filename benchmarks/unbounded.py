"""python benchmarks/unbounded.py [override ...]: does an endless stream keep its cost constant?

Streams 60 minutes, the same 10 minutes of talks in a loop, through the configured system. Median
compute per chunk and resident memory must stay constant, and so must the audio and text kept after
a chunk. A growth of 1.0 is none. With threads=1, the CPU time of a chunk hardly depends on the load
of the machine.
"""

import argparse
import itertools
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import psutil
import torch
from omegaconf import DictConfig
from torch import Tensor

from harness import MINUTE, add_overrides, parser_of, print_result, print_table
from zoo.base.machine.commands import run_script
from zoo.base.progress import audio_progress
from zoo.base.types import SAMPLE_RATE, Instance, Seconds
from zoo.config import build, compose, machine
from zoo.streaming.simulate import Source, Stream, simulate
from zoo.streaming.sources import talk_chunks
from zoo.systems.base import StreamingSystem

Value = TypeVar("Value")

LOOP = 10 * MINUTE  # of audio, streamed again and again
COLUMNS = (
    "minutes",
    "ms per chunk (median)",
    "CPU ms",
    "RTF",
    "memory (MB, median)",
    "audio kept (s, most)",
    "text kept (tokens, most)",
    "words",
)
ROW_MINUTES = 10
LEAST_MINUTES = 25  # the last ten minutes must not overlap minutes 5 to 15


@dataclass(frozen=True, slots=True)
class ChunkLine:
    """What was measured after a chunk.

    Attributes:
        arrival: End of the chunk in seconds from the start of the stream.
        compute: Seconds of compute.
        cpu: Seconds of compute in which the first thread ran on a CPU.
        memory: Resident memory of the process in MB.
        audio: Audio kept in seconds.
        tokens: Number of tokens kept.
    """

    arrival: Seconds
    compute: Seconds
    cpu: Seconds
    memory: float
    audio: Seconds
    tokens: int


def looped(recording: Tensor, *, length: Seconds, chunk_samples: int) -> Iterator[Tensor]:
    """``length`` seconds of ``recording`` (n,), repeated, in chunks (chunk_samples,)."""
    begin = 0
    for _ in range(int(length * SAMPLE_RATE) // chunk_samples):
        places = torch.arange(begin, begin + chunk_samples) % recording.numel()
        yield recording[places]
        begin += chunk_samples


def memory_megabytes() -> float:
    """Resident memory of this process."""
    return psutil.Process().memory_info().rss / 2**20


def stream(
    system: StreamingSystem, chunks: Iterable[Tensor], length: Seconds
) -> tuple[list[ChunkLine], Instance]:
    """Stream the chunks.

    Args:
        system: the system.
        chunks: chunks of the whole stream.
        length: duration of the whole stream in seconds.

    Returns:
        The line of every chunk, and the result of the stream.
    """
    lines: list[ChunkLine] = []

    with audio_progress(f"{system.name} unbounded", length) as report:
        cpu_before = 0.0

        def on_chunk(stream: Stream) -> None:
            nonlocal cpu_before
            line = ChunkLine(
                arrival=stream.received / SAMPLE_RATE,
                compute=stream.times[-1].compute,
                cpu=stream.cpu - cpu_before,
                memory=memory_megabytes(),
                audio=stream.session.audio.numel() / SAMPLE_RATE,
                tokens=stream.session.prefix_ids.numel(),
            )
            cpu_before = stream.cpu
            lines.append(line)
            report(stream.newest)

        [instance] = simulate(system, [Source("unbounded", chunks)], on_chunk=on_chunk)
    return lines, instance


def between(
    values: Sequence[Value], arrivals: Sequence[float], first: float, last: float
) -> list[Value]:
    """Values of the chunks that arrived from minute ``first`` to ``last``; arrivals in minutes."""
    return [
        value
        for value, minute in zip(values, arrivals, strict=True)
        if first <= minute < last + 1e-9
    ]


def growth(lines: Sequence[ChunkLine], minutes: float) -> dict[str, float]:
    """Growth of compute, its CPU time and memory.

    Args:
        lines: measurements by chunk. Compute and CPU time: median of the last ten minutes over that
            of minutes 5 to 15. Memory: largest median of a minute from the tenth on over that of
            the tenth.
        minutes: length of the stream.
    """
    arrivals = [line.arrival / MINUTE for line in lines]
    early, late = between(lines, arrivals, 5, 15), between(lines, arrivals, minutes - 10, minutes)
    used = [
        statistics.median(line.memory for line in between(lines, arrivals, first, first + 1))
        for first in range(10, int(minutes))
    ]
    compute, cpu = (
        [statistics.median(getattr(line, name) for line in part) for part in (late, early)]
        for name in ("compute", "cpu")
    )
    return {
        "compute_growth": round(compute[0] / compute[1], 4),
        "cpu_growth": round(cpu[0] / cpu[1], 4),
        "memory_growth": round(max(used) / used[0], 4),
    }


def histories(lines: Sequence[ChunkLine], minutes: float) -> dict[str, float]:
    """Most audio (s) and text (tokens) kept in each half of a stream of ``minutes``.

    A bounded history keeps no more in the second half than in the first, up to the current segment.
    """
    found = {}
    arrivals = [line.arrival / MINUTE for line in lines]
    audio, tokens = [line.audio for line in lines], [line.tokens for line in lines]
    for name, values in (("audio_seconds", audio), ("text_tokens", tokens)):
        for half, first in (("first_half", 0.0), ("second_half", minutes / 2)):
            found[f"{name}_{half}"] = round(
                max(between(values, arrivals, first, first + minutes / 2)), 2
            )
    return found


def print_stream(lines: Sequence[ChunkLine], delays: Sequence[Seconds], minutes: float) -> None:
    """A row per ten minutes.

    Args:
        lines: measurements by chunk.
        delays: of the words, in seconds.
        minutes: length of the stream.
    """
    arrivals = [line.arrival / MINUTE for line in lines]
    rows = []
    for first in range(0, int(minutes), ROW_MINUTES):
        last = min(first + ROW_MINUTES, minutes)
        found = between(lines, arrivals, first, last)
        compute = [line.compute for line in found]
        words = sum(first * MINUTE <= delay < last * MINUTE for delay in delays)
        rows.append(
            (
                f"{first}-{last:g}",
                f"{1000 * statistics.median(compute):.1f}",
                f"{1000 * statistics.median(line.cpu for line in found):.1f}",
                f"{sum(compute) / (len(compute) * lines[0].arrival):.4f}",
                f"{statistics.median(line.memory for line in found):.0f}",
                f"{max(line.audio for line in found):.1f}",
                str(max(line.tokens for line in found)),
                str(words),
            )
        )
    print_table(COLUMNS, rows)


def arguments_of() -> argparse.Namespace:
    """The parsed command line."""
    parser = parser_of(__doc__)
    meaning = f"length of the stream, at least {LEAST_MINUTES}"
    parser.add_argument("--minutes", type=float, default=60.0, help=meaning)
    add_overrides(parser)
    arguments = parser.parse_intermixed_args()
    if arguments.minutes < LEAST_MINUTES:
        parser.error(f"--minutes must be at least {LEAST_MINUTES}, not {arguments.minutes:g}")
    return arguments


def recording_of(cfg: DictConfig) -> Tensor:
    """(n,) samples: the first ten minutes of the talks of an evaluation."""
    talks = build(cfg.data).talks(cfg.evaluation.split)
    chunks = itertools.chain.from_iterable(talk_chunks(talk, None) for talk in talks)
    return torch.cat(list(chunks))[: int(LOOP * SAMPLE_RATE)]


def main() -> None:
    """Stream, and print a row per ten minutes and the growth."""
    arguments = arguments_of()
    cfg = compose("evaluate", arguments.overrides)
    system: StreamingSystem = build(cfg.system)
    system.configure_model()
    system.to(machine(cfg)).eval()

    minutes, length = arguments.minutes, arguments.minutes * MINUTE
    chunks = looped(recording_of(cfg), length=length, chunk_samples=system.chunk_samples)
    lines, instance = stream(system, chunks, length)

    print_stream(lines, instance.delays, minutes)
    settings = {"system": system.name, "minutes": minutes}
    print_result("unbounded", settings, growth(lines, minutes), histories(lines, minutes))


if __name__ == "__main__":
    run_script(main)
