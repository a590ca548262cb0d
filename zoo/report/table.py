"""Rows of results as a table for the terminal, and how rows are grouped."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from zoo.report.results import Row

DASH = "–"


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a score.

    Attributes:
        score: name of the score.
        header: heading.
        digits: decimals.
        unit: unit of the values.
        priority: columns of the largest priority are left out first on a narrow terminal.
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
SPEECH_SCORES = ("ASR_BLEU", "SpeechOverlap")  # only systems with target speech have them
SPEECH_WIDTH = 20  # terminal columns that the speech columns take
_WIDTHS = ((76, 4), (68, 3), (60, 2), (52, 1), (0, 0))  # minimal width, largest priority shown

TestSet = tuple[str, str, str, str]  # data, split, source and target language


def number(value: float | None, digits: int) -> str:
    """``value`` with fixed decimals; a dash where it is None or not finite."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return DASH
    return f"{value:.{digits}f}"


def speaks(row: Row) -> bool:
    """Whether the row has scores of target speech."""
    return any(score in row.scores for score in SPEECH_SCORES)


def columns(rows: Sequence[Row]) -> list[Column]:
    """Columns of a table of these rows; speech columns only where a row has the score."""
    speech_scores = {
        name
        for row in rows
        if speaks(row)
        for name, value in row.scores.items()
        if value is not None
    }
    shown = [column for column in COLUMNS if not column.speech or column.score in speech_scores]
    extra = dict.fromkeys(name for row in rows for name in row.settings.get("metrics", ()))
    return shown + [Column(name, name, 2) for name in extra]


def knob_label(row: Row) -> str:
    """``m=2``; empty for a row without a knob."""
    return "" if row.knob is None else f"{row.knob.name}={row.knob.value:g}"


def test_set(row: Row) -> TestSet:
    """The test set of a row; only rows of one test set can be compared."""
    return row.data, row.split, row.source_language, row.target_language


def test_set_label(key: TestSet) -> str:
    """``minitalks tst, en-de``."""
    data, split, source, target = key
    return f"{data} {split}, {source}-{target}"


def by_test_set(rows: Sequence[Row]) -> dict[TestSet, list[Row]]:
    """Rows by test set, in order of first appearance."""
    groups: dict[TestSet, list[Row]] = {}
    for row in rows:
        groups.setdefault(test_set(row), []).append(row)
    return groups


def by_system(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows of each system, ordered by the knob; systems first, then oracles, then ceilings."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.kind, row.system), []).append(row)
    order = ("system", "oracle", "ceiling")
    ranked = sorted(groups.items(), key=lambda item: order.index(item[0][0]))
    return [
        sorted(group, key=lambda row: row.knob.value if row.knob else 0.0) for _, group in ranked
    ]


def score_table(rows: Sequence[Row], *, width: int = 100) -> RenderableType:
    """One table per test set for a terminal of ``width`` columns, with the flags below it."""
    parts: list[RenderableType] = []
    for key, group in by_test_set(rows).items():
        notes: list[str] = []
        parts += [_terminal(group, title=test_set_label(key), width=width, notes=notes)]
        parts += [
            Text(f"  {mark} {note}", style="yellow") for mark, note in enumerate(notes, start=1)
        ]
    return Group(*parts)


def print_table(rows: Sequence[Row], *, console: Console | None = None) -> None:
    """Print :func:`score_table` at the width of ``console``, at most 100 columns."""
    console = console or Console()
    width = min(100, console.width)
    console.print(score_table(rows, width=width), width=width)


def _terminal(rows: Sequence[Row], *, title: str, width: int, notes: list[str]) -> Table:
    shown = _fitting(rows, width)
    table = Table(
        title=f"{escape(title)} (times in seconds)",
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 1),
    )
    table.add_column("system", vertical="bottom", overflow="fold")
    table.add_column("knob", no_wrap=True)
    for column in shown:
        table.add_column(column.header, justify="right", no_wrap=True)
    table.add_column("flags", style="yellow", no_wrap=True)
    for order, group in enumerate(by_system(rows)):
        if order:
            table.add_row()
        for place, row in enumerate(group):
            mark = _note(row, notes)
            cells = [number(row.scores.get(column.score), column.digits) for column in shown]
            name = escape(row.system) if place == 0 else ""
            table.add_row(
                name,
                escape(knob_label(row)),
                *cells,
                mark,
                style="dim" if row.kind != "system" else "",
            )
    return table


def _note(row: Row, notes: list[str]) -> str:
    marks = []
    for flag in row.flags:
        note = f"{row.system} {knob_label(row)}".strip() + f": {flag}"
        notes += [] if note in notes else [note]
        marks.append(str(notes.index(note) + 1))
    return "! " + ",".join(marks) if marks else ""


def _fitting(rows: Sequence[Row], width: int) -> list[Column]:
    wanted = columns(rows)
    room = width - SPEECH_WIDTH if any(column.speech for column in wanted) else width
    most = next(priority for least, priority in _WIDTHS if max(room, 0) >= least)
    return [column for column in wanted if column.priority <= most]
