"""Ratings of humans in a run folder: the files that its page saves, and what they say.

A rater downloads one file per talk and system from the page (``zoo/report/assets/rating.js``). The
files are put into the folder ``ratings`` of the run folder that has the log of the system.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Literal

from zoo.base.disk.files import check_regular, write_text
from zoo.base.errors import ZooError, check_name, shorten, shorten_list
from zoo.base.types import Seconds
from zoo.runs.rows.row import Row, TestSet, read_records
from zoo.runs.rows.settings import STRICT

FOLDER = "ratings"  # of the files of raters, in a run folder
NAME = "ratings.json"  # what they say, in the folder of a report
LONGEST: Seconds = 1e6  # eleven days: agreement is computed from one value per second
RATINGS = range(5)  # 0: the rater does not attend; 1: worst; 4: best


@dataclass(frozen=True, slots=True)
class RatingFile:
    """A file of a rater.

    Attributes:
        version: version of the format.
        rater: name or initials of the rater.
        talk: name of the talk.
        row: name of the folder of the row's log.
        system: system and latency setting of the row. On a page of several runs, the name of the
            system may be followed by overrides.
        clock: on which times the words appeared.
        until: source time in seconds to which the rater listened.
        ratings: (source time in seconds, rating) of each press.
    """

    __pydantic_config__ = STRICT
    version: Literal[1]
    rater: str
    talk: str
    row: str
    system: str
    clock: Literal["aware", "ideal"]
    until: Seconds
    ratings: tuple[tuple[Seconds, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedRow:
    """Ratings of one row.

    Attributes:
        test_set: the test set.
        system: name of the system.
        setting: latency setting, such as ``m=2``; empty: none.
        mean: mean rating, weighted by time; None: nothing is rated.
        press_mean: mean of all presses.
        interval: bounds of the 95 % interval of the mean; None: there are too few ratings.
        pearson: mean correlation of two raters; None: it is not defined.
        alpha: Krippendorff's alpha; None: it is not defined.
        raters: names of the raters.
        talks: names of the talks.
        presses: number of ratings.
        minutes: rated time over all raters.
        clocks: on which times the words appeared.
    """

    test_set: TestSet
    system: str
    setting: str
    mean: float | None
    press_mean: float | None
    interval: tuple[float, float] | None
    pearson: float | None
    alpha: float | None
    raters: tuple[str, ...]
    talks: tuple[str, ...]
    presses: int
    minutes: float
    clocks: tuple[str, ...]


def row_id(row: Row) -> str:
    """Return the name of the folder of a row's log, by which the files of raters name the row."""
    return PurePosixPath(row.instances).parent.name


def read_ratings(
    run: Path, rows: Sequence[Row], talks: Sequence[Collection[str]]
) -> list[tuple[int, RatingFile]]:
    """Read the files of raters of a run.

    Args:
        run: run folder.
        rows: rows of its ``results.json``.
        talks: names of the talks of each row.

    Returns:
        The index of the row of each file, and its content; empty if there are no files.

    Raises:
        ZooError: a file is damaged, names an unknown row or talk, or has ratings or times out of
            range; or two files have the same rater, talk and row.
    """
    found: list[tuple[int, RatingFile]] = []
    seen: dict[tuple[str, str, int], Path] = {}
    for path in sorted((run / FOLDER).glob("*.json")):
        check_regular(path)
        one = read_records(path, RatingFile, "rating")
        _check_presses(path, one)
        place = _place_of(path, one, rows)
        if one.talk not in talks[place]:
            raise ZooError(
                f"{path} rates talk {shorten(one.talk)!r}, which {rows[place].label} does not "
                f"have; its talks are {shorten_list(sorted(talks[place])) or 'not in the run'}."
            )
        key = (one.rater.casefold().strip(), one.talk, place)
        if key in seen:
            raise ZooError(
                f"{path} and {seen[key].name} both rate talk {shorten(one.talk)!r} of "
                f"{rows[place].label} by {shorten(one.rater)}; remove one of them."
            )
        seen[key] = path
        found.append((place, one))
    return found


def _place_of(path: Path, one: RatingFile, rows: Sequence[Row]) -> int:
    """Return the index of the row of a file. Raises ZooError if there is none."""
    places = {row_id(row): place for place, row in enumerate(rows)}
    if one.row not in places:
        raise ZooError(
            f"{path} rates row {shorten(one.row)!r}, which is not in this run; put the file into "
            "the run folder that has the log of the system."
        )
    row = rows[places[one.row]]
    if not (one.system.startswith(row.system) and one.system.endswith(row.knob_label)):
        raise ZooError(
            f"{path} rates {shorten(one.system)}, but row {one.row!r} of this run is {row.label}; "
            "put the file into the run folder that has the log of the system."
        )
    return places[one.row]


def _check_presses(path: Path, one: RatingFile) -> None:
    """Raise ZooError for a file without a name or a rating, or with values out of range."""
    check_name(f"The rater in {path}", one.rater)
    wrong = [rating for _, rating in one.ratings if rating not in RATINGS]
    if wrong:
        raise ZooError(
            f"{path} has the rating {shorten(wrong[0])}; ratings are 1 (worst) to 4 (best), and 0 "
            "where the rater did not attend."
        )
    if not any(rating for _, rating in one.ratings):
        raise ZooError(f"{path} has no rating from 1 to 4.")
    times = [time for time, _ in one.ratings]
    if times[0] < 0 or one.until > LONGEST:
        raise ZooError(f"{path} has a time that is not from 0 to {LONGEST:g} s.")
    for earlier, later in pairwise(times):
        if later <= earlier:
            raise ZooError(f"{path} has a rating at {later:g} s after one at {earlier:g} s.")
    if times[-1] > one.until:
        raise ZooError(f"{path} has a rating at {times[-1]:g} s, after its end at {one.until:g} s.")


def write_rated(folder: Path, rated: Sequence[RatedRow]) -> None:
    """Write the ratings of the rows of a report; no file without any."""
    if rated:
        text = json.dumps([asdict(one) for one in rated], indent=2, ensure_ascii=False)
        write_text(folder / NAME, text + "\n")
