"""python benchmarks/unbounded.py [override ...]: does a stream that never ends stay as cheap as it began?

Streams 60 minutes, the same 10 minutes of talks again and again, through the configured system. Medians of the
compute per chunk and resident memory must stay flat. The last line is one JSON object; 1.0 means flat.
"""

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.config import build, compose, machine
from zoo.errors import run_script
from zoo.evaluation.runner import progress
from zoo.evaluation.sources import talk_chunks
from zoo.streaming.simulate import Source, simulate
from zoo.systems.base import StreamingSystem
from zoo.types import SAMPLE_RATE, Seconds

MINUTE: Seconds = 60.0
LOOP = 10 * MINUTE
LEAST = 25  # minutes: the last ten must not overlap minutes 5-15


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


def between(values: Sequence[float], arrivals: Sequence[float], first: float, last: float) -> list[float]:
    """The values of chunks that arrived in minutes ``first`` to ``last``."""
    return [value for value, minute in zip(values, arrivals, strict=True) if first <= minute < last + 1e-9]


def growth(
    compute: Sequence[Seconds], memory: Sequence[float], arrivals: Sequence[float], minutes: float
) -> dict[str, float]:
    """Compute per chunk: the median of the last ten minutes over that of minutes 5-15. Memory: the largest median of a
    minute after the tenth over that of the first such minute. arrivals: minutes."""
    early, late = between(compute, arrivals, 5, 15), between(compute, arrivals, minutes - 10, minutes)
    used = [statistics.median(between(memory, arrivals, first, first + 1)) for first in range(10, int(minutes))]
    return {
        "compute_growth": round(statistics.median(late) / statistics.median(early), 4),
        "memory_growth": round(max(used) / used[0], 4),
    }


def main() -> None:
    """Stream, print a line per ten minutes and the two ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0, help=f"length of the stream (at least {LEAST})")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides of conf/evaluate.yaml, such as system=infinisst")
    arguments = parser.parse_args()
    if arguments.minutes < LEAST:
        parser.error(f"--minutes must be at least {LEAST}, not {arguments.minutes:g}")
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
    table = Table("minutes", "ms per chunk (median)", "RTF", "memory (MB, median)", "words", box=None)
    for first in range(0, int(arguments.minutes), 10):
        spent, used = (between(values, arrivals, first, first + 10) for values in (compute, memory))
        words = sum(first * MINUTE <= delay < (first + 10) * MINUTE for delay in instance.delays)
        table.add_row(
            f"{first}-{first + 10}",
            f"{1000 * statistics.median(spent):.1f}",
            f"{sum(spent) / (len(spent) * system.chunk_samples / SAMPLE_RATE):.4f}",
            f"{statistics.median(used):.0f}",
            str(words),
        )
    Console().print(table)
    facts = {"benchmark": "unbounded", "system": system.name, "minutes": arguments.minutes}
    print(json.dumps(facts | growth(compute, memory, arrivals, arguments.minutes)))


if __name__ == "__main__":
    run_script(main)
