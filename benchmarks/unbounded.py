"""python benchmarks/unbounded.py [override ...]: does an endless stream keep its cost constant?

Streams 60 minutes, the same 10 minutes of talks in a loop, through the configured system. Median
compute per chunk and resident memory must stay constant, and so must the audio and text kept after
a chunk. A growth of 1.0 is none.
"""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import psutil
import torch
from torch import Tensor

from harness import MINUTE, add_overrides, parser_of, print_result, print_table
from zoo.config import build, compose, machine
from zoo.errors import run_script
from zoo.progress import audio_progress
from zoo.streaming.session import Session
from zoo.streaming.simulate import Source, Stream, simulate
from zoo.streaming.sources import talk_chunks
from zoo.systems.base import StreamingSystem
from zoo.types import SAMPLE_RATE, Instance, Seconds

LOOP = 10 * MINUTE  # of audio, streamed again and again
COLUMNS = (
    "minutes",
    "ms per chunk (median)",
    "RTF",
    "memory (MB, median)",
    "audio kept (s, most)",
    "text kept (tokens, most)",
    "words",
)
LEAST_MINUTES = 25  # the last ten minutes must not overlap minutes 5 to 15


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


@dataclass(frozen=True, slots=True)
class Kept:
    """Memory of the process (MB), and audio (s) and text (tokens) in the session, per chunk."""

    memory: list[float] = field(default_factory=list)
    audio: list[Seconds] = field(default_factory=list)
    text: list[int] = field(default_factory=list)

    def record(self, session: Session) -> None:
        """Add the present values."""
        self.memory.append(memory_megabytes())
        self.audio.append(session.audio.numel() / SAMPLE_RATE)
        self.text.append(session.prefix_ids.numel())


def stream(
    system: StreamingSystem, chunks: Iterator[Tensor], length: Seconds
) -> tuple[Instance, Kept]:
    """Stream ``length`` seconds of audio through the system in one session."""
    kept = Kept()
    sessions: list[Session] = []
    system_open = system.open

    def open_and_keep(*given: object, **more: object) -> Session:
        sessions.append(system_open(*given, **more))
        return sessions[-1]

    system.open = open_and_keep
    with audio_progress(f"{system.name} unbounded", length) as report:

        def on_chunk(stream: Stream) -> None:
            kept.record(sessions[-1])
            report(stream.newest)

        [instance] = simulate(system, [Source("unbounded", chunks)], on_chunk=on_chunk)
    system.open = system_open
    return instance, kept


def between(
    values: Sequence[float], arrivals: Sequence[float], first: float, last: float
) -> list[float]:
    """Values of the chunks that arrived from minute ``first`` to ``last``; arrivals in minutes."""
    return [
        value
        for value, minute in zip(values, arrivals, strict=True)
        if first <= minute < last + 1e-9
    ]


def growth(
    compute: Sequence[Seconds], memory: Sequence[float], arrivals: Sequence[float], minutes: float
) -> dict[str, float]:
    """Growth of compute and memory.

    Args:
        compute: seconds per chunk; median of the last ten minutes over that of minutes 5 to 15.
        memory: MB per chunk; largest median of a minute from the tenth on over that of the tenth.
        arrivals: of the chunks, in minutes.
        minutes: length of the stream.
    """
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
    """Most audio (s) and text (tokens) kept in each half of the stream; arrivals in minutes.

    A bounded history keeps no more in the second half than in the first, up to the current segment.
    """
    found = {}
    for name, values in (("audio_seconds", kept.audio), ("text_tokens", kept.text)):
        for half, first in (("first_half", 0.0), ("second_half", minutes / 2)):
            found[f"{name}_{half}"] = round(
                max(between(values, arrivals, first, first + minutes / 2)), 2
            )
    return found


def print_stream(instance: Instance, kept: Kept, arrivals: Sequence[float], minutes: float) -> None:
    """A row per ten minutes."""
    compute = [chunk.compute for chunk in instance.chunks]
    chunk_seconds = instance.chunks[0].arrival
    rows = []
    for first in range(0, int(minutes), 10):
        last = min(first + 10, minutes)
        spent, used, audio, text = (
            between(values, arrivals, first, last)
            for values in (compute, kept.memory, kept.audio, kept.text)
        )
        words = sum(first * MINUTE <= delay < last * MINUTE for delay in instance.delays)
        rows.append(
            (
                f"{first}-{last:g}",
                f"{1000 * statistics.median(spent):.1f}",
                f"{sum(spent) / (len(spent) * chunk_seconds):.4f}",
                f"{statistics.median(used):.0f}",
                f"{max(audio):.1f}",
                str(max(text)),
                str(words),
            )
        )
    print_table(COLUMNS, rows)


def main() -> None:
    """Stream, print a row per ten minutes and the growth."""
    parser = parser_of(__doc__)
    meaning = f"length of the stream, at least {LEAST_MINUTES}"
    parser.add_argument("--minutes", type=float, default=60.0, help=meaning)
    add_overrides(parser)
    arguments = parser.parse_intermixed_args()
    if arguments.minutes < LEAST_MINUTES:
        parser.error(f"--minutes must be at least {LEAST_MINUTES}, not {arguments.minutes:g}")
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
    print_stream(instance, kept, arrivals, arguments.minutes)
    compute = [chunk.compute for chunk in instance.chunks]
    settings = {"system": system.name, "minutes": arguments.minutes}
    found = growth(compute, kept.memory, arrivals, arguments.minutes)
    print_result("unbounded", settings, found, histories(kept, arrivals, arguments.minutes))


if __name__ == "__main__":
    run_script(main)
