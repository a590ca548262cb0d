"""Rows of results as a table for the terminal, and how rows are grouped."""

import math
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from zoo.runs.rows.groups import by_system, by_test_set, test_set_label
from zoo.runs.rows.names import REGIME, Column, columns
from zoo.runs.rows.row import Row, TestSet

DASH = "–"  # a score that is not defined


MS = 1000.0  # milliseconds per second
P_VALUE = 0.05  # a smaller p-value is significant
PADDING = 2  # characters between two columns
SHORT_NAME = 24  # characters of a name for which columns of low priority are left out
LINE_PRIORITY = 1  # largest priority of a column whose score is in the line of a row
SHORTEST_NAME = 8  # characters that a shortened name keeps in any case


def number(value: float | None, digits: int) -> str:
    """Return ``value`` with a fixed number of decimals, or a dash if it is None or not finite."""
    if value is None or not math.isfinite(value):
        return DASH
    return f"{value:.{digits}f}"


def title_of(key: TestSet, shown: Sequence[Column]) -> str:
    """Return the title of a table: its test set and the unit of its times."""
    unit = "milliseconds" if any(column.unit == "ms" for column in shown) else "seconds"
    return f"{test_set_label(key)} (times in {unit})"


def cell(row: Row, column: Column) -> str:
    """Return a score as text.

    The column of the regime has its name. If the row has a 95 % interval of the score, half of its
    width follows, and a star if all tests find a difference from the baseline.
    """
    if column.score == REGIME:
        return row.settings.regime or DASH
    scale = MS if column.unit == "ms" else 1.0
    value = row.scores.get(column.score)
    text = number(value if value is None else value * scale, column.digits)
    if column.score in row.intervals:
        low, high = row.intervals[column.score]
        text += f" ±{number((high - low) / 2 * scale, column.digits)}"
        found = [scores.get(column.score, 1.0) < P_VALUE for scores in row.p_values.values()]
        text += "*" if found and all(found) else " "
    return text


def significance_notes(rows: Sequence[Row]) -> list[str]:
    """Return what the marks of :func:`cell` mean, one sentence each; empty without marks."""
    intervals = [
        f"± 95 % interval ({row.settings.resamples} resamples of the segments)"
        for row in rows
        if row.intervals
    ]
    tests = [
        f"* p < {P_VALUE:g} against {row.settings.baseline} ({' and '.join(row.p_values)})"
        for row in rows
        if row.p_values
    ]
    return list(dict.fromkeys([*intervals, *tests]))


def score_line(row: Row) -> str:
    """Return the label of a row and its main scores, such as ``streamatt f=4: BLEU 93.6, ...``."""
    shown = [column for column in columns([row]) if column.priority <= LINE_PRIORITY]
    texts = {column: cell(row, column).strip() for column in shown}
    scores = [
        f"{column.score} {text} {column.unit}".rstrip()
        for column, text in texts.items()
        if text != DASH
    ]
    return f"{row.label}: {', '.join(scores) or 'no scores'}"


