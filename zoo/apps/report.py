"""Joins finished runs into one table, plot and page: ``python -m zoo report RUN [RUN ...]``.

The page of a training is written again, into its run folder.
"""

import argparse
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import yaml
from rich.console import Group, RenderableType

from zoo.base.disk.parsing import parse_yaml
from zoo.base.disk.run_folder import RESULTS
from zoo.base.errors import ZooError, check_numbers, shorten_list
from zoo.base.machine.commands import named_path, run_script
from zoo.base.machine.hints import program
from zoo.base.progress import wide_console
from zoo.evaluation.comet import runs_with_comet
from zoo.evaluation.matched import match_latencies
from zoo.evaluation.ratings import with_ratings
from zoo.evaluation.significance import with_significance
from zoo.metrics.significance import Resampling
from zoo.report.matched import matched_tables
from zoo.report.page import write_report
from zoo.report.ranking import ranking_tables
from zoo.report.ratings import rating_tables
from zoo.report.summaries import by_score, by_talk, over_knob
from zoo.report.table import score_table
from zoo.report.text_table import printed_tables
from zoo.report.training import write_training
from zoo.runs.rows.join import FinishedRun, find_runs, joined_rows
from zoo.runs.rows.matched import MatchedCurve, write_matched
from zoo.runs.rows.names import comet_scores
from zoo.runs.rows.ratings import write_rated
from zoo.runs.rows.row import Row, write_rows
from zoo.runs.rows.streams import finished_streams
from zoo.runs.rows.training import is_training

# adds intervals and tests to rows and compares systems, given the folder of the rows' logs
Tested = Callable[[Sequence[Row], Path], tuple[list[Row], list[MatchedCurve]]]

PAGE = "report.html"


