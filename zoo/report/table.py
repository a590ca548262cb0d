"""Rows of results as a table for the terminal, and how rows are grouped."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from zoo.report.results import Row

DASH = "–"  # a score that is not defined


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a score.

    Attributes:
        score: name of the score.
        header: heading.
        digits: number of decimals.
        unit: unit of the values.
        priority: rank of the column. A narrow terminal leaves out the columns of the largest
            priority first.
        speech: whether the column is shown only for systems with target speech.
    """

    score: str
    header: str
    digits: int
    unit: str = ""
    priority: int = 0
    speech: bool = False


COLUMNS = (
    Column("BLEU", "BLEU", 1),
    Column("chrF", "chrF", 1, priority=3),
    Column("ASR_BLEU", "ASR\nBLEU", 1, speech=True),
    Column("ASR_WER", "ASR\nWER", 1, priority=4, speech=True),
    Column("StreamLAAL", "Stream\nLAAL", 2, "s"),
    Column("StreamLAAL_CA", "Stream\nLAAL_CA", 2, "s", priority=1),
    Column("LongYAAL", "Long\nYAAL", 2, "s", priority=4),
    Column("StartOffset", "Start\nOffset", 2, "s", priority=1, speech=True),
    Column("RTF", "RTF", 2, priority=2),
)
# Columns of talks without references.
UNREFERENCED_COLUMNS = (
    Column("StartOffset", "Start\nOffset", 2, "s"),
    Column("StartOffset_CA", "Start\nOffset_CA", 2, "s", priority=1),
    Column("EndOffset", "End\nOffset", 2, "s"),
    Column("EndOffset_CA", "End\nOffset_CA", 2, "s", priority=1),
    Column("RTF", "RTF", 2, priority=2),
)
# Columns of streams of one sentence each, by the score of whole talks that they replace.
SENTENCE_COLUMNS = {
    "StreamLAAL": (
        Column("AL", "AL", 2, "s", priority=1),
        Column("LAAL", "LAAL", 2, "s"),
    ),
    "StreamLAAL_CA": (Column("LAAL_CA", "LAAL_CA", 2, "s", priority=1),),
    "LongYAAL": (
        Column("AP", "AP", 2, priority=3),
        Column("DAL", "DAL", 2, "s", priority=3),
        Column("ATD", "ATD", 2, "s", priority=3),
    ),
}
MILLISECONDS = ("simuleval", "fbk_v1", "omnisteval")  # rules of tools that print milliseconds
MS = 1000.0  # milliseconds per second
P_VALUE = 0.05  # a smaller p-value is significant
SPEECH_SCORES = ("ASR_BLEU", "SpeechOverlap")  # scores that only systems with target speech have
PADDING = 2  # characters between two columns
SHORT_NAME = 24  # characters of a name for which columns of low priority are left out
SHORTEST_NAME = 8  # characters that a shortened name keeps in any case

TestSet = tuple[str, str, str, str]  # corpus, split, source language and target language


def number(value: float | None, digits: int) -> str:
    """Return ``value`` with a fixed number of decimals, or a dash if it is None or not finite."""
    if value is None or not math.isfinite(value):
        return DASH
    return f"{value:.{digits}f}"


def has_speech_scores(row: Row) -> bool:
    """Return whether a row has scores of target speech."""
    return any(score in row.scores for score in SPEECH_SCORES)


def has_references(row: Row) -> bool:
    """Return whether the talks of a row have references."""
    return bool(row.settings.get("references", True))


