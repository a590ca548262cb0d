"""Figures as files: one layout for all files, of which none has a date."""

from pathlib import Path

import matplotlib.image as image
from matplotlib.figure import Figure

from zoo.report.figures import lay_out, write_png, write_svg


def drawn() -> Figure:
    figure = Figure(figsize=(3, 2), layout="constrained")
    axis = figure.subplots()
    axis.plot([0, 1_000_000], [0, 1])
    axis.set_ylabel("a label\nof two lines")
    return figure


def test_all_files_have_the_places_of_one_layout(tmp_path: Path) -> None:
    figure = drawn()
    before = figure.axes[0].get_position().bounds
    lay_out(figure)
    places = figure.axes[0].get_position().bounds
    assert places[0] > before[0]  # the label has room
    write_png(figure, tmp_path / "a.png", dpi=50)
    write_svg(figure, tmp_path / "a.svg")
    assert figure.axes[0].get_position().bounds == places
    assert image.imread(tmp_path / "a.png").shape[:2] == (100, 150)
    assert "<dc:date>" not in (tmp_path / "a.svg").read_text()


def test_a_figure_without_a_layout_engine_is_written(tmp_path: Path) -> None:
    figure = Figure(figsize=(2, 2))
    lay_out(figure)
    write_png(figure, tmp_path / "a.png", dpi=50)
    assert image.imread(tmp_path / "a.png").shape[:2] == (100, 100)
