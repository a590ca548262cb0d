"""Scores rows by the ratings of humans, from the files in the run folders."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from zoo.metrics.ratings import RatedScore, Track, rate
from zoo.runs.rows.join import FinishedRun
from zoo.runs.rows.ratings import RatedRow, RatingFile, read_ratings
from zoo.runs.rows.row import Row
from zoo.runs.rows.streams import ReportStream


def with_ratings(
    rows: Sequence[Row], runs: Sequence[FinishedRun], streams: Sequence[ReportStream], folder: Path
) -> tuple[list[Row], list[RatedRow]]:
    """Add the mean rating to the rows that humans have rated.

    Args:
        rows: joined rows.
        runs: the runs that they are from.
        streams: streams of the joined rows.
        folder: folder of the joined results, to which the paths of the logs are relative.

    Returns:
        The rows, and what the ratings of those that are rated say.

    Raises:
        ZooError: a file of a rater is damaged, or rates what its run does not have.
    """
    places = {_log_of(row, folder): place for place, row in enumerate(rows)}
    talks: list[set[str]] = [set() for _ in rows]
    for stream in streams:
        talks[stream.row].add(stream.talk.name)
    found: dict[int, list[RatingFile]] = {}
    for run in runs:
        # A reference row that several runs have is joined once: of the others it has no streams.
        joined = [places.get(_log_of(row, run.folder)) for row in run.rows]
        known = [set() if place is None else talks[place] for place in joined]
        for index, one in read_ratings(run.folder, run.rows, known):
            place = joined[index]
            assert place is not None  # it has the talk
            found.setdefault(place, []).append(one)

    scored, rated = list(rows), []
    for place, files in sorted(found.items()):
        result = rate([Track(one.rater.strip(), one.talk, one.ratings, one.until) for one in files])
        scored[place] = _scored(rows[place], result)
        rated.append(_rated(rows[place], result, files))
    return scored, rated


def _log_of(row: Row, folder: Path) -> str:
    """Return the absolute path of the log of a row, which is relative to ``folder``."""
    return os.path.normpath(folder.resolve() / row.instances)


def _scored(row: Row, result: RatedScore) -> Row:
    """Return a row with its mean rating and the signature of the rating."""
    score = result.score
    return replace(
        row,
        scores={**row.scores, score.name: score.value},
        signatures={**row.signatures, score.name: score.signature},
    )


def _rated(row: Row, result: RatedScore, files: Sequence[RatingFile]) -> RatedRow:
    """Return what the ratings of a row say."""
    return RatedRow(
        test_set=row.test_set,
        system=row.system,
        setting=row.knob_label,
        mean=result.score.value,
        press_mean=result.press_mean,
        interval=result.interval,
        pearson=result.pearson,
        alpha=result.alpha,
        raters=tuple(result.raters),
        talks=tuple(result.talks),
        presses=result.presses,
        minutes=result.rated / 60,
        clocks=tuple(sorted({one.clock for one in files})),
    )
