"""Curves of a training as one PNG, and panel by panel as SVG for its page (matplotlib)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from zoo.base.disk.files import atomic_file
from zoo.report.figures import lay_out, write_png, write_svg
from zoo.report.palette import STYLES
from zoo.report.plots import GREY, STYLE
from zoo.runs.rows.names import main_score
from zoo.runs.rows.settings import Axis
from zoo.runs.rows.training import MEAN, Point, TrainingRun

WIDTH, HEIGHT = 5.0, 3.3  # of a panel, in inches
COLUMNS = 3
POINTS_OF_MEAN = 40  # the running mean is over this share of the points of a stage
LOGARITHMIC = 20.0  # least ratio of the largest to the smallest loss for a logarithmic axis
BEST = STYLES[1].light
AXES: tuple[Axis, Axis] = ("quality", "latency")
STEPS = LinearSegmentedColormap.from_list("steps", ["#c3d3ec", STYLES[0].light])

DEVELOPMENT: dict[str, Any] = {
    "marker": "o",
    "markersize": 5,
    "markerfacecolor": "white",
    "linewidth": 1.0,
    "linestyle": (0, (4, 2)),
}


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes.

    Attributes:
        title: what it shows.
        draw: draws it.
    """

    title: str
    draw: Callable[[Axes], None]


def training_panels(training: TrainingRun) -> list[Panel]:
    """Return the panels for which a training has logged values."""
    quality, latency = main_score("quality"), main_score("latency")
    panels = []
    if training.stages:
        panels.append(Panel("Loss", partial(_losses, training)))
    if training.ranking is not None:
        panels.append(Panel(f"Development {quality}", partial(_quality, training)))
        if training.points(f"dev/{training.ranking}/{latency}"):
            title = f"Development {quality} over {latency}"
            panels.append(Panel(title, partial(_quality_over_latency, training)))
    others = {
        "train/learning_rate": "Learning rate",
        "throughput/tokens_per_second": "Throughput (tokens per second)",
        "throughput/gradient_norm": "Gradient norm",
    }
    for name, title in others.items():
        if training.points(name):
            panels.append(Panel(title, partial(_values, training, name)))
    return panels


def plot_training(training: TrainingRun, path: Path, *, title: str, headline: str) -> None:
    """Write all panels of a training to a PNG.

    Args:
        training: the training.
        path: the PNG.
        title: heading.
        headline: what the training has reached.
    """
    panels = training_panels(training)
    columns = min(COLUMNS, max(1, len(panels)))
    rows = max(1, math.ceil(len(panels) / columns))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows + 0.8), layout="constrained")
        place = {"x": 0.008, "ha": "left"}
        figure.suptitle(headline, **place, fontsize=13, fontweight="bold", color="#21211d")
        figure.supxlabel(title, **place, fontsize=10, color="#55554f")
        for axis, panel in zip(figure.subplots(rows, columns, squeeze=False).flat, panels):  # noqa: B905
            _draw(axis, panel)
        for axis in figure.axes[len(panels) :]:
            axis.remove()
        lay_out(figure)
        with atomic_file(path) as temporary:
            write_png(figure, temporary, dpi=140)