def columns(rows: Sequence[Row]) -> list[Column]:
    """Return the columns of a table of these rows, with extra metrics of the configuration.

    Talks without references have columns of their own. A speech column is left out if no row has
    its score. If every stream is a single sentence, latency is that of SimulEval, per sentence, and
    with the counting rules of a tool that prints milliseconds it is shown as that tool does.
    """
    speech_scores = {
        name
        for row in rows
        if has_speech_scores(row)
        for name, value in row.scores.items()
        if value is not None
    }
    if rows and not any(has_references(row) for row in rows):
        return [*UNREFERENCED_COLUMNS, *map(score_column, comet_scores(rows))]
    shown = [column for column in COLUMNS if not column.speech or column.score in speech_scores]
    if rows and all(_has_sentences(row) for row in rows):
        shown = [
            other for column in shown for other in SENTENCE_COLUMNS.get(column.score, (column,))
        ]
        if all(row.settings.get("rules") in MILLISECONDS for row in rows):
            shown = [_in_milliseconds(column) for column in shown]
    extra = dict.fromkeys(name for row in rows for name in row.settings.get("metrics", ()))
    shown += [score_column(name) for name in comet_scores(rows)]
    return shown + [Column(name, name, 2) for name in extra]


def comet_scores(rows: Sequence[Row]) -> list[str]:
    """Return the names of the COMET scores that any row has."""
    return list(dict.fromkeys(name for row in rows for name in row.settings.get("comet", {})))


def _has_sentences(row: Row) -> bool:
    """Return whether every stream of a row is one sentence."""
    return row.settings.get("view") == "segments" or row.scores.get("AL") is not None


def _in_milliseconds(column: Column) -> Column:
    """Return a column of latencies with milliseconds and the three decimals of SimulEval."""
    if column.unit == "s":
        return replace(column, digits=3, unit="ms")
    return replace(column, digits=3) if column.score == "AP" else column


def title_of(key: TestSet, shown: Sequence[Column]) -> str:
    """Return the title of a table: its test set and the unit of its times."""
    unit = "milliseconds" if any(column.unit == "ms" for column in shown) else "seconds"
    return f"{test_set_label(key)} (times in {unit})"


def score_column(name: str) -> Column:
    """Return the column of a score: that of the usual table, or one with two decimals."""
    if "COMET" in name:  # between 0 and 1; comet-score prints four decimals
        return Column(name, name.replace("_", "\n"), 4)
    sentences = (column for columns in SENTENCE_COLUMNS.values() for column in columns)
    known = {column.score: column for column in (*COLUMNS, *sentences)}
    return known.get(name, Column(name, name, 2))


def knob_label(row: Row) -> str:
    """Return the latency setting of a row, such as ``m=2``; empty for a system without a knob.

    A knob is the setting of a system that trades latency for quality.
    """
    return "" if row.knob is None else f"{row.knob.name}={row.knob.value:g}"


def row_label(row: Row) -> str:
    """Return the name of a row: its system and its latency setting, such as ``infinisst m=2``."""
    return f"{row.system} {knob_label(row)}".strip()


def cell(row: Row, column: Column) -> str:
    """Return a score as text.

    If the row has a 95 % interval of the score, half of its width follows, and a star if all tests
    find a difference from the baseline.
    """
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
        f"± 95 % interval ({row.settings['resamples']} resamples of the segments)"
        for row in rows
        if row.intervals
    ]
    tests = [
        f"* p < {P_VALUE:g} against {row.settings['baseline']} ({' and '.join(row.p_values)})"
        for row in rows
        if row.p_values
    ]
    return list(dict.fromkeys([*intervals, *tests]))


def test_set(row: Row) -> TestSet:
    """Return the test set of a row; only rows of one test set can be compared."""
    return row.data, row.split, row.source_language, row.target_language


def test_set_label(key: TestSet) -> str:
    """Return a test set as text, such as ``minitalks tst, en-de``."""
    data, split, source, target = key
    return f"{f'{data} {split}'.strip()}, {source}-{target}"


def by_test_set(rows: Sequence[Row]) -> dict[TestSet, list[Row]]:
    """Group rows by test set, in the order in which the test sets first occur."""
    groups: dict[TestSet, list[Row]] = {}
    for row in rows:
        groups.setdefault(test_set(row), []).append(row)
    return groups


