"""Rows of ``results.json``: scores of one system at one knob value on one split."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from zoo.files import write_text


@dataclass(frozen=True, slots=True)
class KnobValue:
    """Name and value of a system's latency knob."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Row:
    """Scores of one system, or of a reference row.

    Attributes:
        system: name of the system.
        knob: latency knob, or None.
        data: name of the corpus.
        split: split of the corpus.
        source_language: code.
        target_language: code.
        scores: value by score, times in seconds (None: not defined).
        signatures: signature by score.
        instances: path of the log, relative to ``results.json``.
        kind: a system, the offline upper bound ("ceiling", its latency has no meaning), or an
            oracle that has the references.
        flags: reasons not to trust the scores (``zoo.metrics.flags``); empty for a healthy row.
        settings: batch size, elapsed convention, number of talks and the like.
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
    settings: dict[str, Any] = field(default_factory=dict)


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write ``results.json``, a list of rows, atomically."""
    content = [asdict(row) for row in rows]
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")
