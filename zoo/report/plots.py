"""Quality-latency curves as PNG and SVG (matplotlib)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from zoo.report.results import Row
from zoo.report.table import by_system, by_test_set, knob_label, test_set_label

COLORS = (
    *("#2f5fa8", "#b8562b", "#2b7d62", "#7d4fa3", "#97751f", "#b03d6f", "#2a7f95", "#6b6b3a"),
    *("#1c2f5c", "#d98a3d", "#76b08f"),
)
MANY = 4  # systems; with more, only the ends of each curve are labelled
MARKERS = "osD^vPX*"
GREY = "#8a8a86"
WIDTH = 4  # inches per panel
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": ["DejaVu Sans"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#a9a9a4",
    "axes.labelcolor": "#33332f",
    "xtick.color": "#55554f",
    "ytick.color": "#55554f",
    "text.parse_math": False,  # a $ in a name is a dollar
    "svg.fonttype": "none",
    "svg.hashsalt": "simulzoo",
}


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes: ``quality`` against ``latency`` (seconds)."""

    title: str
    latency: str
    quality: str


def plot_curves(rows: Sequence[Row], stem: Path, *, quality: str = "BLEU") -> tuple[Path, Path]:
    """Plot ``quality`` against StreamLAAL and StreamLAAL_CA (seconds), side by side.

    Rows with ASR_BLEU get a third panel, ASR_BLEU against the StartOffset of the speech. Every
    system is a line with its knob values, the offline upper bound a dashed line, oracles are grey,
    flagged rows hollow. Test sets are below each other.

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
        FigureCanvasAgg(figure)
        axes = figure.subplots(max(1, len(groups)), len(panels), squeeze=False)
        for line, (key, group) in zip(axes, groups.items(), strict=False):
            _panels(line, panels, group, title=test_set_label(key))
        _legend(figure, axes.flat, flagged=any(row.flags for row in rows))
        paths = stem.with_name(stem.name + ".png"), stem.with_name(stem.name + ".svg")
        figure.savefig(paths[0], dpi=160)
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def panels_of(rows: Sequence[Row], quality: str) -> list[Panel]:
    """Panels for ideal and computation-aware latency, and for target speech where it has scores."""
    panels = [
        Panel("ideal", "StreamLAAL", quality),
        Panel("computation-aware", "StreamLAAL_CA", quality),
    ]
    has_speech = any(row.scores.get("ASR_BLEU") is not None for row in rows)
    return [*panels, Panel("speech", "StartOffset", "ASR_BLEU")] if has_speech else panels


def _panels(
    axes: Sequence[Axes], panels: Sequence[Panel], rows: Sequence[Row], *, title: str
) -> None:
    axes[1].sharex(axes[0])
    axes[1].sharey(axes[0])
    for axis, panel in zip(axes, panels, strict=True):
        axis.set_title(f"{title}: {panel.title}", loc="left", fontsize=10, color="#33332f")
        axis.set_xlabel(f"{panel.latency} (s)")
        axis.grid(color="#e6e6e1", linewidth=0.7)
        axis.set_axisbelow(True)
        _curves(axis, rows, latency=panel.latency, quality=panel.quality)
        axis.margins(x=0.12, y=0.14)
        if axis is axes[1]:
            axis.tick_params(labelleft=False)
        else:
            axis.set_ylabel(panel.quality)


def _legend(figure: Figure, axes: Iterable[Axes], *, flagged: bool) -> None:
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


def _curves(axis: Axes, rows: Sequence[Row], *, latency: str, quality: str) -> None:
    systems = sorted({row.system for row in rows if row.kind == "system"})
    for group in by_system(rows):
        first = group[0]
        if first.kind == "ceiling":
            _ceiling(axis, group, quality=quality)
            continue
        place = systems.index(first.system) if first.kind == "system" else 0
        color = COLORS[place % len(COLORS)] if first.kind == "system" else GREY
        marker = MARKERS[place % len(MARKERS)] if first.kind == "system" else "x"
        crowded = len(systems) > MANY
        _line(
            axis,
            group,
            latency=latency,
            quality=quality,
            color=color,
            marker=marker,
            crowded=crowded,
        )


def _ceiling(axis: Axes, group: Sequence[Row], *, quality: str) -> None:
    for row in group:
        value = row.scores.get(quality)
        if value is not None:
            axis.axhline(
                value,
                color=GREY,
                linestyle=(0, (5, 4)),
                linewidth=1.1,
                label=f"{row.system} (upper bound)",
            )


def _line(
    axis: Axes,
    group: Sequence[Row],
    *,
    latency: str,
    quality: str,
    color: str,
    marker: str,
    crowded: bool,
) -> None:
    points = [(row, row.scores.get(latency), row.scores.get(quality)) for row in group]
    drawn = [(row, x, y) for row, x, y in points if x is not None and y is not None]
    system = group[0].kind == "system"
    axis.plot(
        [x for _, x, _ in drawn],
        [y for _, _, y in drawn],
        color=color,
        marker=marker,
        markersize=6 if system else 5,
        linewidth=1.7 if system else 0.9,
        linestyle="-" if system else ":",
        label=_name(group[0]),
    )
    for row, x, y in drawn:
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


def _point(row: Row) -> str:
    label = knob_label(row)
    # A long knob name would cover the neighbours; the legend has it.
    if row.knob is not None and len(row.knob.name) > 2:
        label = f"{row.knob.value:g}"
    return label + (" !" if row.flags else "")


def _name(row: Row) -> str:
    return row.system if row.knob is None else f"{row.system}, by {row.knob.name}"