def score_table(rows: Sequence[Row], *, width: int = 100) -> RenderableType:
    """Return one table per test set, with its shortened names and the flags of its rows below it.

    Args:
        rows: rows of results.
        width: width of the terminal in characters.
    """
    parts: list[RenderableType] = []
    for key, group in by_test_set(rows).items():
        notes = _notes(group)
        shown, room = _fitting(group, width, notes=notes)
        names = shorten_names((row.system for one in by_system(group) for row in one), room)
        parts.append(_table(group, shown, title=title_of(key, shown), names=names, notes=notes))
        parts += [Text(f"  {note}", style="dim") for note in whole_names(names)]
        segmented = dict.fromkeys(names[row.system] for row in group if row.has_reference_segments)
        if segmented:
            parts.append(
                Text(f"  with the reference segments: {', '.join(segmented)}", style="dim")
            )
        for mark, note in enumerate(notes, start=1):
            parts.append(Text(f"  {mark} {note}", style="yellow"))
        parts += [Text(f"  {note}", style="dim") for note in significance_notes(group)]
        hidden = [column.score for column in columns(group) if column not in shown]
        if hidden:
            note = f"  not shown at this width: {', '.join(hidden)}"
            parts.append(Text(note, style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def print_table(rows: Sequence[Row], *, console: Console | None = None) -> None:
    """Print :func:`score_table` at the width of ``console``, at most 100 characters."""
    console = console or Console()
    width = table_width(console)
    console.print(score_table(rows, width=width), width=width)


def table_width(console: Console) -> int:
    """Return the number of characters of a line of a table, at most 100."""
    return min(100, console.width)


def shorten_names(systems: Iterable[str], room: int) -> dict[str, str]:
    """Return the name that a table shows of each system, of at most ``room`` characters.

    A longer name is cut and gets a number, such as ``infinisst history=rec… #1``.
    """
    names: dict[str, str] = {}
    cut = 0
    for system in dict.fromkeys(systems):
        names[system] = system
        if len(system) > room:
            cut += 1
            end = f"… #{cut}"
            names[system] = system[: room - len(end)] + end
    return names


def whole_names(names: Mapping[str, str]) -> list[str]:
    """Return the names that ``shorten_names`` has cut, after their numbers."""
    return [
        f"{name[name.rindex('#') :]} {system}" for system, name in names.items() if name != system
    ]


def _table(
    rows: Sequence[Row],
    shown_columns: Sequence[Column],
    *,
    title: str,
    names: Mapping[str, str],
    notes: Sequence[str],
) -> Table:
    """Return the table of one test set.

    Args:
        rows: rows of the test set.
        shown_columns: columns of scores.
        title: heading.
        names: result of ``shorten_names``.
        notes: result of ``_notes``.
    """
    table = Table(
        title=escape(title),
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, PADDING // 2),
    )
    table.add_column("system", vertical="bottom", no_wrap=True)
    table.add_column("knob", no_wrap=True)
    for column in shown_columns:
        table.add_column(column.header, justify="right", no_wrap=True)
    if notes:
        table.add_column("flags", style="yellow", no_wrap=True)

    for group in by_system(rows):
        for place, row in enumerate(group):
            cells = [
                escape(names[row.system]) if place == 0 else "",
                escape(row.knob_label),
                *(cell(row, column) for column in shown_columns),
            ]
            marks = [_marks(row, notes)] if notes else []
            table.add_row(*cells, *marks, style="dim" if row.kind != "system" else "")
    return table


def _notes(rows: Sequence[Row]) -> list[str]:
    """Return the distinct notes below a table, one per flag, in the order of the table."""
    flagged = [row for group in by_system(rows) for row in group]
    return list(dict.fromkeys(_note(row, flag) for row in flagged for flag in row.flags))


def _note(row: Row, flag: str) -> str:
    """Return a flag after the system and the knob value of its row."""
    return f"{row.label}: {flag}"


def _marks(row: Row, notes: Sequence[str]) -> str:
    """Return the numbers of the notes of a row, such as ``! 1,3``; empty without flags."""
    marks = [str(notes.index(_note(row, flag)) + 1) for flag in row.flags]
    return "! " + ",".join(marks) if marks else ""


def _fitting(rows: Sequence[Row], width: int, *, notes: Sequence[str]) -> tuple[list[Column], int]:
    """Return the columns that fit into ``width`` characters, and the room that names have then.

    Columns of low priority are left out until names of up to ``SHORT_NAME`` characters fit. Longer
    names leave out no column, because a name can be shortened and a score cannot. If the columns of
    the highest priority are too wide for the shortest names, the last of them are left out.
    """
    wanted = columns(rows)
    longest = max(len("system"), *(len(row.system) for row in rows))
    knobs = max(len("knob"), *(len(row.knob_label) for row in rows))
    marks = max((len(_marks(row, notes)) for row in rows), default=0)
    fixed = PADDING + knobs + PADDING + (max(len("flags"), marks) + PADDING if notes else 0)

    for priority in sorted({column.priority for column in wanted} | {0}, reverse=True):
        shown = [column for column in wanted if column.priority <= priority]
        room = width - fixed - sum(_width(column, rows) + PADDING for column in shown)
        if room >= min(longest, SHORT_NAME):
            break
    while room < SHORTEST_NAME and len(shown) > 1:
        room += _width(shown.pop(), rows) + PADDING
    return shown, max(room, SHORTEST_NAME)


def _width(column: Column, rows: Sequence[Row]) -> int:
    """Return the number of characters of a column of scores."""
    texts = [cell(row, column) for row in rows]
    return max(map(len, [*column.header.split("\n"), *texts]))
