"""Ratings of humans in a report: the column, the tables, the page, and files in the wrong run."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fixtures.segments import scored_segment
from zoo.apps.report import join
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk
from zoo.base.types import Instance
from zoo.data import manifest
from zoo.report.ratings import rating_tables
from zoo.runs.rows.names import HUMAN_RATING, columns
from zoo.runs.rows.ratings import FOLDER, NAME, RatedRow, row_id
from zoo.runs.rows.row import KnobValue, Row, read_rows, write_rows
from zoo.runs.rows.segments import NAME as SEGMENTS
from zoo.runs.rows.segments import write_segments
from zoo.runs.rows.settings import RowSettings
from zoo.runs.rows.store import StreamStore
from zoo.runs.rows.streams import TALKS


def row(m: int) -> Row:
    return Row(
        "infinisst",
        KnobValue("m", m),
        "minitalks",
        "tst",
        "en",
        "de",
        {"BLEU": 50.0, "StreamLAAL": float(m)},
        {},
        f"instances/0{m}-infinisst-m{m}/instances.log",
        settings=RowSettings(convention="queue", talks=1, segments=1),
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two rows on one talk."""
    folder = tmp_path / "run"
    rows = [row(1), row(2)]
    segment = scored_segment(0.0, 20.0, "one", "eins", "eins", talk="talk")
    for one in rows:
        place = (folder / one.instances).parent
        StreamStore(place).write([Instance(0, "talk", 20.0, "eins", ("eins",), (2.0,), ())])
        write_segments(place / SEGMENTS, [segment])
    manifest.write(folder / TALKS, [Talk("talk", None, 20.0, "en", (Segment(0.0, 20.0, "one"),))])
    write_rows(rows, folder / "results.json")
    return folder


def rate(run: Path, rater: str, m: int, *presses: tuple[float, int]) -> Path:
    path = run / FOLDER / f"{rater}-{m}.json"
    path.parent.mkdir(exist_ok=True)
    fields = {"version": 1, "rater": rater, "talk": "talk", "clock": "ideal", "until": 20.0}
    one = row(m)
    ratings = {"row": row_id(one), "system": one.label, "ratings": presses}
    path.write_text(json.dumps({**fields, **ratings}))
    return path


def test_a_report_has_the_ratings_of_a_run(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    join([run], tmp_path / "before")
    assert HUMAN_RATING not in read_rows(tmp_path / "before" / "results.json")[0].scores
    assert not (tmp_path / "before" / NAME).exists()
    assert 'id="ratings"' not in (tmp_path / "before" / "report.html").read_text()

    rate(run, "AB", 2, (0, 4), (15, 2))
    rate(run, "CD", 2, (0, 2), (10, 1))
    join([run], tmp_path / "report")
    first, second = read_rows(tmp_path / "report" / "results.json")
    assert HUMAN_RATING not in first.scores
    assert second.scores[HUMAN_RATING] == pytest.approx((3.5 + 1.5) / 2)
    assert second.signatures[HUMAN_RATING].startswith("HumanRating|scale:1-4|weighted:time|")
    assert HUMAN_RATING in [column.score for column in columns([first, second])]

    [rated] = json.loads((tmp_path / "report" / NAME).read_text())
    assert (rated["system"], rated["setting"], rated["raters"]) == (
        "infinisst",
        "m=2",
        ["AB", "CD"],
    )
    assert (rated["mean"], rated["press_mean"], rated["presses"]) == (2.5, 2.25, 4)
    page = (tmp_path / "report" / "report.html").read_text()
    caption = "minitalks tst, en-de: human ratings, 1 (worst) to 4 (best)"
    assert f"<caption>{caption}</caption>" in page
    printed = capsys.readouterr().out
    assert caption in printed
    assert "words appeared on ideal times" in printed


def test_ratings_from_a_page_of_several_runs_belong_to_the_run(run: Path, tmp_path: Path) -> None:
    """On such a page the system has another name, and the log another path."""
    path = rate(run, "AB", 1, (0, 3))
    path.write_text(path.read_text().replace("infinisst m=1", "infinisst policy.k=1 m=1"))
    other = tmp_path / "other"
    shutil.copytree(run, other, ignore=shutil.ignore_patterns(FOLDER))
    join([run, other], tmp_path / "report")
    found = [one.scores.get(HUMAN_RATING) for one in read_rows(tmp_path / "report/results.json")]
    assert found == [3.0, None, None, None]


def test_a_file_in_the_wrong_place_leaves_no_report(run: Path, tmp_path: Path) -> None:
    path = rate(run, "AB", 1, (0, 3))
    path.write_text(path.read_text().replace("infinisst m=1", "infinisst m=2"))
    with pytest.raises(ZooError, match="put the file into the run folder that has the log"):
        join([run], tmp_path / "report")
    assert not (tmp_path / "report").exists()


RATED = RatedRow(
    test_set=("c", "tst", "en", "de", ""),
    system="a",
    setting="m=1",
    mean=2.345,
    press_mean=2.5,
    interval=(2.1, 2.6),
    pearson=0.5,
    alpha=None,
    raters=("AB", "CD"),
    talks=("t",),
    presses=30,
    minutes=5.0,
    clocks=("aware", "ideal"),
)


def test_the_table_has_the_best_row_first_and_explains_itself() -> None:
    worse = replace(RATED, system="b", mean=1.0, interval=None, pearson=None, minutes=0.0)
    [table] = rating_tables([worse, RATED])
    assert [line[0] for line in table.lines] == ["a", "b"]
    assert table.lines[0][1:] == (
        "m=1",
        "2.35",
        "2.10–2.60",
        "2.50",
        "2",
        "1",
        "6.0",
        "0.50",
        "–",
    )
    assert table.lines[1][3] == "–"
    assert any("computation-aware times and ideal times; some rows" in one for one in table.notes)
    assert rating_tables([]) == []


def test_talks_without_references_have_the_column_too() -> None:
    bare = replace(row(1), settings=RowSettings(references=False))
    assert HUMAN_RATING not in [column.score for column in columns([bare])]
    rated = replace(bare, scores={HUMAN_RATING: 3.0})
    assert HUMAN_RATING in [column.score for column in columns([rated])]
