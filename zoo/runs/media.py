"""Tables, charts, pages and audio as W&B shows them; ``Tracker.log_media`` logs them.

W&B is imported where a value is made: a run without W&B makes none.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.base.types import Seconds

if TYPE_CHECKING:
    import wandb
    from wandb.plot.custom_chart import CustomChart

MAX_ROWS = 10_000  # of a table in W&B, which draws no more

Points = Sequence[tuple[float, float]]


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> "wandb.Table":
    """Return a table.

    Args:
        columns: name of each column.
        rows: one value per column and row; the first ``MAX_ROWS`` are in the table.
    """
    import wandb

    return wandb.Table(columns=list(columns), data=[list(row) for row in rows[:MAX_ROWS]])


def curves(lines: Mapping[str, Points], *, x: str, y: str) -> "CustomChart":
    """Return one chart of several lines, such as BLEU over StreamLAAL of each system.

    Args:
        lines: points of each line by label.
        x: name of the horizontal axis.
        y: name of the vertical axis.
    """
    import wandb

    points = {label: sorted(line) for label, line in lines.items()}
    return wandb.plot.line_series(
        xs=[[point[0] for point in line] for line in points.values()],
        ys=[[point[1] for point in line] for line in points.values()],
        keys=list(points),
        title=f"{y} over {x}",
        xname=x,
    )


def image(path: Path) -> "wandb.Image":
    """Return a PNG image."""
    import wandb

    return wandb.Image(str(path))


def page(path: Path) -> "wandb.Html":
    """Return an HTML page as it is."""
    import wandb

    return wandb.Html(str(path), inject=False)


def clips(paths: Mapping[str, Path], *, seconds: Seconds) -> "list[wandb.Audio]":
    """Return the beginnings of wave files.

    Args:
        paths: paths by caption.
        seconds: length of the beginnings.
    """
    import soundfile
    import wandb

    found = []
    for caption, path in paths.items():
        rate = soundfile.info(path).samplerate
        samples, _ = soundfile.read(path, frames=int(seconds * rate), dtype="float32")
        found.append(wandb.Audio(samples, sample_rate=rate, caption=caption))
    return found
