"""Bars of the compute time of each row by stage."""

from collections.abc import Sequence
from dataclasses import dataclass

from zoo.report.table import number
from zoo.runs.rows.groups import by_test_set, test_set_label
from zoo.runs.rows.row import Row
from zoo.streaming.stages import STAGES


@dataclass(frozen=True, slots=True)
class Bar:
    """Compute of a row.

    Attributes:
        row: row of results.
        place: index of the row in the report.
        description: compute of each stage per second of audio, and per chunk if that is known.
        parts: length of each stage in percent of the longest bar.
        total: seconds of compute per second of audio.
    """

    row: Row
    place: int
    description: str
    parts: dict[str, float]
    total: str


def stage_bars(rows: Sequence[Row]) -> dict[str, list[Bar]]:
    """Return one bar per row whose stages were measured, by test set; empty without such rows."""
    longest = max((sum(row.stages.values()) for row in rows), default=0.0)
    bars = {
        test_set_label(key): [
            _bar(row, place, longest)
            for place, row in enumerate(rows)
            if row.stages and row.test_set == key
        ]
        for key in by_test_set(rows)
    }
    return {label: group for label, group in bars.items() if group} if longest else {}


def _bar(row: Row, place: int, longest: float) -> Bar:
    """Return the bar of a row.

    Args:
        row: row of results.
        place: index of the row in the report.
        longest: value of a bar of full length.
    """
    compute = row.settings.compute
    measured = {stage: row.stages[stage] for stage in STAGES if row.stages.get(stage)}
    texts = [
        f"{stage} {number(value, 4)}"
        + ("" if compute is None else f" ({1000 * value * compute.chunk_seconds:.1f} ms per chunk)")
        for stage, value in measured.items()
    ]
    parts = {stage: 100 * value / longest for stage, value in measured.items()}
    return Bar(row, place, ", ".join(texts), parts, number(sum(row.stages.values()), 3))
