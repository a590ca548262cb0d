"""Quality-latency curves as PNG and SVG (matplotlib)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from zoo.report.figures import lay_out, write_png, write_svg
from zoo.report.palette import STYLES, places
from zoo.runs.rows.groups import by_system, by_test_set, test_set_label
from zoo.runs.rows.names import COMPUTATION_AWARE, main_score
from zoo.runs.rows.row import Row

MANY = 4  # maximum number of systems whose points are all labelled; of more, only the ends are
GREY = "#8a8a86"
WIDTH = 4  # width of a panel in inches
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": ["DejaVu Sans"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#a9a9a4",
    "axes.labelcolor": "#33332f",
    "xtick.color": "#55554f",
    "ytick.color": "#55554f",
    "text.parse_math": False,  # a $ in a name does not start a formula
    "svg.fonttype": "none",
    "svg.hashsalt": "simulzoo",  # ids of SVG elements are equal in every run
}


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes.

    Attributes:
        title: title of the panel.
        latency: score of the horizontal axis, in seconds.
        quality: score of the vertical axis.
    """

    title: str
    latency: str
    quality: str


def plot_curves(
    rows: Sequence[Row], stem: Path, *, quality: str = main_score("quality")
) -> tuple[Path, Path]:
    """Plot ``quality`` against StreamLAAL and StreamLAAL_CA (seconds), side by side.

    If a row has ASR_BLEU, a third panel shows ASR_BLEU against the StartOffset of the speech. Every
    system is a line with its knob values, the offline row is a dashed line, oracles are
    grey and dotted, systems that receive the reference segments are dashed, and the markers of
    flagged rows are hollow. 95 % intervals are error bars. Test sets are below each other.

    Args:
        rows: rows of results.
        stem: path without suffix.
        quality: score of the vertical axis.

    Returns:
        Paths of the PNG and the SVG file.
    """
    panels = panels_of(rows, quality)
    groups = by_test_set(rows)
    with mpl.rc_context(STYLE):
        scale = 1.4 if len({row.system for row in rows if row.kind == "system"}) > MANY else 1.0
        size = WIDTH * scale * len(panels), 4 * scale * max(1, len(groups))
        figure = Figure(figsize=size, layout="constrained")
        # A figure without rows has one line of empty panels.
        axes = figure.subplots(max(1, len(groups)), len(panels), squeeze=False)
        for axes_of_group, (key, group) in zip(axes, groups.items(), strict=False):
            _panels(axes_of_group, panels, group, title=test_set_label(key))
        _legend(figure, axes.flat, flagged=any(row.flags for row in rows))
        paths = stem.with_name(stem.name + ".png"), stem.with_name(stem.name + ".svg")
        lay_out(figure)
        write_png(figure, paths[0], dpi=160)
        write_svg(figure, paths[1])
    return paths


def panels_of(rows: Sequence[Row], quality: str) -> list[Panel]:
    """Return panels for ideal and computation-aware latency, and for scored target speech."""
    latency = main_score("latency")
    panels = [
        Panel("ideal", latency, quality),
        Panel("computation-aware", latency + COMPUTATION_AWARE, quality),
    ]
    speech = Panel("speech", main_score("latency", "speech"), main_score("quality", "speech"))
    has_speech = any(row.scores.get(speech.quality) is not None for row in rows)
    return [*panels, speech] if has_speech else panels


def _panels(
    axes: Sequence[Axes], panels: Sequence[Panel], rows: Sequence[Row], *, title: str
) -> None:
    """Draw all panels of one test set; ideal and computation-aware latency share their axes."""
    axes[1].sharex(axes[0])
    axes[1].sharey(axes[0])
    for axis, panel in zip(axes, panels, strict=True):
        axis.set_title(f"{title}: {panel.title}", loc="left", fontsize=10, color="#33332f")
        axis.set_xlabel(f"{panel.latency} (s)")
        axis.grid(color="#e6e6e1", linewidth=0.7)
        axis.set_axisbelow(True)
        _curves(axis, rows, panel)
        axis.margins(x=0.12, y=0.14)
        if axis is axes[1]:
            axis.tick_params(labelleft=False)
        else:
            axis.set_ylabel(panel.quality)