def main(arguments: Sequence[str] | None = None) -> None:
    """Join the runs that the command line names.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(prog=program("report"), description=__doc__)
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="run or multirun folder; comet=[MODEL,...] adds COMET scores to the runs, and "
        "comet_python=PATH names the Python of its environment",
    )
    default = Path("outputs") / "report" / f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
    parser.add_argument(
        "--output", type=named_path, default=default, help="new folder of the report"
    )
    parser.add_argument("--scores", type=lambda names: names.split(","), help="columns: NAME,NAME")
    add_tables(parser)
    add_tests(parser)
    given = parser.parse_args(arguments)

    def table(rows: Sequence[Row]) -> RenderableType:
        if given.over_knob:
            return over_knob(rows, given.scores)
        if given.talks or given.minutes is not None:
            return by_talk(rows, given.scores, minutes=given.minutes)
        if given.scores is not None:
            return by_score(rows, given.scores)
        return score_table(rows)

    def write() -> None:
        check_numbers("zoo.report", least=0, minutes=given.minutes)
        if not all(run.strip() for run in given.runs):  # Path("") is the current folder
            raise ZooError("There is no folder ''; name the folder of an evaluation.")
        places, models, python = comet_of(given.runs)
        trainings = [place for place in places if is_training(place)]
        places = [place for place in places if place not in trainings]
        if trainings and not places:
            typed = {
                name for name, value in vars(given).items() if value != parser.get_default(name)
            }
            refuse_options([*sorted(typed), *(["comet"] if models else [])])
        write_trainings(trainings)
        if trainings and not places:
            return
        scored = partial(runs_with_comet, names=models, python=python)
        join(
            places,
            given.output,
            table=table,
            tested=tests_of(given),
            scored=scored,
            ranking=given.ranking,
        )

    run_script(write, given.output)


def refuse_options(names: Sequence[str]) -> None:
    """Raise ZooError if an option besides the runs is typed for trainings alone."""
    options = [f"--{name.replace('_', '-')}" for name in names if name != "runs"]
    if options:
        raise ZooError(
            "The page of a training is written into its folder, without options; leave out "
            f"{shorten_list(options)}, or name an evaluation."
        )


def write_trainings(folders: Sequence[Path]) -> None:
    """Write the page and the plot of trainings into their run folders, and print their paths.

    Raises:
        ZooError: a training has no logged values, or a file in its folder is damaged.
    """
    for folder in folders:
        page, plot = write_training(folder)
        print(f"curves:  {plot}\nreport:  {page}")


def comet_of(words: Sequence[str]) -> tuple[list[Path], list[str], str | None]:
    """Divide the words of the command line.

    Returns:
        The places of runs, the COMET models and the Python of their environment.

    Raises:
        ZooError: a value is not a list of names, or there is a Python without a model.
    """
    settings = {"comet": "[]", "comet_python": "null"}
    places: list[Path] = []
    for word in words:
        key, separator, value = word.partition("=")
        if separator and key in settings:
            settings[key] = value
        else:
            places.append(Path(word))
    try:
        models, python = (parse_yaml(value) for value in settings.values())
    except yaml.YAMLError as error:
        raise ZooError(f"comet={settings['comet']} is not a list such as comet=[A,B].") from error
    models = [models] if isinstance(models, str) else models
    if not isinstance(models, list) or not all(isinstance(name, str) for name in models):
        raise ZooError(f"comet={settings['comet']} is not a list such as comet=[A,B].")
    if python is not None and not models:
        raise ZooError(
            f"comet_python={python} is the Python that scores with COMET; add comet=[MODEL,...], "
            "or leave it out."
        )
    return places, models, python


def add_tables(parser: argparse.ArgumentParser) -> None:
    """Add the options of summaries and of the ranking to a parser."""
    summary = parser.add_mutually_exclusive_group()
    summary.add_argument(
        "--over-knob", action="store_true", help="mean and deviation over the latency settings"
    )
    summary.add_argument("--talks", action="store_true", help="scores of each talk")
    summary.add_argument(
        "--minutes", type=float, help="mean scores of the talks up to and above this duration"
    )
    parser.add_argument(
        "--ranking", action="store_true", help="also the ranking of IWSLT within latency regimes"
    )


def add_tests(parser: argparse.ArgumentParser) -> None:
    """Add the options of intervals and tests to a parser."""
    defaults = Resampling()
    tests = parser.add_argument_group("intervals and tests over segments")
    tests.add_argument(
        "--significance",
        type=lambda names: names.split(","),
        help="tests against the baseline: bootstrap, randomisation or both; adds 95 %% intervals",
    )
    tests.add_argument("--baseline", help="row or system (default: the first row)")
    for name in ("resamples", "trials", "seed"):
        default = getattr(defaults, name)
        tests.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")


def tests_of(given: argparse.Namespace) -> Tested | None:
    """Return the function that tests rows, or None if no test is wanted.

    Raises ZooError for an unknown test or a number out of range.
    """
    if given.significance is None:
        if given.baseline is not None:
            raise ZooError("--baseline needs a test; add --significance bootstrap.")
        return None
    wanted = Resampling(
        tests=given.significance, resamples=given.resamples, trials=given.trials, seed=given.seed
    )

    def tested(rows: Sequence[Row], folder: Path) -> tuple[list[Row], list[MatchedCurve]]:
        rows = with_significance(rows, folder, wanted, baseline=given.baseline)
        return rows, match_latencies(rows, folder, wanted, baseline=given.baseline)

    return tested


def join(
    places: Sequence[Path],
    folder: Path,
    *,
    table: Callable[[Sequence[Row]], RenderableType] = score_table,
    tested: Tested | None = None,
    scored: Callable[[Sequence[FinishedRun]], Sequence[FinishedRun]] | None = None,
    ranking: bool = False,
) -> None:
    """Write the joined results, plot and page, and print the table.

    Args:
        places: run folders or folders that contain run folders.
        folder: folder of the report; it must be new or empty.
        table: makes the printed table from the rows.
        tested: adds intervals and tests to rows, given the folder of the report (None: neither).
        scored: adds scores to the runs (None: none).
        ranking: whether to add the systems by quality within each latency regime.

    Raises:
        ZooError: a place has no results, or the folder is not empty.
    """
    if not places:
        raise ZooError("A report needs at least one run folder.")
    runs = find_runs(places)
    if empty := [str(run.folder) for run in runs if not run.rows]:
        raise ZooError(
            f"{shorten_list(empty)} has no rows to report; resume the "
            "evaluation with resume=..., or name another run."
        )
    if folder.is_dir() and any(folder.iterdir()):
        raise ZooError(f"{folder} is not empty; choose another folder with --output.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ZooError(
            f"The folder {folder} cannot be created ({error.strerror}); choose another one with "
            "--output."
        ) from error
    try:
        if scored:
            runs = list(scored(runs))
        printed = _write(runs, folder, table=table, tested=tested, ranking=ranking)
    except BaseException:
        shutil.rmtree(folder)  # the folder was empty; a next start finds it so
        raise
    wide_console().print(printed)
    print(f"results: {folder / 'results.json'}\nreport:  {folder / PAGE}")


def _write(
    runs: Sequence[FinishedRun],
    folder: Path,
    *,
    table: Callable[[Sequence[Row]], RenderableType],
    tested: Tested | None,
    ranking: bool,
) -> RenderableType:
    """Write the files of a report; arguments as ``join``. Return the table."""
    from zoo.report.plots import plot_curves  # imports matplotlib, after the arguments are checked

    rows = joined_rows(runs, folder)
    streams = list(finished_streams(rows, folder))
    rows, rated = with_ratings(rows, runs, streams, folder)
    matched: list[MatchedCurve] = []
    if tested:
        rows, matched = tested(rows, folder)  # raises ZooError for rows that cannot be compared
    printed = table(rows)  # raises ZooError for an unknown score
    write_rows(rows, folder / RESULTS)
    write_matched(folder, matched)
    write_rated(folder, rated)
    if any(row.has_references for row in rows):
        plot_curves(rows, folder / "curves")
    for name in comet_scores(rows):
        plot_curves(rows, folder / f"curves_{name}", quality=name)
    context = {"runs": ", ".join(str(run.folder) for run in runs)}
    title = "SimulZoo: joined runs"
    write_report(
        folder / PAGE,
        rows=rows,
        streams=streams,
        title=title,
        context=context,
        matched=matched,
        ranking=ranking,
        rated=rated,
    )
    tables = [*matched_tables(matched), *(ranking_tables(rows) if ranking else [])]
    tables += rating_tables(rated)
    return Group(printed, printed_tables(tables)) if tables else printed


if __name__ == "__main__":
    main()
