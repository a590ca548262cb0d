"""Figures as files, laid out and drawn once (matplotlib).

``Figure.savefig`` draws a figure twice and lays it out each time, which takes twice as long.
"""

from pathlib import Path
from typing import IO, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure


def lay_out(figure: Figure) -> None:
    """Place the parts of a figure by its layout engine, and keep these places in all files."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")


def write_png(figure: Figure, file: Path | IO[Any], *, dpi: float) -> None:
    """Write a figure, once it is laid out, as PNG.

    Args:
        figure: figure.
        file: path or open file.
        dpi: pixels per inch.
    """
    figure.set_dpi(dpi)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(file)


def write_svg(figure: Figure, file: Path | IO[Any]) -> None:
    """Write a figure, once it is laid out, as SVG without a date."""
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(file, metadata={"Date": None})
