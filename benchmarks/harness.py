"""Shared parts of the benchmarks: command line, clocks, memory, audio, tables, JSON line.

Importing it puts the repository's root on the module path, so that a script measures the ``zoo``
beside it. Every benchmark prints tables for people and, as the last line of stdout, one JSON object
for programs.
"""

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo import audio
from zoo.config import build, compose
from zoo.errors import ZooError
from zoo.types import SAMPLE_RATE, Seconds

ROOT = Path(__file__).resolve().parent.parent
MINUTE: Seconds = 60.0
GIGA = 1e9
TABLE_WIDTH = 160  # columns
NOISE_LEVEL = 0.1  # standard deviation of noise samples
CLOCK_FIELDS = ("elapsed", "chunks", "stages", "cpu")  # of a logged stream
COPIES = 10  # repetitions of a bandwidth measurement, the best of which counts

Sizes = Mapping[str, tuple[int, int, str]]  # option: default, default with --small, help
Clock = Callable[[], Seconds]


def parser_of(
    doc: str | None,
    sizes: Sizes | None = None,
    *,
    least: int = 1,
    given: Sequence[str] | None = None,
) -> argparse.ArgumentParser:
    """The parser of a benchmark whose ``--help`` begins with the first line of its docstring.

    Args:
        doc: docstring of the script.
        sizes: whole-number options. With any, ``--small`` selects the second defaults.
        least: smallest value of a size.
        given: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(
        description=(doc or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    if not sizes:
        return parser
    small = "--small" in (sys.argv[1:] if given is None else given)
    parser.add_argument("--small", action="store_true", help="start from sizes that take seconds")
    for name, (default, tiny, meaning) in sizes.items():
        option = "--" + name.replace("_", "-")
        value = tiny if small else default
        parser.add_argument(option, type=whole_number(least), default=value, help=meaning)
    return parser


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Let the command line end with Hydra overrides; parse it with ``parse_intermixed_args``."""
    meaning = "Hydra overrides of conf/evaluate.yaml, such as system=infinisst"
    parser.add_argument("overrides", nargs="*", help=meaning)


def whole_number(least: int) -> Callable[[str], int]:
    """The ``type`` of an argument that is a whole number of at least ``least``."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            message = f"must be a whole number of at least {least}, not {text}"
            raise argparse.ArgumentTypeError(message)
        return int(text)

    return parse


def clock_of(device: torch.device) -> Clock:
    """A wall clock that first waits for the work queued on ``device``."""

    def now() -> Seconds:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    return now


def device_name(device: torch.device) -> str:
    """Name of the GPU, or the number of CPU threads."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"CPU, {torch.get_num_threads()} threads"


def copy_bandwidth(device: torch.device, clock: Clock) -> float:
    """Bytes per second, read and written, of the fastest of ``COPIES`` large copies."""
    megabytes = 1024 if device.type == "cuda" else 256
    source = torch.zeros(megabytes * 2**20, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = 0.0
    for _ in range(COPIES):
        start = clock()
        target.copy_(source)
        best = max(best, 2 * source.numel() / (clock() - start))
    return best


def reset_peak_memory(device: torch.device) -> None:
    """Begin a new measurement of ``peak_memory_bytes``, where the device allows it (CUDA)."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory_bytes(device: torch.device) -> int:
    """Largest memory in use: of tensors on a GPU, of the whole process on a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def weight_bytes(module: nn.Module) -> int:
    """Bytes of all parameters; shared parameters count once."""
    return sum(weight.numel() * weight.element_size() for weight in module.parameters())


def parameters_millions(*modules: nn.Module) -> float:
    """Millions of parameters of the modules together, to one decimal."""
    count = sum(weight.numel() for module in modules for weight in module.parameters())
    return round(count / 1e6, 1)


def growth(values: Sequence[float]) -> float:
    """Median of the last fifth over that of the second fifth; the first one fills the windows."""
    fifth = len(values) // 5
    return statistics.median(values[-fifth:]) / statistics.median(values[fifth : 2 * fifth])


def noise(minutes: float, *, chunk_samples: int, seed: int) -> Iterator[Tensor]:
    """Whole chunks (chunk_samples,) of noise, generated on demand."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(int(minutes * MINUTE * SAMPLE_RATE) // chunk_samples):
        yield NOISE_LEVEL * torch.randn(chunk_samples, generator=generator)


def recording(seconds: Seconds) -> Tensor:
    """(n,): the first ``seconds`` of minitalks tst, talk after talk.

    Raises ZooError if it is shorter.
    """
    parts: list[Tensor] = []
    for talk in build(compose("evaluate", ["data=minitalks"]).data).talks("tst"):
        parts.append(audio.load(talk.file, start=talk.offset, duration=talk.duration))
        if sum(map(len, parts)) >= seconds * SAMPLE_RATE:
            return torch.cat(parts)[: round(seconds * SAMPLE_RATE)]
    raise ZooError(f"The test set of minitalks is shorter than {seconds:g} s; use fewer --chunks.")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table without a frame."""
    table = Table(*columns, box=None)
    for row in rows:
        table.add_row(*row)
    Console(width=TABLE_WIDTH).print(table)


def print_size(size: str, device: torch.device) -> None:
    """Print size and device of a measurement, and a warning unless the size is ``real``."""
    note = "" if size.split()[0] == "real" else ": NOT the real size; results do not apply to it"
    print(f"size {size} on {device_name(device)}{note}")


def print_facts(facts: Mapping[str, float]) -> None:
    """Print a table of measured values by name, to four significant digits."""
    print_table(("measured", ""), [(name, f"{value:.4g}") for name, value in facts.items()])


def print_result(benchmark: str, *parts: Mapping[str, Any]) -> None:
    """Print the last line: a JSON object of the benchmark's name, settings and results."""
    result: dict[str, Any] = {"benchmark": benchmark}
    for part in parts:
        result |= part
    print(json.dumps(result))


def rounded(facts: Mapping[str, float]) -> dict[str, float]:
    """Floats to five significant digits."""
    return {
        name: value if isinstance(value, int) else float(f"{value:.5g}")
        for name, value in facts.items()
    }


def streams_without_clock(run: Path) -> list[dict[str, Any]]:
    """Lines of all logs of a run folder of evaluate.py, without times of the clock."""
    return [
        {name: value for name, value in json.loads(line).items() if name not in CLOCK_FIELDS}
        for log in sorted(run.glob("instances/*/instances.log"))
        for line in log.read_text(encoding="utf-8").splitlines()
    ]