def by_system(rows: Sequence[Row]) -> list[list[Row]]:
    """Group rows by system, ordered by knob value.

    Systems precede oracles, and oracles precede offline rows (kind ``ceiling``). Systems that
    receive the reference segments follow the others.
    """
    groups: dict[tuple[str, bool, str], list[Row]] = {}
    for row in rows:
        key = (row.kind, row.has_reference_segments, row.system)
        groups.setdefault(key, []).append(row)
    order = ("system", "oracle", "ceiling")
    ranked = sorted(groups.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    return [
        sorted(group, key=lambda row: row.knob.value if row.knob else 0.0) for _, group in ranked
    ]


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
        names = _names(group, room)
        parts.append(_table(group, shown, title=title_of(key, shown), names=names, notes=notes))
        parts += [
            Text(f"  {name[name.rindex('#') :]} {system}", style="dim")
            for system, name in names.items()
            if name != system
        ]
        segmented = dict.fromkeys(names[row.system] for row in group if row.has_reference_segments)
        if segmented:
            parts.append(
                Text(f"  with the reference segments: {', '.join(segmented)}", style="dim")
            )
        for mark, note in enumerate(notes, start=1):
            parts.append(Text(f"  {mark} {note}", style="yellow"))
        parts += [Text(f"  {note}", style="dim") for note in significance_notes(group)]
    return Group(*parts)


def print_table(rows: Sequence[Row], *, console: Console | None = None) -> None:
    """Print :func:`score_table` at the width of ``console``, at most 100 characters."""
    console = console or Console()
    width = min(100, console.width)
    console.print(score_table(rows, width=width), width=width)


def _names(rows: Sequence[Row], room: int) -> dict[str, str]:
    """Return the name that the table shows of each system, of at most ``room`` characters.

    A longer name is cut and gets a number, such as ``infinisst history=rec… #1``.
    """
    names: dict[str, str] = {}
    cut = 0
    for system in dict.fromkeys(row.system for group in by_system(rows) for row in group):
        names[system] = system
        if len(system) > room:
            cut += 1
            end = f"… #{cut}"
            names[system] = system[: room - len(end)] + end
    return names


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
        names: result of ``_names``.
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
                escape(knob_label(row)),
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
    return f"{row_label(row)}: {flag}"


def _marks(row: Row, notes: Sequence[str]) -> str:
    """Return the numbers of the notes of a row, such as ``! 1,3``; empty without flags."""
    marks = [str(notes.index(_note(row, flag)) + 1) for flag in row.flags]
    return "! " + ",".join(marks) if marks else ""


def _fitting(rows: Sequence[Row], width: int, *, notes: Sequence[str]) -> tuple[list[Column], int]:
    """Return the columns that fit into ``width`` characters, and the room that names have then.

    Columns of low priority are left out until names of up to ``SHORT_NAME`` characters fit. Longer
    names leave out no column, because a name can be shortened and a score cannot.
    """
    wanted = columns(rows)
    longest = max(len("system"), *(len(row.system) for row in rows))
    knobs = max(len("knob"), *(len(knob_label(row)) for row in rows))
    marks = max((len(_marks(row, notes)) for row in rows), default=0)
    fixed = PADDING + knobs + PADDING + (max(len("flags"), marks) + PADDING if notes else 0)

    for priority in sorted({column.priority for column in wanted} | {0}, reverse=True):
        shown = [column for column in wanted if column.priority <= priority]
        room = width - fixed - sum(_width(column, rows) + PADDING for column in shown)
        if room >= min(longest, SHORT_NAME):
            break
    return shown, max(room, SHORTEST_NAME)


def _width(column: Column, rows: Sequence[Row]) -> int:
    """Return the number of characters of a column of scores."""
    texts = [cell(row, column) for row in rows]
    return max(map(len, [*column.header.split("\n"), *texts]))
