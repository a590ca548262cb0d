"""Rows of ``results.json``: one system at one setting on one split. Knows no plot and no page."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from zoo.files import write_text


@dataclass(frozen=True, slots=True)
class KnobValue:
    """The latency knob and where it stood."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Row:
    """scores: by name, times in seconds (None: not defined). instances: path of the log, relative to results.json.

    kind: a system, the offline upper bound (a ceiling, no latency of interest) or an oracle that knows the references.
    flags: why the row must not be trusted (see ``zoo.metrics.flags``); empty for a healthy one.
    """

    system: str
    knob: KnobValue | None
    data: str
    split: str
    source_language: str
    target_language: str
    scores: dict[str, float | None]
    signatures: dict[str, str]
    instances: str
    kind: Literal["system", "ceiling", "oracle"] = "system"
    flags: tuple[str, ...] = ()
    settings: dict[str, Any] = field(
        default_factory=dict
    )  # batch size, convention, talks: what a reader must know


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write ``results.json``, a list of rows; whole at any moment."""
    content = [asdict(row) for row in rows]
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")
