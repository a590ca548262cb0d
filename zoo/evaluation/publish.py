"""Publishes the rows of an evaluation: logged scores, plots, the HTML report and the table."""

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from zoo.config import overrides
from zoo.evaluation.compute import load_note
from zoo.evaluation.runner import Evaluator
from zoo.evaluation.tracked import log_results, log_row
from zoo.hints import job_command
from zoo.report.page import write_report
from zoo.report.results import Row
from zoo.report.table import comet_scores, has_references, print_table
from zoo.tracking.provenance import provenance
from zoo.tracking.tracker import Tracker
from zoo.types import Seconds

PAGE_INTERVAL: Seconds = 30.0  # least time between two reports of the rows so far
TABLE_WIDTH = 100  # columns, where stdout is not a terminal


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
    if not any(has_references(row) for row in rows):
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
        context=context(
            {**facts, "convention": ", ".join(sorted(conventions)), "weights": weights(rows)}
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


def context(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the provenance of the run, as the report shows it.

    Args:
        facts: further facts by name.
    """
    record = provenance()
    git, hardware = record["git"], record["hardware"]
    commit = f"{git['commit']}{' (with changes)' if git['dirty'] else ''}" if git else "unknown"
    parts = [hardware["cpu"], f"{hardware['usable_cores']} cores"]
    if hardware["torch_threads"] is not None:
        parts += [f"{hardware['torch_threads']} threads", *hardware["gpus"]]
    return {
        "command": f"{job_command('evaluate')} {shlex.join(overrides())}".strip(),
        "date": f"{datetime.now():%Y-%m-%d %H:%M}",
        **{name.replace("_", " "): str(value) for name, value in facts.items()},
        "git commit": commit,
        "machine": ", ".join(parts),
    }


def relative_path(path: Path) -> Path:
    """Return a path relative to the working directory if it lies below that directory."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def wide_console() -> Console:
    """Return a console as wide as the terminal, or ``TABLE_WIDTH`` columns elsewhere."""
    console = Console()
    return console if console.is_terminal else Console(width=TABLE_WIDTH)
