"""python benchmarks/unbounded.py [override ...]: does a stream that never ends stay as cheap as it began?

Streams 60 minutes, the same 10 minutes of talks again and again, through the configured system. Medians of the
compute per chunk and resident memory must stay flat, and so must the audio and the written text that are kept after a
chunk. The last line is one JSON object; a growth of 1.0 means flat.
"""

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.config import build, compose, machine
from zoo.errors import run_script
from zoo.evaluation.progress import progress
from zoo.evaluation.sources import talk_chunks
from zoo.streaming.session import Session
from zoo.streaming.simulate import Source, simulate
from zoo.systems.base import StreamingSystem
from zoo.types import SAMPLE_RATE, Instance, Seconds

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


@dataclass(frozen=True, slots=True)
class Kept:
    """After each chunk: resident memory of the process (MB), audio (s) and written text (tokens) in the session."""

    memory: list[float] = field(default_factory=list)
    audio: list[Seconds] = field(default_factory=list)
    text: list[int] = field(default_factory=list)

    def note(self, session: Session) -> None:
        """Add what there is now."""
        self.memory.append(memory_megabytes())
        self.audio.append(session.audio.numel() / SAMPLE_RATE)
        self.text.append(session.prefix_ids.numel())


def stream(
    system: StreamingSystem, chunks: Iterator[Tensor], length: Seconds
) -> tuple[Instance, Kept]:
    """``length`` seconds of audio through the system, in one session."""
    kept = Kept()
    sessions: list[Session] = []
    unwatched = system.open

    def watched(*given: object, **more: object) -> Session:
        sessions.append(unwatched(*given, **more))
        return sessions[-1]

    system.open = watched
    with progress(f"{system.name} unbounded", length) as report:

        def on_chunk(seconds: Seconds) -> None:
            kept.note(sessions[-1])
            report(seconds)

        [instance] = simulate(system, [Source("unbounded", chunks)], on_chunk=on_chunk)
    system.open = unwatched
    return instance, kept


def between(
    values: Sequence[float], arrivals: Sequence[float], first: float, last: float
) -> list[float]:
    """The values of chunks that arrived in minutes ``first`` to ``last``."""
    return [
        value
        for value, minute in zip(values, arrivals, strict=True)
        if first <= minute < last + 1e-9
    ]


def growth(
    compute: Sequence[Seconds], memory: Sequence[float], arrivals: Sequence[float], minutes: float
) -> dict[str, float]:
    """Compute per chunk: the median of the last ten minutes over that of minutes 5-15. Memory: the largest median of a
    minute after the tenth over that of the first such minute. arrivals: minutes."""
    early, late = (
        between(compute, arrivals, 5, 15),
        between(compute, arrivals, minutes - 10, minutes),
    )
    used = [
        statistics.median(between(memory, arrivals, first, first + 1))
        for first in range(10, int(minutes))
    ]
    return {
        "compute_growth": round(statistics.median(late) / statistics.median(early), 4),
        "memory_growth": round(max(used) / used[0], 4),
    }


def histories(kept: Kept, arrivals: Sequence[float], minutes: float) -> dict[str, float]:
    """The most audio (s) and text (tokens) kept in the first and in the second half of the stream. arrivals: minutes.

    A history that is bounded keeps no more in the second half than in the first, up to what is being said.
    """
    found = {}
    for name, values in (("audio_seconds", kept.audio), ("text_tokens", kept.text)):
        for half, first in (("first_half", 0.0), ("second_half", minutes / 2)):
            found[f"{name}_{half}"] = round(
                max(between(values, arrivals, first, first + minutes / 2)), 2
            )
    return found


def show(instance: Instance, kept: Kept, arrivals: Sequence[float], minutes: float) -> None:
    """A line per ten minutes."""
    compute = [chunk.compute for chunk in instance.chunks]
    chunk_seconds = instance.chunks[0].arrival
    columns = (
        "minutes",
        "ms per chunk (median)",
        "RTF",
        "memory (MB, median)",
        "audio kept (s, most)",
    )
    table = Table(*columns, "text kept (tokens, most)", "words", box=None)
    for first in range(0, int(minutes), 10):
        last = min(first + 10, minutes)
        spent, used = (between(values, arrivals, first, last) for values in (compute, kept.memory))
        audio, text = (between(values, arrivals, first, last) for values in (kept.audio, kept.text))
        words = sum(first * MINUTE <= delay < last * MINUTE for delay in instance.delays)
        table.add_row(
            f"{first}-{last:g}",
            f"{1000 * statistics.median(spent):.1f}",
            f"{sum(spent) / (len(spent) * chunk_seconds):.4f}",
            f"{statistics.median(used):.0f}",
            f"{max(audio):.1f}",
            str(max(text)),
            str(words),
        )
    Console().print(table)


def main() -> None:
    """Stream, print a line per ten minutes and what must stay flat."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--minutes", type=float, default=60.0, help=f"length of the stream (at least {LEAST})"
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        help="Hydra overrides of conf/evaluate.yaml, such as system=infinisst",
    )
    arguments = parser.parse_args()
    if arguments.minutes < LEAST:
        parser.error(f"--minutes must be at least {LEAST}, not {arguments.minutes:g}")
    cfg = compose("evaluate", arguments.overrides)
    system: StreamingSystem = build(cfg.system)
    system.configure_model()
    system.to(machine(cfg)).eval()
    talks = build(cfg.data).talks(cfg.evaluation.split)
    audio = torch.cat(
        list(itertools.chain.from_iterable(talk_chunks(talk, None) for talk in talks))
    )
    recording = audio[: int(LOOP * SAMPLE_RATE)]
    length = arguments.minutes * MINUTE
    chunks = looped(recording, length=length, chunk_samples=system.chunk_samples)
    instance, kept = stream(system, chunks, length)
    arrivals = [chunk.arrival / MINUTE for chunk in instance.chunks]
    show(instance, kept, arrivals, arguments.minutes)
    flat = growth(
        [chunk.compute for chunk in instance.chunks], kept.memory, arrivals, arguments.minutes
    )
    facts = {"benchmark": "unbounded", "system": system.name, "minutes": arguments.minutes}
    print(json.dumps(facts | flat | histories(kept, arrivals, arguments.minutes)))


if __name__ == "__main__":
    run_script(main)
