"""Joins finished runs into one table, plot and page: ``python -m zoo.report RUN [RUN ...]``."""

import argparse
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console, RenderableType

from zoo.errors import ZooError
from zoo.report.joined import find_runs, joined_rows
from zoo.report.page import write_report
from zoo.report.results import Row, write_rows
from zoo.report.summaries import by_score, by_talk, over_knob
from zoo.report.table import score_table

BAD_INPUT = 2  # exit code
TABLE_WIDTH = 100  # columns, where stdout is not a terminal


def main(arguments: Sequence[str] | None = None) -> None:
    """Join the runs that the command line names.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(prog="python -m zoo.report", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run or multirun folder")
    default = Path("outputs") / "report" / f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
    parser.add_argument("--output", type=Path, default=default, help="new folder of the report")
    parser.add_argument("--scores", type=lambda names: names.split(","), help="columns: NAME,NAME")
    summary = parser.add_mutually_exclusive_group()
    summary.add_argument(
        "--over-knob", action="store_true", help="mean and deviation over the latency settings"
    )
    summary.add_argument("--talks", action="store_true", help="scores of each talk")
    summary.add_argument(
        "--minutes", type=float, help="mean scores of the talks up to and above this duration"
    )
    given = parser.parse_args(arguments)

    def table(rows: Sequence[Row]) -> RenderableType:
        if given.over_knob:
            return over_knob(rows, given.scores)
        if given.talks or given.minutes is not None:
            return by_talk(rows, given.scores, minutes=given.minutes)
        if given.scores is not None:
            return by_score(rows, given.scores)
        return score_table(rows)

    try:
        join(given.runs, given.output, table=table)
    except ZooError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)


def join(
    places: Sequence[Path],
    folder: Path,
    *,
    table: Callable[[Sequence[Row]], RenderableType] = score_table,
) -> None:
    """Write the joined results, plot and page, and print the table.

    Args:
        places: run folders or folders that contain run folders.
        folder: folder of the report; it must be new or empty.
        table: makes the printed table from the rows.

    Raises:
        ZooError: a place has no results, or the folder is not empty.
    """
    runs = find_runs(places)
    if folder.exists() and any(folder.iterdir()):
        raise ZooError(f"{folder} is not empty; choose another folder with --output.")
    folder.mkdir(parents=True, exist_ok=True)

    from zoo.report.plots import plot_curves  # imports matplotlib, after the arguments are checked

    rows = joined_rows(runs, folder)
    printed = table(rows)  # raises ZooError for an unknown score
    write_rows(rows, folder / "results.json")
    plot_curves(rows, folder / "curves")
    context = {"runs": ", ".join(str(run.folder) for run in runs)}
    page = folder / "report.html"
    write_report(page, rows=rows, streams=(), title="SimulZoo: joined runs", context=context)

    console = Console()
    (console if console.is_terminal else Console(width=TABLE_WIDTH)).print(printed)
    print(f"results: {folder / 'results.json'}\nreport:  {page}")


if __name__ == "__main__":
    main()