def panel_svg(panel: Panel) -> str:
    """Return a panel as an SVG element; equal panels have equal text."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": panel.title}):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        figure.patch.set_alpha(0.0)
        axis = figure.subplots()
        axis.patch.set_alpha(0.0)
        _draw(axis, panel, with_title=False)
        text = StringIO()
        lay_out(figure)
        write_svg(figure, text)
    return text.getvalue()[text.getvalue().index("<svg") :]


def _draw(axis: Axes, panel: Panel, *, with_title: bool = True) -> None:
    """Draw a panel with its grid."""
    if with_title:
        axis.set_title(panel.title, loc="left", fontsize=11, color="#33332f")
    axis.grid(color="#e6e6e1", linewidth=0.7)
    axis.set_axisbelow(True)
    panel.draw(axis)


def _over_steps(axis: Axes, training: TrainingRun) -> None:
    """Make the optimizer steps the horizontal axis, with a line where a stage begins."""
    for first in list(training.stages.values())[1:]:
        axis.axvline(first, color=GREY, linewidth=0.9, linestyle=(0, (1, 2.5)))
    axis.set_xlim(0, max(1, training.last_step) * 1.02)
    axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True))
    axis.xaxis.set_major_formatter(FuncFormatter(_number))
    axis.set_xlabel("step")


def _losses(training: TrainingRun, axis: Axes) -> None:
    """Draw the training loss of each stage and its running mean, and the development losses."""
    values: list[float] = []
    for place, stage in enumerate(training.stages):
        color = STYLES[place % len(STYLES)].light
        raw = _finite(training.points(f"train/{stage}/loss"))
        mean = running_mean(raw)
        axis.plot(*_columns(raw), color=color, linewidth=0.8, alpha=0.3)
        axis.plot(*_columns(mean), color=color, linewidth=1.8, label=stage)
        development = _finite(training.points(f"dev/{stage}/loss"))
        axis.plot(*_columns(development), color=color, **DEVELOPMENT)
        values += [value for _, value in (*raw, *development)]
    if values and min(values) > 0 and max(values) / min(values) > LOGARITHMIC:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(FuncFormatter(_number))
        axis.yaxis.set_minor_formatter(NullFormatter())
    _over_steps(axis, training)
    if any(training.points(f"dev/{stage}/loss") for stage in training.stages):
        axis.plot([], [], color=GREY, **DEVELOPMENT, label="development")
    if values:
        _legend(axis)


def _quality(training: TrainingRun, axis: Axes) -> None:
    """Draw the development BLEU of each direction over the steps, and mark the best step."""
    quality = main_score("quality")
    for place, direction in enumerate(training.directions):
        points = training.points(f"dev/{direction}/{quality}")
        ranks = direction == training.ranking
        axis.plot(
            *_columns(points),
            color=STYLES[0 if ranks else 1 + place % (len(STYLES) - 1)].light,
            marker="o",
            markersize=5,
            linewidth=1.9 if ranks else 1.0,
            label=direction,
        )
    if training.best:
        _mark_best(axis, training, x=training.best["step"])
    _quality_limits(axis)
    _over_steps(axis, training)
    if len(training.directions) > 1:
        _legend(axis)


def _quality_over_latency(training: TrainingRun, axis: Axes) -> None:
    """Draw BLEU over StreamLAAL of the evaluations: a path whose later points are darker."""
    quality, latency = (f"dev/{training.ranking}/{main_score(of)}" for of in AXES)
    scored = [one for one in training.evaluated if quality in one and latency in one]
    x, y = ([one[name] for one in scored] for name in (latency, quality))
    axis.plot(x, y, color="#c3d3ec", linewidth=1.2, zorder=1)
    axis.scatter(x, y, c=range(len(scored)), cmap=STEPS, s=38, zorder=2)
    for one in scored[:1] + scored[-1:]:
        if one is not training.best:
            _annotate(axis, f"step {one['step']:,}", (one[latency], one[quality]), color="#55554f")
    if training.best and latency in training.best:
        _mark_best(axis, training, x=training.best[latency])
    axis.margins(x=0.2)
    _quality_limits(axis)
    axis.set_xlabel(f"{main_score('latency')} (s)" + (", mean" * (training.ranking == MEAN)))


def _values(training: TrainingRun, name: str, axis: Axes) -> None:
    """Draw the values of one name over the steps."""
    axis.plot(*_columns(_finite(training.points(name))), color=STYLES[0].light, linewidth=1.6)
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axis.yaxis.set_major_formatter(FuncFormatter(_number))
    _over_steps(axis, training)


def _mark_best(axis: Axes, training: TrainingRun, *, x: float) -> None:
    """Mark the best evaluation, with its step and BLEU."""
    assert training.best is not None
    value = training.best[f"dev/{training.ranking}/{main_score('quality')}"]
    axis.plot([x], [value], marker="*", markersize=15, color=BEST, linestyle="none", zorder=3)
    text = f"best {value:.1f}, step {training.best['step']:,}"
    _annotate(axis, text, (x, value), color=BEST)


def _quality_limits(axis: Axes) -> None:
    """Leave room for the label of the best evaluation; no score is below 0."""
    axis.margins(y=0.16)
    low, high = axis.get_ylim()
    axis.set_ylim(max(0.0, low), high if high > 1 else 1.0)


def _annotate(axis: Axes, text: str, place: tuple[float, float], *, color: str) -> None:
    """Write a text beside a point, towards the middle of the axes."""
    low, high = axis.get_xlim()
    is_right = place[0] > (low + high) / 2
    axis.annotate(
        text,
        place,
        textcoords="offset points",
        xytext=(-9 if is_right else 9, 7),
        ha="right" if is_right else "left",
        fontsize=9.5,
        color=color,
    )


def _number(value: float, _: object) -> str:
    """Return the label of a tick."""
    return f"{value:,g}"


def _legend(axis: Axes) -> None:
    """Draw the legend of a panel below it."""
    axis.legend(
        loc="upper left",
        bbox_to_anchor=(0, -0.2),
        ncols=3,
        frameon=False,
        fontsize=9,
        handlelength=2.2,
        borderaxespad=0,
    )


def running_mean(points: Sequence[Point]) -> list[Point]:
    """Return the centred mean of each point and its neighbours."""
    reach = len(points) // POINTS_OF_MEAN // 2
    means = []
    for place, (step, _) in enumerate(points):
        near = points[max(0, place - reach) : place + reach + 1]
        means.append((step, sum(value for _, value in near) / len(near)))
    return means


def _finite(points: Sequence[Point]) -> list[Point]:
    """Return the points with a finite value."""
    return [point for point in points if math.isfinite(point[1])]


def _columns(points: Sequence[Point]) -> tuple[list[int], list[float]]:
    """Return the steps and the values of points."""
    return [step for step, _ in points], [value for _, value in points]
