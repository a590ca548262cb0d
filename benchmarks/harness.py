"""Shared parts of the benchmarks: command line, audio, tables, JSON line.

Importing it puts the repository's root on the module path, so that a script measures the ``zoo``
beside it. Every benchmark prints tables for people and, as the last line of stdout, one JSON object
for programs.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Seconds
from zoo.config import build, compose

ROOT = Path(__file__).resolve().parent.parent
MINUTE: Seconds = 60.0
TABLE_WIDTH = 160  # columns
CLOCK_FIELDS = ("elapsed", "chunks", "stages", "cpu")  # of a logged stream

Sizes = Mapping[str, tuple[int, int, str]]  # option: default, default with --small, help


def parser_of(
    doc: str | None, sizes: Sizes | None = None, *, given: Sequence[str] | None = None
) -> argparse.ArgumentParser:
    """The parser of a benchmark whose ``--help`` begins with the first line of its docstring.

    Args:
        doc: docstring of the script.
        sizes: whole-number options. With any, ``--small`` selects the second defaults.
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
        parser.add_argument(option, type=whole_number, default=value, help=meaning)
    return parser


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Let the command line end with Hydra overrides; parse it with ``parse_intermixed_args``."""
    meaning = "Hydra overrides of conf/evaluate.yaml, such as system=infinisst"
    parser.add_argument("overrides", nargs="*", help=meaning)


def whole_number(text: str) -> int:
    """The ``type`` of an argument that is a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        message = f"must be a whole number of at least 1, not {text}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def parameters_millions(*modules: nn.Module) -> float:
    """Millions of parameters of the modules together, to one decimal."""
    count = sum(weight.numel() for module in modules for weight in module.parameters())
    return round(count / 1e6, 1)


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
