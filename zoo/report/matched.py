"""Tables of systems at equal latency, for the terminal and the page."""

from collections.abc import Sequence
from itertools import groupby

from zoo.report.table import P_VALUE, number
from zoo.report.text_table import TextTable
from zoo.runs.rows.groups import test_set_label
from zoo.runs.rows.matched import MatchedCurve
from zoo.runs.rows.names import COMPUTATION_AWARE, find_entry

LEFT_OUT = ("chrF",)  # a quality that only ``matched.json`` has


def matched_tables(curves: Sequence[MatchedCurve]) -> list[TextTable]:
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


def _matched_table(curves: Sequence[MatchedCurve]) -> TextTable:
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
    return TextTable(
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
