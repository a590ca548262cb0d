"""Shows the rows of an evaluation: logged scores, plots, the HTML report and the table."""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.base.disk.files import relative_path
from zoo.base.disk.run_folder import RESULTS
from zoo.base.progress import wide_console
from zoo.base.types import Seconds
from zoo.config import is_multirun, overrides
from zoo.evaluation.compute import load_note
from zoo.evaluation.score import ScoredRun
from zoo.report.matched import matched_tables
from zoo.report.page import write_report
from zoo.report.ranking import ranking_tables
from zoo.report.table import print_table, score_line, table_width
from zoo.report.text_table import printed_tables
from zoo.runs.context import page_context
from zoo.runs.results import log_comet, log_matched, log_results, log_row
from zoo.runs.rows.join import same_reference
from zoo.runs.rows.names import comet_scores
from zoo.runs.rows.row import Row, read_rows
from zoo.runs.tracker import Tracker

PAGE_INTERVAL: Seconds = 30.0  # least time between two reports of the rows so far

logger = logging.getLogger(__name__)


class ShownRun:
    """Shows the rows of a run: logs each when it is scored, and publishes all at the end.

    Args:
        scored: the rows that are scored so far, and their streams.
        tracker: receives scores, plots, tables and files.
        facts: further facts for the report, by name.
        corpus: name of the corpus.
    """

    def __init__(
        self, scored: ScoredRun, tracker: Tracker, facts: Mapping[str, Any], *, corpus: str
    ) -> None:
        self._scored = scored
        self._tracker = tracker
        self._facts = dict(facts)
        self._corpus = corpus
        self._last_page: Seconds = time.monotonic()
        self._is_ranked = scored.settings.development is not None

    def log(self, row: Row) -> None:
        """Log a row, print its scores if it was streamed, and update the page from time to time."""
        log_row(self._tracker, row)
        if row.settings.streaming_seconds is not None:
            logger.info("%s", score_line(row))
        if time.monotonic() - self._last_page > PAGE_INTERVAL:
            self._write_page()
            self._last_page = time.monotonic()

    def publish(self, notes: Sequence[str]) -> None:
        """Print the table, write the plots and the HTML report, and log both.

        Args:
            notes: sentences about rows and scores that are left out, for the report and the
                terminal.
        """
        if notes:
            self._facts["not scored"] = " ".join(notes)
        rows, folder = self._scored.rows, self._scored.folder
        if named := comet_scores(rows):
            log_comet(self._tracker, rows)
        console = wide_console()
        shown, job = without_repeated(rows, folder) if is_multirun() else (rows, None)
        print_table(shown, console=console)
        if job is not None:
            print(f"oracle rows: as in job {job}")
        tables = matched_tables(self._scored.matched)
        tables += ranking_tables(rows) if self._is_ranked else []
        if tables:
            console.print(printed_tables(tables, width=table_width(console)))
        if note := load_note(rows):
            console.print(note, markup=False, highlight=False)
        png, page = write_plot(rows, folder), self._write_page()
        for name in named:
            from zoo.report.plots import plot_curves

            plot_curves(rows, folder / f"curves_{name}", quality=name)
        log_results(self._tracker, rows, self._scored.streams, folder=folder, plot=png, page=page)
        log_matched(self._tracker, self._scored.matched)

        print(f"results: {relative_path(folder / 'results.json')}\nreport:  {relative_path(page)}")
        for note in notes:
            print(note)

    def _write_page(self) -> Path:
        """Write the HTML report of the rows so far and return its path."""
        rows = self._scored.rows
        page = self._scored.folder / "report.html"
        # A recorded log may have a convention of its own.
        conventions = {
            row.settings.convention or "no elapsed times" for row in rows if row.kind == "system"
        }
        facts = {
            **self._facts,
            "convention": ", ".join(sorted(conventions)),
            "weights": list_weights(rows),
        }
        write_report(
            page,
            rows=rows,
            streams=self._scored.streams,
            title=f"SimulZoo: {self._corpus}",
            context=page_context(facts, overrides()),
            matched=self._scored.matched,
            ranking=self._is_ranked,
        )
        return page


def without_repeated(rows: Sequence[Row], folder: Path) -> tuple[list[Row], str | None]:
    """Leave out the oracle rows that an earlier job of a multirun has, too.

    Args:
        rows: rows of a job.
        folder: run folder of the job; those of the other jobs are beside it.

    Returns:
        The other rows, and the number of the earlier job; None: no row is left out.
    """
    if not folder.name.isdecimal():  # the user has named the folders of the jobs
        return list(rows), None
    for number in range(int(folder.name)):
        path = folder.with_name(str(number)) / RESULTS
        earlier = [row for row in read_rows(path) if row.kind == "oracle"] if path.is_file() else []
        kept = [row for row in rows if not any(same_reference(row, other) for other in earlier)]
        if len(kept) < len(rows):
            return kept, str(number)
    return list(rows), None


def write_plot(rows: Sequence[Row], folder: Path) -> Path | None:
    """Write the curves of all rows; return the path of the PNG, or None without references."""
    if not any(row.has_references for row in rows):
        return None
    from zoo.report.plots import plot_curves  # imports matplotlib, after the table is printed

    png, _ = plot_curves(rows, folder / "curves")
    return png


def list_weights(rows: Sequence[Row]) -> str:
    """Return the weights and the size of each system, without those of recorded logs."""
    named = {
        row.system: f"{row.system}: {', '.join(row.settings.weights.values())} "
        f"({(row.settings.parameters or 0) / 1e6:,.1f} M parameters)"
        for row in rows
        if row.kind == "system" and row.settings.weights
    }
    return "; ".join(named.values()) or "none"
