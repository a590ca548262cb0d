"""Latency regimes, in which the IWSLT campaign ranks systems.

The regime of a submission is that of its LongYAAL (not computation-aware) on development talks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from zoo.base.types import Seconds
from zoo.runs.rows.row import Row

Regime = Literal["low", "high", "none"]

LATENCY: Final = "LongYAAL"
# IWSLT 2026: largest latency of each regime; a regime begins where the one before it ends.
LIMITS: Final[Mapping[Regime, Seconds]] = {"low": 2.0, "high": 4.0}
OUTSIDE: Final[Regime] = "none"  # beyond the last regime
REGIMES: Final[Sequence[str]] = (*LIMITS, OUTSIDE)
# What a row has in common with that of the same system on other talks.
SUBMISSION = ("kind", "system", "knob", "source_language", "target_language")
DEVELOPMENT = "dev"  # beginning of the names of splits that set a regime


def regime_of(latency: Seconds) -> Regime:
    """Return the regime of a LongYAAL; a limit belongs to the regime below it.

    A negative latency, of a system that is ahead of the references, belongs to the first regime.
    """
    return next((name for name, limit in LIMITS.items() if latency <= limit), OUTSIDE)


def with_regimes(rows: Sequence[Row]) -> list[Row]:
    """Return rows whose settings name their regime.

    The row of ``set_by`` decides, and the row itself where there is none. Reference rows and rows
    without LongYAAL have no regime.

    Args:
        rows: rows of one run, or of joined runs.
    """
    found: list[Row] = []
    for row in rows:
        latency = (set_by(row, rows) or row).scores.get(LATENCY)
        has_regime = row.kind == "system" and row.scores.get(LATENCY) is not None
        regime = regime_of(latency) if has_regime and latency is not None else None
        found.append(replace(row, settings=replace(row.settings, regime=regime)))
    return found


def set_by(row: Row, rows: Sequence[Row]) -> Row | None:
    """Return the row that sets the regime of a row; None: there is none.

    It is the row of the same system at the same latency setting on development talks of the same
    languages.

    Args:
        row: a row.
        rows: rows of one run, or of joined runs.
    """
    if row.kind != "system" or is_development(row):
        return row if is_development(row) else None
    return next((one for one in rows if _sets(one, row)), None)


def is_development(row: Row) -> bool:
    """Return whether the talks of a row are development talks, by the name of their split."""
    return row.split.startswith(DEVELOPMENT)


def _sets(one: Row, row: Row) -> bool:
    """Return whether a row sets the regime of another row."""
    if not is_development(one) or one.scores.get(LATENCY) is None:
        return False
    is_same = all(getattr(one, name) == getattr(row, name) for name in SUBMISSION)
    return is_same and one.settings.view == row.settings.view
