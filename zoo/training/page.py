"""The page of a training while it runs: after each development evaluation and at its end."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from zoo.base.disk.files import relative_path
from zoo.base.disk.run_folder import METRICS
from zoo.runs import media
from zoo.runs.rows.training import read_samples
from zoo.runs.run import Run
from zoo.runs.segment_table import sample_table
from zoo.runs.tracker import Tracker

logger = logging.getLogger(__name__)


@contextmanager
def training_page(run: Run, tracker: Tracker) -> Iterator[Callable[[], None]]:
    """Write the page of a training when the block ends, also by an exception, and print its path.

    Args:
        run: run of the training.
        tracker: receives page, plot and samples.

    Yields:
        A function that writes the page of the training so far and logs the sample translations. The
        main process calls it after each development evaluation.
    """

    def update() -> None:
        if _write(run.folder):
            tracker.log_media("samples", lambda: sample_table(read_samples(run.folder)))

    try:
        yield update
    finally:
        paths = _write(run.folder) if run.main and (run.folder / METRICS).is_file() else None
        if paths:
            page, plot = paths
            tracker.log_media("report", lambda: media.page(page))
            tracker.log_media("plot", lambda: media.image(plot))
            print(f"curves:  {relative_path(plot)}\nreport:  {relative_path(page)}")


def _write(folder: Path) -> tuple[Path, Path] | None:
    """Write page and plot; return None after an error, which is logged and ends no training."""
    # imports the alignment of words and sacreBLEU, which a start that fails does not need
    from zoo.report.training import write_training

    try:
        return write_training(folder)
    except Exception as error:
        logger.warning("The page of the training is not written: %s", error)
        return None
