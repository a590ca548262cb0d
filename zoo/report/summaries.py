"""Summaries of finished rows: scores over a latency knob, and scores of single talks."""

import re
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from zoo.base.errors import ZooError, unknown_choice
from zoo.report.table import DASH, cell, number, significance_notes
from zoo.runs.rows.groups import by_system, by_test_set, test_set_label
from zoo.runs.rows.names import REGIME, Column, columns, find_entry
from zoo.runs.rows.row import Row, TalkScores


def chosen_columns(rows: Sequence[Row], names: Sequence[str] | None) -> list[Column]:
    """Return the columns of the named scores; without names, those of the usual table.

    Raises ZooError for a name that no row has.
    """
    if names is None:
        return columns(rows)
    known = sorted({name for row in rows for name in row.scores})
    for name in names:
        if name not in known:
            raise unknown_choice("score", name, known)
    return [find_entry(name, rows).column() for name in names]


def by_score(rows: Sequence[Row], names: Sequence[str]) -> RenderableType:
    """Return a table of the named scores of each row. Raises ZooError for an unknown name."""
    shown = chosen_columns(rows, names)
    tables: list[RenderableType] = []
    for key, group in by_test_set(rows).items():
        headers = ("system", "knob", *(column.header for column in shown))
        table = _table(test_set_label(key), headers)
        for row in (row for one in by_system(group) for row in one):
            table.add_row(
                escape(row.system), row.knob_label, *(cell(row, column) for column in shown)
            )
        tables.append(table)
        tables += [Text(f"  {note}", style="dim") for note in significance_notes(group)]
    return Group(*tables)


def over_knob(rows: Sequence[Row], names: Sequence[str] | None = None) -> RenderableType:
    """Return a table of the mean and the standard deviation of each system over its knob values.

    The deviation is that of a sample (n - 1), and absent for a single value.

    Args:
        rows: rows of results; reference rows are left out.
        names: names of the scores; None: the columns of the usual table.
    """
    systems = [row for row in rows if row.kind == "system"]
    shown = [one for one in chosen_columns(systems, names) if one.score != REGIME]
    tables: list[RenderableType] = []
    for key, group in by_test_set(systems).items():
        title = f"{test_set_label(key)}, mean (standard deviation) over the knob"
        table = _table(title, ("system", "values", *(column.header for column in shown)))
        for one in by_system(group):
            cells = [
                _mean((row.scores.get(column.score) for row in one), column) for column in shown
            ]
            table.add_row(escape(one[0].system), str(len(one)), *cells)
        tables.append(table)
    return Group(*tables)


def by_talk(
    rows: Sequence[Row], names: Sequence[str] | None = None, *, minutes: float | None = None
) -> RenderableType:
    """Return a table of the scores of each talk, or of the mean over short and long talks.

    Args:
        rows: rows of results; reference rows are left out.
        names: names of the scores; None: the columns of the usual table that single talks have.
        minutes: longest duration of a short talk; None: one line per talk.

    Raises:
        ZooError: no row has scores of single talks.
    """
    systems = [row for row in rows if row.kind == "system" and row.talks]
    if not systems:
        raise ZooError("The runs have no scores of single talks (their streams are sentences).")
    known = {name for row in systems for talk in row.talks for name in talk.scores}
    shown = [column for column in chosen_columns(systems, names) if column.score in known]
    tables: list[RenderableType] = []
    for key, group in by_test_set(systems).items():
        headers = ("system", "knob", "talk", "minutes", *(column.header for column in shown))
        table = _table(test_set_label(key), headers)
        for row in (row for one in by_system(group) for row in one):
            for label, talks in _groups(row.talks, minutes).items():
                length = fmean(talk.seconds for talk in talks) / 60
                cells = [
                    _mean((talk.scores.get(column.score) for talk in talks), column)
                    for column in shown
                ]
                table.add_row(
                    escape(row.system), row.knob_label, escape(label), f"{length:.1f}", *cells
                )
        tables.append(table)
    return Group(*tables)


def _groups(talks: Sequence[TalkScores], minutes: float | None) -> dict[str, list[TalkScores]]:
    """Return the talks by name, or the short and the long talks."""
    if minutes is None:
        return {talk.talk: [talk] for talk in talks}
    groups: dict[str, list[TalkScores]] = {}
    for talk in talks:
        short = talk.seconds <= 60 * minutes
        label = f"up to {minutes:g} min" if short else f"above {minutes:g} min"
        groups.setdefault(label, []).append(talk)
    return {f"{label}, mean of {len(group)}": group for label, group in sorted(groups.items())}


def _mean(values: Iterable[float | None], column: Column) -> str:
    """Return the mean of the defined values, and their standard deviation if there are several."""
    defined = [value for value in values if value is not None]
    if not defined:
        return DASH
    mean = number(fmean(defined), column.digits)
    return f"{mean} ({number(stdev(defined), column.digits)})" if len(defined) > 1 else mean


def _table(title: str, headers: Sequence[str]) -> Table:
    """Return an empty table whose numbers are aligned to the right."""
    table = Table(title=f"{escape(title)} (times in seconds)", title_justify="left", box=None)
    for header in headers:
        words = header in ("system", "knob", "talk")
        table.add_column(re.sub(r"\s", " ", header), justify="left" if words else "right")
    return table
