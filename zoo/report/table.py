"""Rows of results as a table for the terminal, and how rows are grouped."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
# Columns of streams of one sentence each, by the score of whole talks that they replace.
SENTENCE_COLUMNS = {
    "StreamLAAL": Column("LAAL", "LAAL", 2, "s"),
    "StreamLAAL_CA": Column("LAAL_CA", "LAAL_CA", 2, "s", priority=1),
    "LongYAAL": Column("AL", "AL", 2, "s", priority=1),
}
SPEECH_SCORES = ("ASR_BLEU", "SpeechOverlap")  # scores that only systems with target speech have
SPEECH_WIDTH = 20  # number of characters that the speech columns take
# Minimum width of the terminal, and the largest priority of the columns shown at that width.
_WIDTHS = ((76, 4), (68, 3), (60, 2), (52, 1), (0, 0))

TestSet = tuple[str, str, str, str]  # corpus, split, source language and target language


def number(value: float | None, digits: int) -> str:
    """Return ``value`` with a fixed number of decimals, or a dash if it is None or not finite."""
    if value is None or not math.isfinite(value):
        return DASH
    return f"{value:.{digits}f}"


def has_speech_scores(row: Row) -> bool:
    """Return whether a row has scores of target speech."""
    return any(score in row.scores for score in SPEECH_SCORES)


def columns(rows: Sequence[Row]) -> list[Column]:
    """Return the columns of a table of these rows, with extra metrics of the configuration.

    A speech column is left out if no row has its score. If every stream is a single sentence
    (``evaluation.view=segments``), latency is that of SimulEval, per sentence.
    """
    speech_scores = {
        name
        for row in rows
        if has_speech_scores(row)
        for name, value in row.scores.items()
        if value is not None
    }
    shown = [column for column in COLUMNS if not column.speech or column.score in speech_scores]
    if rows and all(row.settings.get("view") == "segments" for row in rows):
        shown = [SENTENCE_COLUMNS.get(column.score, column) for column in shown]
    extra = dict.fromkeys(name for row in rows for name in row.settings.get("metrics", ()))
    return shown + [Column(name, name, 2) for name in extra]


def score_column(name: str) -> Column:
    """Return the column of a score: that of the usual table, or one with two decimals."""
    known = {column.score: column for column in (*COLUMNS, *SENTENCE_COLUMNS.values())}
    return known.get(name, Column(name, name, 2))


def knob_label(row: Row) -> str:
    """Return the latency setting of a row, such as ``m=2``; empty for a system without a knob.

    A knob is the setting of a system that trades latency for quality.
    """
    return "" if row.knob is None else f"{row.knob.name}={row.knob.value:g}"


def test_set(row: Row) -> TestSet:
    """Return the test set of a row; only rows of one test set can be compared."""
    return row.data, row.split, row.source_language, row.target_language


def test_set_label(key: TestSet) -> str:
    """Return a test set as text, such as ``minitalks tst, en-de``."""
    data, split, source, target = key
    return f"{data} {split}, {source}-{target}"


def by_test_set(rows: Sequence[Row]) -> dict[TestSet, list[Row]]:
    """Group rows by test set, in the order in which the test sets first occur."""
    groups: dict[TestSet, list[Row]] = {}
    for row in rows:
        groups.setdefault(test_set(row), []).append(row)
    return groups


def by_system(rows: Sequence[Row]) -> list[list[Row]]:
    """Group rows by system, ordered by knob value.

    Systems precede oracles, and oracles precede offline upper bounds (kind ``ceiling``).
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.kind, row.system), []).append(row)
    order = ("system", "oracle", "ceiling")
    ranked = sorted(groups.items(), key=lambda item: order.index(item[0][0]))
    return [
        sorted(group, key=lambda row: row.knob.value if row.knob else 0.0) for _, group in ranked
    ]


def score_table(rows: Sequence[Row], *, width: int = 100) -> RenderableType:
    """Return one table per test set, with the flags of its rows below it.

    Args:
        rows: rows of results.
        width: width of the terminal in characters.
    """
    parts: list[RenderableType] = []
    for key, group in by_test_set(rows).items():
        notes = _notes(group)
        parts.append(_table(group, title=test_set_label(key), width=width, notes=notes))
        for mark, note in enumerate(notes, start=1):
            parts.append(Text(f"  {mark} {note}", style="yellow"))
    return Group(*parts)


def print_table(rows: Sequence[Row], *, console: Console | None = None) -> None:
    """Print :func:`score_table` at the width of ``console``, at most 100 characters."""
    console = console or Console()
    width = min(100, console.width)
    console.print(score_table(rows, width=width), width=width)


def _table(rows: Sequence[Row], *, title: str, width: int, notes: Sequence[str]) -> Table:
    """Return the table of one test set; see :func:`score_table` and :func:`_notes`."""
    shown_columns = _fitting(rows, width)
    table = Table(
        title=f"{escape(title)} (times in seconds)",
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 1),
    )
    table.add_column("system", vertical="bottom", overflow="fold")
    table.add_column("knob", no_wrap=True)
    for column in shown_columns:
        table.add_column(column.header, justify="right", no_wrap=True)
    table.add_column("flags", style="yellow", no_wrap=True)

    for group_number, group in enumerate(by_system(rows)):
        if group_number > 0:
            table.add_row()
        for place, row in enumerate(group):
            name = escape(row.system) if place == 0 else ""
            cells = [
                number(row.scores.get(column.score), column.digits) for column in shown_columns
            ]
            table.add_row(
                name,
                escape(knob_label(row)),
                *cells,
                _marks(row, notes),
                style="dim" if row.kind != "system" else "",
            )
    return table


def _notes(rows: Sequence[Row]) -> list[str]:
    """Return the distinct notes below a table, one per flag, in the order of the table."""
    flagged = [row for group in by_system(rows) for row in group]
    return list(dict.fromkeys(_note(row, flag) for row in flagged for flag in row.flags))


def _note(row: Row, flag: str) -> str:
    """Return a flag after the system and the knob value of its row."""
    return f"{row.system} {knob_label(row)}".strip() + f": {flag}"


def _marks(row: Row, notes: Sequence[str]) -> str:
    """Return the numbers of the notes of a row, such as ``! 1,3``; empty without flags."""
    marks = [str(notes.index(_note(row, flag)) + 1) for flag in row.flags]
    return "! " + ",".join(marks) if marks else ""


def _fitting(rows: Sequence[Row], width: int) -> list[Column]:
    """Return the columns of a table that fit into ``width`` characters."""
    wanted = columns(rows)
    if any(column.speech for column in wanted):
        width -= SPEECH_WIDTH
    max_priority = next(priority for minimum, priority in _WIDTHS if max(width, 0) >= minimum)
    return [column for column in wanted if column.priority <= max_priority]
