"""Files of raters in a run folder: what is read, and one sentence for what is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from zoo.base.errors import ZooError
from zoo.runs.rows.ratings import FOLDER, read_ratings
from zoo.runs.rows.row import KnobValue, Row


def row(system: str, m: int) -> Row:
    log = f"instances/{m:02d}-{system}-m{m}/instances.log"
    return Row(system, KnobValue("m", m), "c", "tst", "en", "de", {"BLEU": 1.0}, {}, log)


ROWS = (row("infinisst", 1), row("streamatt", 2))
TALKS = (("one", "two"), ("one",))
GOOD: dict[str, Any] = {
    "version": 1,
    "rater": "AB",
    "talk": "one",
    "row": "02-streamatt-m2",
    "system": "streamatt m=2",
    "clock": "aware",
    "until": 12.5,
    "ratings": [[0, 3], [5.25, 0], [9.5, 4]],
}


def write(run: Path, name: str = "a.json", **changes: Any) -> Path:
    path = run / FOLDER / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**GOOD, **changes}))
    return path


def test_files_are_read_with_their_rows(tmp_path: Path) -> None:
    assert read_ratings(tmp_path, ROWS, TALKS) == []
    write(tmp_path)
    write(tmp_path, "b.json", row="01-infinisst-m1", system="infinisst m=1", talk="two")
    (tmp_path / FOLDER / "notes.txt").write_text("no rating")
    (first, one), (second, other) = read_ratings(tmp_path, ROWS, TALKS)
    assert (first, second) == (1, 0)
    assert one.ratings == ((0.0, 3), (5.25, 0), (9.5, 4))
    assert (other.talk, other.until, other.clock) == ("two", 12.5, "aware")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": 2}, "is no rating of this version: version: Input should be 1"),
        ({"date": "today"}, "is no rating of this version: date"),
        ({"ratings": [[1.0, "3"]]}, "is no rating of this version: ratings.0.1"),
        ({"ratings": [[1.0, 3.5]]}, "is no rating of this version: ratings.0.1"),
        ({"clock": "late"}, "is no rating of this version: clock"),
        ({"until": float("nan")}, "is no rating of this version: until"),
        ({"talk": "a\u0007"}, "contains control characters"),
        ({"rater": " "}, "needs a name of 1 to 200 bytes"),
        ({"talk": "two"}, "rates talk 'two', which streamatt m=2 does not have; its talks are one"),
        ({"row": "09-other"}, "rates row '09-other', which is not in this run"),
        ({"system": "streamatt m=4"}, "rates streamatt m=4, but row '02-streamatt-m2'"),
        ({"ratings": [[1.0, 5]]}, r"has the rating 5; ratings are 1 \(worst\) to 4 \(best\)"),
        ({"ratings": [[1.0, -1]]}, "has the rating -1"),
        ({"ratings": []}, "has no rating from 1 to 4"),
        ({"ratings": [[1.0, 0]]}, "has no rating from 1 to 4"),
        ({"ratings": [[2.0, 1], [2.0, 3]]}, "has a rating at 2 s after one at 2 s"),
        ({"ratings": [[3.0, 1], [2.0, 3]]}, "has a rating at 2 s after one at 3 s"),
        ({"ratings": [[-1.0, 1]]}, "has a time that is not from 0 to 1e"),
        ({"until": 1e9}, "has a time that is not from 0 to 1e"),
        ({"ratings": [[13.0, 1]]}, "has a rating at 13 s, after its end at 12.5 s"),
    ],
)
def test_a_wrong_file_is_one_sentence_with_its_name(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(ZooError, match=sentence) as refused:
        read_ratings(tmp_path, ROWS, TALKS)
    assert str(path) in str(refused.value)
    assert ". " not in str(refused.value)


def test_no_json_and_two_files_of_one_rating_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text("{")
    with pytest.raises(ZooError, match=r"a\.json is no rating of this version: Invalid JSON"):
        read_ratings(tmp_path, ROWS, TALKS)
    write(tmp_path)
    write(tmp_path, "b.json", rater="ab ")
    with pytest.raises(ZooError, match=r"b\.json and a\.json both rate talk 'one' of streamatt"):
        read_ratings(tmp_path, ROWS, TALKS)
