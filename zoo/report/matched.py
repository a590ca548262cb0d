"""Tables of systems at equal latency, for the terminal and the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from zoo.report.table import (
    P_VALUE,
    PADDING,
    SHORTEST_NAME,
    number,
    shorten_names,
    whole_names,
)
from zoo.results.groups import test_set_label
from zoo.results.matched import MatchedCurve
from zoo.results.names import COMPUTATION_AWARE, find_entry

LEFT_OUT = ("chrF",)  # a quality that only ``matched.json`` has


@dataclass(frozen=True, slots=True)
class MatchedTable:
    """Systems of one test set at equal latency, by one quality.

    Attributes:
        title: test set, quality and latency.
        headers: headings of the columns.
        lines: texts of the cells; a system is named in its first line.
        notes: the baseline, what the marks mean, and which rows are not compared.
    """

    title: str
    headers: tuple[str, ...]
    lines: list[tuple[str, ...]]
    notes: list[str]


def matched_tables(curves: Sequence[MatchedCurve]) -> list[MatchedTable]:
    """Return a table for each test set and quality, at ideal latencies.

    ``matched.json`` has other qualities and computation-aware latencies too.

    Args:
        curves: comparisons with a baseline.
    """
    shown = [
        curve
        for curve in curves
        if not curve.latency.endswith(COMPUTATION_AWARE) and curve.quality not in LEFT_OUT
    ]
    shown.sort(key=lambda curve: (curve.test_set, curve.quality))
    groups = groupby(shown, key=lambda curve: (curve.test_set, curve.quality))
    return [_matched_table(list(group)) for _, group in groups]


def _matched_table(curves: Sequence[MatchedCurve]) -> MatchedTable:
    """Return the table of one test set and quality."""
    first = curves[0]
    digits = find_entry(first.quality).digits
    lines: list[tuple[str, ...]] = []
    for curve in curves:
        for place, point in enumerate(curve.points):
            low, high = (number(bound, digits) for bound in point.interval)
            lines.append(
                (
                    curve.system if place == 0 else "",
                    number(point.latency, 2),
                    number(point.baseline, digits),
                    number(point.quality, digits),
                    f"{point.quality - point.baseline:+.{digits}f} [{low}, {high}]",
                    f"{point.p_value:.3f}{'*' if point.p_value < P_VALUE else ' '}",
                )
            )
    return MatchedTable(
        f"{test_set_label(first.test_set)}: {first.quality} at equal {first.latency}",
        ("system", f"{first.latency} (s)", "baseline", first.quality, "difference", "p"),
        lines,
        [
            f"baseline: {first.baseline}",
            f"interpolated between rows; 95 % intervals; * p < {P_VALUE:g}",
            *_left_out(curves),
        ],
    )


def _left_out(curves: Sequence[MatchedCurve]) -> list[str]:
    """Return which rows are not compared, because only one of the systems has their latency."""
    notes = []
    for curve in curves:
        if not curve.points:
            notes.append(f"{curve.system} has no {curve.latency} in common with the baseline")
        elif curve.outside:
            rows = ", ".join(
                f"{'baseline ' if row.system == curve.baseline else ''}{row.setting} "
                f"({row.latency:.2f} s)"
                for row in curve.outside
            )
            notes.append(f"{curve.system}: outside of the latencies of both are {rows}")
    return notes


def printed_tables(curves: Sequence[MatchedCurve], *, width: int = 100) -> RenderableType:
    """Return the tables for the terminal, with shortened names; see ``matched_tables``.

    Args:
        curves: comparisons with a baseline.
        width: width of the terminal in characters.
    """
    parts: list[RenderableType] = []
    for one in matched_tables(curves):
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
