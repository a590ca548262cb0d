"""Latency regimes: limits, and whose latency sets the regime of a row."""

from dataclasses import replace

import pytest

from zoo.runs.rows.regimes import regime_of, with_regimes
from zoo.runs.rows.row import KnobValue, Row
from zoo.runs.rows.settings import RowSettings


def row(split: str, latency: float | None, *, m: int = 1, system: str = "one", **other) -> Row:
    scores = {"BLEU": 20.0, "LongYAAL": latency}
    knob = KnobValue("m", m)
    return Row(system, knob, "corpus", split, "en", "de", scores, {}, "i.log", **other)


def regimes(*rows: Row) -> list[str | None]:
    return [one.settings.regime for one in with_regimes(rows)]


@pytest.mark.parametrize(
    ("latency", "regime"),
    [(-0.3, "low"), (0.0, "low"), (2.0, "low"), (2.001, "high"), (4.0, "high"), (4.001, "none")],
)
def test_limits(latency: float, regime: str) -> None:
    assert regime_of(latency) == regime


def test_development_talks_set_the_regime_of_the_same_setting() -> None:
    rows = [row("dev", 1.9), row("tst", 2.2), row("dev", 3.0, m=2), row("tst", 1.5, m=2)]
    assert regimes(*rows) == ["low", "low", "high", "high"]
    assert regimes(*reversed(rows)) == ["high", "high", "low", "low"]


def test_a_latency_of_zero_on_development_talks_counts() -> None:
    assert regimes(row("dev", 0.0), row("tst", 2.5)) == ["low", "low"]


@pytest.mark.parametrize(
    "other",
    [
        row("dev", 3.0, m=2),
        row("dev", 3.0, system="two"),
        replace(row("dev", 3.0), target_language="zh"),
        row("tst_hard", 3.0),
        row("dev", None),
        replace(row("dev", 3.0), settings=RowSettings(view="segments")),
    ],
)
def test_other_rows_do_not_set_it(other: Row) -> None:
    assert regimes(row("tst", 1.0), other)[0] == "low"


def test_reference_rows_and_rows_without_long_form_latency_have_none() -> None:
    rows = [row("dev", 1.0, kind="oracle"), row("dev", 1.0, kind="ceiling"), row("tst", None)]
    assert regimes(*rows) == [None, None, None]


def test_the_regime_is_set_anew_where_rows_are_joined() -> None:
    [alone] = with_regimes([row("tst", 2.5)])
    assert alone.settings.regime == "high"
    assert regimes(alone, row("dev", 1.5)) == ["low", "low"]
