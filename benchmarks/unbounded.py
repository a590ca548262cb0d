"""python benchmarks/unbounded.py [override ...]: does a stream that never ends stay as cheap as it began?

Streams 60 minutes, the same 10 minutes of talks again and again, through the configured system. Medians of the
compute per chunk and resident memory must stay flat. The last line is one JSON object; 1.0 means flat.
"""

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.config import build, compose, machine
from zoo.evaluation.runner import progress
from zoo.evaluation.sources import talk_chunks
from zoo.streaming.simulate import Source, simulate
from zoo.systems.base import StreamingSystem
from zoo.types import SAMPLE_RATE, Seconds

MINUTE: Seconds = 60.0
LOOP = 10 * MINUTE


def looped(recording: Tensor, *, length: Seconds, chunk_samples: int) -> Iterator[Tensor]:
    """``length`` seconds of ``recording`` (n,) again and again, in chunks."""
    begin = 0
    for _ in range(int(length * SAMPLE_RATE) // chunk_samples):
        places = torch.arange(begin, begin + chunk_samples) % recording.numel()
        yield recording[places]
        begin += chunk_samples


def memory_megabytes() -> float:
    """Resident memory of this process."""
    return psutil.Process().memory_info().rss / 2**20


def main() -> None:
    """Stream, print a line per ten minutes and the two ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="length of the stream (at least 25)")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides of conf/evaluate.yaml, such as system=infinisst")
    arguments = parser.parse_args()
    cfg = compose("evaluate", arguments.overrides)
    system: StreamingSystem = build(cfg.system)
    system.configure_model()
    system.to(machine(cfg)).eval()
    talks = build(cfg.data).talks(cfg.evaluation.split)
    audio = torch.cat(list(itertools.chain.from_iterable(talk_chunks(talk, None) for talk in talks)))
    recording = audio[: int(LOOP * SAMPLE_RATE)]
    length = arguments.minutes * MINUTE
    memory: list[float] = []
    chunks = looped(recording, length=length, chunk_samples=system.chunk_samples)
    with progress(f"{system.name} unbounded", length) as report:

        def on_chunk(seconds: Seconds) -> None:
            memory.append(memory_megabytes())
            report(seconds)

        [instance] = simulate(system, [Source("unbounded", chunks)], on_chunk=on_chunk)
    arrivals = [chunk.arrival / MINUTE for chunk in instance.chunks]
    compute = [chunk.compute for chunk in instance.chunks]

    def between(values: list[float], first: float, last: float) -> list[float]:
        return [value for value, minute in zip(values, arrivals, strict=True) if first <= minute < last + 1e-9]

    table = Table("minutes", "ms per chunk (median)", "RTF", "memory (MB, median)", "words", box=None)
    for first in range(0, int(arguments.minutes), 10):
        spent, used = between(compute, first, first + 10), between(memory, first, first + 10)
        words = sum(first * MINUTE <= delay < (first + 10) * MINUTE for delay in instance.delays)
        table.add_row(
            f"{first}-{first + 10}",
            f"{1000 * statistics.median(spent):.1f}",
            f"{sum(spent) / (len(spent) * system.chunk_samples / SAMPLE_RATE):.4f}",
            f"{statistics.median(used):.0f}",
            str(words),
        )
    Console().print(table)
    end = arguments.minutes
    early, late = between(compute, 5, 15), between(compute, end - 10, end)
    start = statistics.median(between(memory, 10, 11))
    print(
        json.dumps(
            {
                "benchmark": "unbounded",
                "system": system.name,
                "minutes": arguments.minutes,
                "compute_growth": round(statistics.median(late) / statistics.median(early), 4),
                "memory_growth": round(statistics.median(between(memory, end - 1, end)) / start, 4),
            }
        )
    )


if __name__ == "__main__":
    main()
