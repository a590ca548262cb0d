"""Publishes the rows of an evaluation: logged scores, plots, the HTML report and the table."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.config import overrides
from zoo.evaluation.compute import load_note
from zoo.evaluation.runner import Evaluator
from zoo.files import relative_path
from zoo.progress import wide_console
from zoo.report.page import write_report
from zoo.report.table import print_table
from zoo.results.names import comet_scores
from zoo.results.row import Row
from zoo.tracking.context import page_context
from zoo.tracking.results import log_results, log_row
from zoo.tracking.tracker import Tracker
from zoo.types import Seconds

PAGE_INTERVAL: Seconds = 30.0  # least time between two reports of the rows so far


def log_rows(
    rows: Iterable[Row],
    evaluator: Evaluator,
    tracker: Tracker,
    folder: Path,
    facts: Mapping[str, Any],
) -> None:
    """Log each row when it is finished, and update the HTML report from time to time.

    Args:
        rows: rows, computed while this function iterates.
        evaluator: evaluator of the rows.
        tracker: receives the scores.
        folder: run folder.
        facts: further facts for the report, by name.
    """
    last_page = time.monotonic()
    for row in rows:
        log_row(tracker, row)
        if time.monotonic() - last_page > PAGE_INTERVAL:
            write_page(evaluator, folder, facts)
            last_page = time.monotonic()


def publish(evaluator: Evaluator, tracker: Tracker, folder: Path, facts: Mapping[str, Any]) -> None:
    """Print the table, write the plots and the HTML report, and log both.

    Args:
        evaluator: evaluator with all rows.
        tracker: receives plots, tables and files.
        folder: run folder.
        facts: further facts for the report, by name.
    """
    rows = evaluator.rows
    console = wide_console()
    print_table(rows, console=console)
    if note := load_note(rows):
        console.print(note, markup=False, highlight=False)
    png, page = write_plot(rows, folder), write_page(evaluator, folder, facts)
    for name in comet_scores(rows):
        from zoo.report.plots import plot_curves

        plot_curves(rows, folder / f"curves_{name}", quality=name)
    log_results(tracker, rows, evaluator.streams, folder=folder, plot=png, page=page)

    print(f"results: {relative_path(folder / 'results.json')}\nreport:  {relative_path(page)}")


def write_plot(rows: Sequence[Row], folder: Path) -> Path | None:
    """Write the curves of all rows; return the path of the PNG, or None without references."""
    if not any(row.has_references for row in rows):
        return None
    from zoo.report.plots import plot_curves  # imports matplotlib, after the table is printed

    png, _ = plot_curves(rows, folder / "curves")
    return png


def write_page(evaluator: Evaluator, folder: Path, facts: Mapping[str, Any]) -> Path:
    """Write the HTML report of the rows so far and return its path.

    Args:
        evaluator: evaluator with at least one row.
        folder: run folder.
        facts: further facts for the report, by name.
    """
    rows = evaluator.rows
    page = folder / "report.html"
    # A recorded log may have a convention of its own.
    conventions = {
        row.settings["convention"] or "no elapsed times" for row in rows if row.kind == "system"
    }
    write_report(
        page,
        rows=rows,
        streams=evaluator.streams,
        title=f"SimulZoo: {evaluator.corpus}",
        context=page_context(
            {**facts, "convention": ", ".join(sorted(conventions)), "weights": weights(rows)},
            overrides(),
        ),
    )
    return page


def weights(rows: Sequence[Row]) -> str:
    """Return the weights and the size of each system, without those of recorded logs."""
    named = {
        row.system: f"{row.system}: {', '.join(row.settings['weights'].values())} "
        f"({row.settings['parameters'] / 1e6:,.1f} M parameters)"
        for row in rows
        if row.kind == "system" and row.settings.get("weights")
    }
    return "; ".join(named.values()) or "none"
