"""Finished runs as tables of pandas: rows of scores, segments and training curves."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from zoo.base.disk.parsing import parse_yaml
from zoo.base.disk.run_folder import METRICS
from zoo.base.errors import ZooError, shorten_list
from zoo.runs.rows.join import NAMED_KEYS, find_runs, joined_rows, results_in
from zoo.runs.rows.names import SCORES
from zoo.runs.rows.row import Row
from zoo.runs.rows.segments import NAME as SEGMENTS
from zoo.runs.rows.segments import ScoredSegment, read_segments
from zoo.runs.rows.training import find_trainings, read_curve

if TYPE_CHECKING:
    import pandas as pd

RUN = "run"  # column of the run folder of joined rows

Scored = tuple[Row, Sequence[ScoredSegment]]  # a row and its segments


class Results:
    """Scores, segments and training curves of finished runs.

    Args:
        scored: rows with their segments.
        curves: logged values of each training, a record per optimizer step.

    Example:
        >>> results = zoo.read_results("outputs/evaluate/RUN")
        >>> results.rows[["system", "value", "BLEU", "StreamLAAL"]]
        >>> results.segments.sort_values("chrF").head()
    """

    def __init__(
        self, scored: Sequence[Scored], curves: Mapping[str, Sequence[Mapping[str, Any]]] = {}
    ) -> None:
        self._scored = scored
        self._curves = curves

    @cached_property
    def rows(self) -> "pd.DataFrame":
        """One line per row of results: system, latency setting, test set and every score.

        Rows of several runs, such as the jobs of a sweep, have a column for each override in which
        the runs differ, named by its key.

        Raises:
            ZooError: pandas is not installed.
        """
        rows = [row for row, _ in self._scored]
        given = [_overrides(row) for row in rows]
        swept = [
            key
            for key in dict.fromkeys(key for one in given for key in one)
            if any(one.get(key) != given[0].get(key) for one in given)
        ]
        return _pandas().DataFrame(
            [
                _line(row, {key: own.get(key) for key in swept})
                for row, own in zip(rows, given, strict=True)
            ]
        )

    @cached_property
    def segments(self) -> "pd.DataFrame":
        """One line per reference segment of a row: source, reference, hypothesis and scores.

        The lag of a segment is its score StreamLAAL, in seconds.

        Raises:
            ZooError: pandas is not installed.
        """
        return _pandas().DataFrame(
            [
                {
                    **_identity(row),
                    "talk": one.talk,
                    "segment": one.segment,
                    "offset": one.offset,
                    "duration": one.duration,
                    "source": one.source,
                    "reference": one.reference,
                    "hypothesis": one.hypothesis,
                    **one.scores,
                }
                for row, segments in self._scored
                for one in segments
            ]
        )

    @cached_property
    def training(self) -> "pd.DataFrame":
        """One line per optimizer step with logged values: losses, learning rate and others.

        Raises:
            ZooError: pandas is not installed.
        """
        return _pandas().DataFrame(
            [{RUN: run, **record} for run, curve in self._curves.items() for record in curve]
        )

    def __repr__(self) -> str:
        facts = [f"{len(self._scored)} row{'' if len(self._scored) == 1 else 's'}"]
        if self._scored:
            facts.append(shorten_list(row.label for row, _ in self._scored))
        if self._curves:
            facts.append(f"training of {shorten_list(self._curves)}")
        return f"Results({': '.join(facts[:2])}{''.join(f', {one}' for one in facts[2:])})"


def read_results(*runs: str | Path) -> Results:
    """Read finished evaluations and trainings.

    Several evaluations are joined as ``python -m zoo report`` joins them: the name of a system that
    is in several of them contains the overrides in which they differ.

    Args:
        *runs: run folders, or folders that contain run folders.

    Returns:
        The results, whose ``rows``, ``segments`` and ``training`` are tables of pandas.

    Raises:
        ZooError: a folder has neither results nor logged values of a training, or a file in it is
            damaged.

    Example:
        >>> zoo.read_results("outputs/evaluate/A", "outputs/evaluate/B").rows
    """
    if not runs:
        raise ZooError("Name at least one run folder.")
    places = [Path(run) for run in runs]
    trainings: list[Path] = []
    evaluations: list[Path] = []
    for place in places:
        if not place.is_dir():
            raise ZooError(f"There is no run folder {place}.")
        found = list(find_trainings(place))
        trainings += found
        # a folder without either is named by the error of ``find_runs``
        if not found or any(results_in(place)):
            evaluations.append(place)
    folder = Path.cwd()
    rows = joined_rows(find_runs(evaluations), folder) if evaluations else []
    curves = {str(run): read_curve(run / METRICS) for run in dict.fromkeys(trainings)}
    return Results([(row, segments_of_row(folder, row)) for row in rows], curves)


def segments_of_row(folder: Path, row: Row) -> Sequence[ScoredSegment]:
    """Return the segments of a row; none for the row of another tool or version.

    Args:
        folder: folder to which the path of the row's log is relative.
        row: row of results.
    """
    path = (folder / row.instances).with_name(SEGMENTS)
    if not path.is_file():
        return ()
    return read_segments(path, needed_by="a table of segments", count=row.settings.segments)


def _identity(row: Row) -> dict[str, Any]:
    """Return the columns that name a row."""
    return {
        **({RUN: row.settings.run} if row.settings.run else {}),
        "system": row.system,
        "kind": row.kind,
        "knob": None if row.knob is None else row.knob.name,
        "value": None if row.knob is None else row.knob.value,
    }


def _overrides(row: Row) -> dict[str, Any]:
    """Return the overrides of the run of a joined row, values by key; its name has the system."""
    named = [item for item in row.settings.overrides if not item.startswith(NAMED_KEYS)]
    return {
        key.lstrip("+~"): _value(text) for key, _, text in (item.partition("=") for item in named)
    }


def _value(text: str) -> Any:
    """Return the value of an override; a text that is no YAML is itself."""
    try:
        return parse_yaml(text)
    except yaml.YAMLError:
        return text


def _line(row: Row, swept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a row; overrides of its run, and scores in the order of the tables."""
    order = [entry.name for entry in SCORES if entry.name in row.scores]
    names = dict.fromkeys([*order, *row.scores])
    return {
        **_identity(row),
        **swept,
        "data": row.data,
        "split": row.split,
        "direction": f"{row.source_language}-{row.target_language}",
        "regime": row.settings.regime,
        **{name: row.scores[name] for name in names},
        "flags": "; ".join(row.flags),
    }


def _pandas() -> Any:
    """Import pandas. Raises ZooError if it is missing."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ZooError(
            f"Tables of results need pandas ({error}): pip install 'simulzoo[notebook]'."
        ) from error
    return pd
