"""Tables of the ratings of humans, for the terminal and the page."""

from collections.abc import Sequence
from itertools import groupby

from zoo.report.table import DASH, number
from zoo.report.text_table import TextTable
from zoo.runs.rows.groups import test_set_label
from zoo.runs.rows.names import HUMAN_RATING, find_entry
from zoo.runs.rows.ratings import RatedRow

HEADERS = (
    "system",
    "setting",
    "rating",
    "95 %",
    "by press",
    "raters",
    "talks",
    "per min",
    "Pearson",
    "alpha",
)
CLOCKS = {"aware": "computation-aware", "ideal": "ideal"}


def rating_tables(rated: Sequence[RatedRow]) -> list[TextTable]:
    """Return a table for each test set, the best row first.

    Args:
        rated: rated rows.
    """
    best_first = sorted(rated, key=lambda one: (one.test_set, -(one.mean or 0.0)))
    return [_table(list(group)) for _, group in groupby(best_first, key=lambda one: one.test_set)]


def _table(rated: Sequence[RatedRow]) -> TextTable:
    """Return the table of one test set."""
    title = f"{test_set_label(rated[0].test_set)}: human ratings, 1 (worst) to 4 (best)"
    return TextTable(title, HEADERS, list(map(_line, rated)), _notes(rated))


def _line(one: RatedRow) -> tuple[str, ...]:
    """Return the cells of a row."""
    digits = find_entry(HUMAN_RATING).digits
    interval = DASH
    if one.interval is not None:
        low, high = (number(bound, digits) for bound in one.interval)
        interval = f"{low}–{high}"
    return (
        one.system,
        one.setting,
        number(one.mean, digits),
        interval,
        number(one.press_mean, digits),
        str(len(one.raters)),
        str(len(one.talks)),
        number(one.presses / one.minutes if one.minutes else None, 1),
        number(one.pearson, 2),
        number(one.alpha, 2),
    )


def _notes(rated: Sequence[RatedRow]) -> list[str]:
    """Return how the values are computed, and on which times the words appeared."""
    clocks = {clock for one in rated for clock in one.clocks}
    times = " and ".join(f"{CLOCKS[clock]} times" for clock in sorted(clocks))
    rows = "; some rows were rated on both" if any(len(one.clocks) > 1 for one in rated) else ""
    notes = [
        "rating: weighted by time, until the next press; by press: mean of all presses",
        f"words appeared on {times}{rows}",
    ]
    if any(one.interval for one in rated):
        notes.append("95 % interval: bootstrap over the ratings of a talk by a rater")
    if any(one.pearson is not None or one.alpha is not None for one in rated):
        notes.append(
            "agreement of raters on the same talk, once per second: mean correlation of two "
            "raters, and Krippendorff's alpha"
        )
    return notes