def _legend(figure: Figure, axes: Iterable[Axes], *, flagged: bool) -> None:
    """Draw one legend below all panels, with each label once."""
    entries: dict[str, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        entries |= {
            label: handle
            for handle, label in zip(handles, labels, strict=True)
            if label not in entries
        }
    if flagged:
        entries["! flagged"] = Line2D(
            [], [], color=GREY, marker="o", markerfacecolor="white", linestyle="none"
        )
    if entries:
        figure.legend(
            entries.values(),
            entries.keys(),
            loc="outside lower center",
            ncols=min(4, len(entries)),
            frameon=False,
            fontsize=9.5,
            handlelength=1.6,
        )


def _curves(axis: Axes, rows: Sequence[Row], panel: Panel) -> None:
    """Draw the curves of all systems and reference rows of a test set into one panel."""
    systems = sorted({row.system for row in rows if row.kind == "system"})
    crowded = len(systems) > MANY
    for group in by_system(rows):
        kind, name = group[0].kind, group[0].system  # equal in all rows of a group
        color, marker = GREY, "x"
        system = name.removesuffix(" offline") if kind == "ceiling" else name
        if system in systems:
            color_place, marker_place = places(systems.index(system))
            color, marker = STYLES[color_place].light, STYLES[marker_place].marker
        if kind == "ceiling":
            _offline_lines(axis, group, quality=panel.quality, color=color)
        else:
            _line(axis, group, panel, color=color, marker=marker, crowded=crowded)


def _offline_lines(axis: Axes, group: Sequence[Row], *, quality: str, color: str) -> None:
    """Draw the quality of offline rows as horizontal lines in the color of their system."""
    for row in group:
        value = row.scores.get(quality)
        if value is not None:
            axis.axhline(
                value,
                color=color,
                linestyle=(0, (5, 4)),
                linewidth=1.1,
                label=_name(row),
            )


def _line(
    axis: Axes, group: Sequence[Row], panel: Panel, *, color: str, marker: str, crowded: bool
) -> None:
    """Draw the curve of one system.

    Args:
        axis: axes of the panel.
        group: rows of the system, ordered by knob value.
        panel: scores of the axes.
        color: color of the curve.
        marker: marker of the points.
        crowded: whether only the first and the last point have a label.
    """
    drawn: list[tuple[Row, float, float]] = []
    for row in group:
        x, y = row.scores.get(panel.latency), row.scores.get(panel.quality)
        if x is not None and y is not None:
            drawn.append((row, x, y))

    is_system = group[0].kind == "system"
    axis.plot(
        [x for _, x, _ in drawn],
        [y for _, _, y in drawn],
        color=color,
        marker=marker,
        markersize=6 if is_system else 5,
        linewidth=1.7 if is_system else 0.9,
        linestyle=_dashes(group[0]),
        label=_name(group[0]),
    )
    for row, x, y in drawn:
        _error_bars(axis, row, panel, x=x, y=y, color=color)
        if row.flags:
            axis.plot(
                [x],
                [y],
                color=color,
                marker=marker,
                markersize=6,
                markerfacecolor="white",
                linestyle="none",
            )
        if crowded and row not in (drawn[0][0], drawn[-1][0]):
            continue
        axis.annotate(
            _point(row),
            (x, y),
            textcoords="offset points",
            xytext=(5, -11),
            fontsize=9,
            color=color,
        )


def _error_bars(axis: Axes, row: Row, panel: Panel, *, x: float, y: float, color: str) -> None:
    """Draw the 95 % intervals of a point; a score without interval has no bar."""
    for name, line in ((panel.latency, axis.hlines), (panel.quality, axis.vlines)):
        if name in row.intervals:
            low, high = row.intervals[name]
            other = y if name == panel.latency else x
            line(other, low, high, color=color, linewidth=1.0, alpha=0.6)


def _point(row: Row) -> str:
    """Return the label of a point: its knob value, and a mark if the row is flagged."""
    label = row.knob_label
    # The name of a long knob would cover other points; the legend shows it.
    if row.knob is not None and len(row.knob.name) > 2:
        label = f"{row.knob.value:g}"
    return label + (" !" if row.flags else "")


def _dashes(row: Row) -> str:
    """Return the line style of a curve: dashed with reference segments, dotted for oracles."""
    if row.kind != "system":
        return ":"
    return "--" if row.has_reference_segments else "-"


def _name(row: Row) -> str:
    """Return the label of a curve: the system and the name of its knob."""
    return row.system if row.knob is None else f"{row.system}, by {row.knob.name}"
