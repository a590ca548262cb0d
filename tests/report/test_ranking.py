"""The ranking of IWSLT: order, regimes, what is left out, and the notes below."""

from dataclasses import replace
from pathlib import Path

from zoo.report.page import write_report
from zoo.report.ranking import ranking_tables
from zoo.report.table import cell
from zoo.runs.rows.names import REGIME, columns
from zoo.runs.rows.regimes import with_regimes
from zoo.runs.rows.row import KnobValue, Row
from zoo.runs.rows.settings import RowSettings


def row(system: str, split: str, latency: float, bleu: float, **scores: float) -> Row:
    found = {"BLEU": bleu, "chrF": 50.0, "LongYAAL": latency, "StreamLAAL": latency, **scores}
    return Row(system, KnobValue("m", 1), "c", split, "en", "de", found, {}, "i.log")


ROWS = (
    row("a", "dev", 1.5, 30.0),
    row("a", "tst", 2.5, 20.0),
    row("b", "dev", 1.0, 25.0),
    row("b", "tst", 1.0, 25.0),
    row("c", "dev", 3.0, 40.0),
    row("c", "tst", 1.0, 41.0),
    row("d", "tst", 9.0, 50.0),
)


def test_test_talks_are_ranked_in_the_regime_of_development_talks() -> None:
    low, high, outside = ranking_tables(with_regimes(ROWS))
    assert low.title == "c tst, en-de: regime low (LongYAAL 0 to 2 s)"
    assert low.headers[:5] == ("system", "rank", "setting", "BLEU", "chrF")
    assert [line[:2] for line in low.lines] == [("b", "1"), ("a", "2")]
    assert [line[2:4] for line in low.lines] == [("m=1", "25.0"), ("m=1", "20.0")]
    assert [line[-1] for line in low.lines] == ["1.00", "1.50"]
    assert [line[0] for line in high.lines] == ["c"]
    assert outside.title == "c tst, en-de: no regime (LongYAAL above 4 s)"
    assert outside.lines[0][:2] == ("d", "–")
    assert "ranked by BLEU; the campaign ranks by XCOMET_XL, which these rows do not have" in (
        low.notes
    )
    assert any("development talks, which set it" in note for note in outside.notes)


def test_xcomet_ranks_where_all_rows_of_a_regime_have_it() -> None:
    rows = [
        row("a", "tst", 1.0, 30.0, XCOMET_XL=0.8),
        row("b", "tst", 1.0, 20.0, XCOMET_XL=0.9),
    ]
    [table] = ranking_tables(with_regimes(rows))
    assert [line[:4] for line in table.lines] == [
        ("b", "1", "m=1", "0.9000"),
        ("a", "2", "m=1", "0.8000"),
    ]
    assert "ranked by XCOMET_XL" in table.notes
    [table] = ranking_tables(with_regimes([*rows, row("c", "tst", 1.0, 25.0)]))
    assert [line[0] for line in table.lines] == ["a", "c", "b"]


def test_development_talks_are_ranked_where_there_are_no_others() -> None:
    [table] = ranking_tables(with_regimes([row("a", "dev", 1.0, 30.0)]))
    assert table.title.startswith("c dev, en-de: regime low")


def test_systems_with_the_reference_segments_are_left_out() -> None:
    helped = replace(ROWS[3], settings=RowSettings(reference_segments=True))
    assert ranking_tables(with_regimes([helped])) == []
    assert ranking_tables([]) == []


def test_the_table_of_scores_has_a_column_where_a_row_has_a_regime() -> None:
    assert REGIME not in [column.score for column in columns(ROWS)]
    found = with_regimes(ROWS)
    [column] = [column for column in columns(found) if column.score == REGIME]
    assert [cell(one, column) for one in found] == [*["low"] * 4, *["high"] * 2, "none"]
    oracle = replace(ROWS[0], kind="oracle")
    assert cell(with_regimes([oracle])[0], column) == "–"


def test_the_page_has_the_ranking_where_it_is_asked_for(tmp_path: Path) -> None:
    rows = with_regimes(ROWS)
    for wanted in (False, True):
        page = tmp_path / f"{wanted}.html"
        write_report(page, rows=rows, streams=[], title="t", context={}, ranking=wanted)
        text = page.read_text()
        assert ('<section id="ranking"' in text) == wanted
        assert ("<caption>c tst, en-de: regime low (LongYAAL 0 to 2 s)</caption>" in text) == wanted
