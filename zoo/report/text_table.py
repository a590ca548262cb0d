"""Tables of texts with notes below them, for the terminal and the page."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from zoo.report.table import PADDING, SHORTEST_NAME, shorten_names, whole_names


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table whose first column names systems.

    Attributes:
        title: heading of the table.
        headers: headings of the columns.
        lines: texts of the cells. A line without a system continues the system above it.
        notes: sentences below the table.
    """

    title: str
    headers: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    notes: Sequence[str]


def printed_tables(tables: Sequence[TextTable], *, width: int = 100) -> RenderableType:
    """Return tables for the terminal, with shortened names of systems.

    Args:
        tables: the tables.
        width: width of the terminal in characters.
    """
    parts: list[RenderableType] = []
    for one in tables:
        table = Table(
            title=escape(one.title),
            title_justify="left",
            title_style="bold",
            box=None,
            padding=(0, PADDING // 2),
        )
        cells = zip(*[one.headers, *one.lines], strict=True)
        _, *others = (max(map(len, column)) + PADDING for column in cells)
        systems = [line[0] for line in one.lines if line[0]]
        names = shorten_names(systems, max(width - sum(others) - PADDING, SHORTEST_NAME))
        for place, header in enumerate(one.headers):
            table.add_column(escape(header), justify="right" if place else "left", no_wrap=True)
        for system, *scores in one.lines:
            table.add_row(*map(escape, (names.get(system, ""), *scores)))
        parts.append(table)
        notes = [*whole_names(names), *one.notes]
        parts += [Text(f"  {note}", style="dim") for note in notes]
    return Group(*parts)
