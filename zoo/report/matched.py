"""Table of systems at equal latency."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from zoo.report.table import P_VALUE, PADDING, number
from zoo.results.groups import test_set_label
from zoo.results.matched import MatchedCurve
from zoo.results.names import COMPUTATION_AWARE, find_entry

SEVERAL = ("chrF",)  # qualities that the table leaves out; ``matched.json`` has them


def matched_table(curves: Sequence[MatchedCurve]) -> RenderableType:
    """Return a table for each test set and quality, at ideal latencies.

    ``matched.json`` has other qualities and computation-aware latencies too.

    Args:
        curves: comparisons with a baseline.
    """
    shown = [
        curve
        for curve in curves
        if not curve.latency.endswith(COMPUTATION_AWARE) and curve.quality not in SEVERAL
    ]
    shown.sort(key=lambda curve: (curve.test_set, curve.quality))
    groups = groupby(shown, key=lambda curve: (curve.test_set, curve.quality))
    return Group(*(part for _, group in groups for part in _parts(list(group))))


def _parts(curves: Sequence[MatchedCurve]) -> list[RenderableType]:
    """Return the table of one test set and quality, and notes below it."""
    first = curves[0]
    digits = find_entry(first.quality).digits
    title = f"{test_set_label(first.test_set)}: {first.quality} at equal {first.latency}"
    table = Table(
        title=escape(title),
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, PADDING // 2),
    )
    table.add_column("system", no_wrap=True)
    for header in (f"{first.latency} (s)", first.baseline, first.quality, "difference", "p"):
        table.add_column(escape(header), justify="right", vertical="bottom")
    notes: list[RenderableType] = []
    for curve in curves:
        for place, point in enumerate(curve.points):
            low, high = (number(bound, digits) for bound in point.interval)
            mark = "*" if point.p_value < P_VALUE else " "
            table.add_row(
                escape(curve.system) if place == 0 else "",
                number(point.latency, 2),
                number(point.baseline, digits),
                number(point.quality, digits),
                f"{point.quality - point.baseline:+.{digits}f} [{low}, {high}]".replace("[", r"\["),
                f"{point.p_value:.3f}{mark}",
            )
        if not curve.points:
            note = f"  {curve.system} has no {curve.latency} in common with {curve.baseline}"
            notes.append(Text(note, style="dim"))
    legend = f"  interpolated between rows; 95 % intervals; * p < {P_VALUE:g}"
    return [table, Text(legend, style="dim"), *notes]
