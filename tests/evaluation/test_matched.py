"""Systems at equal latency, from the segments of finished rows."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.evaluation.test_significance import QUICK, REFERENCES, row, write
from zoo.apps.report import main
from zoo.evaluation.matched import match_latencies
from zoo.report.matched import matched_tables
from zoo.report.text_table import printed_tables
from zoo.runs.rows.row import KnobValue, Row, write_rows


def curve(folder: Path, system: str, points: dict[float, int]) -> list[Row]:
    """Rows by latency with the number of segments whose last word is missing."""
    rows = []
    for latency, errors in points.items():
        texts = [
            text.rsplit(" ", 1)[0] if number < errors else text
            for number, text in enumerate(REFERENCES)
        ]
        name = f"{system}-{latency}"
        write(folder, name, texts, late=latency - 0.55)  # the mean of the segments is `latency`
        one = replace(row(Path(), name), system=system, knob=KnobValue("m", latency))
        rows.append(one)
    return rows


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    return [
        *curve(tmp_path, "base", {1.0: 12, 3.0: 0}),
        *curve(tmp_path, "early", {0.5: 2, 1.5: 0}),
        *curve(tmp_path, "late", {4.0: 0}),
    ]


def test_each_system_is_compared_where_both_have_rows(tmp_path: Path, rows: list[Row]) -> None:
    curves = match_latencies(rows, tmp_path, QUICK)
    assert {(one.baseline, one.system, one.quality) for one in curves} == {
        ("base", system, quality) for system in ("early", "late") for quality in ("BLEU", "chrF")
    }
    early = next(one for one in curves if (one.system, one.quality) == ("early", "chrF"))
    [point] = early.points
    assert point.latency == pytest.approx(1.0)  # of the row of the baseline
    assert point.quality > point.baseline + 2.0
    assert point.interval[0] > 0.0
    assert point.p_value < 0.05
    late = next(one for one in curves if one.system == "late")
    assert late.points == ()


def test_the_baseline_may_be_named(tmp_path: Path, rows: list[Row]) -> None:
    for baseline in ("early", "early m=0.5"):
        curves = match_latencies(rows, tmp_path, QUICK, baseline=baseline)
        assert {one.baseline for one in curves} == {"early"}
        base = next(one for one in curves if (one.system, one.quality) == ("base", "chrF"))
        assert [point.latency for point in base.points] == [pytest.approx(1.5)]
    assert match_latencies(rows[:2], tmp_path, QUICK) == []


def test_the_table_names_what_cannot_be_compared(tmp_path: Path, rows: list[Row]) -> None:
    console = Console(width=110, record=True)
    console.print(printed_tables(matched_tables(match_latencies(rows, tmp_path, QUICK))))
    text = console.export_text()
    assert "two tst, en-de: BLEU at equal StreamLAAL" in text
    assert "late has no StreamLAAL in common with the baseline" in text
    assert "chrF" not in text


def test_a_report_writes_the_comparisons(
    tmp_path: Path,
    rows: list[Row],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(rows, tmp_path / "results.json")
    tests = ["--significance", "bootstrap", "--resamples", "50", "--baseline", "base"]
    main([str(tmp_path), "--output", "joined", *tests])
    assert "BLEU at equal StreamLAAL" in capsys.readouterr().out
    written = json.loads((tmp_path / "joined" / "matched.json").read_text())
    assert {one["system"] for one in written} == {"early", "late"}
    main([str(tmp_path), "--output", "plain"])
    assert not (tmp_path / "plain" / "matched.json").exists()


def test_the_table_keeps_its_columns_beside_long_names(tmp_path: Path, rows: list[Row]) -> None:
    long = {name: f"{name} training.curriculum={'x' * 120}" for name in ("base", "early", "late")}
    renamed = [replace(row, system=long[row.system]) for row in rows]
    console = Console(width=80, record=True)
    tables = matched_tables(match_latencies(renamed, tmp_path, QUICK))
    console.print(printed_tables(tables, width=80))
    lines = console.export_text().splitlines()
    [scores] = [line for line in lines if "#1" in line and "1.00" in line]
    assert len(scores) <= 80
    assert "[" in scores, scores
    assert "  #1 early" in map(str.rstrip, lines)


def test_the_table_names_rows_that_are_not_compared(tmp_path: Path, rows: list[Row]) -> None:
    console = Console(width=200, record=True)
    console.print(printed_tables(matched_tables(match_latencies(rows, tmp_path, QUICK))))
    text = console.export_text()
    assert (
        "early: outside of the latencies of both are baseline m=3 (3.00 s), m=0.5 (0.50 s)" in text
    )
