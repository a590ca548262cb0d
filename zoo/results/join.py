"""Joins the rows of finished runs: jobs of a sweep, shards, runs of other people."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from zoo.disk.parsing import parse_yaml
from zoo.errors import ZooError
from zoo.results.row import Row, read_rows

RESULTS = "results.json"
RUN = "run"  # setting of a joined row: the folder of its run
# Overrides of these keys do not change a result, so they do not name a row.
SILENT_KEYS = ("hydra.", "logger", "device", "threads", "resume", "trainer.devices")
# The name of a row, which these keys choose, has their information already.
NAMED_KEYS = ("system=", "compare=")


@dataclass(frozen=True)
class FinishedRun:
    """A run folder.

    Attributes:
        folder: run folder.
        rows: rows of its ``results.json``.
        overrides: overrides of its command line that can change a result.
    """

    folder: Path
    rows: Sequence[Row]
    overrides: Sequence[str]

    @property
    def is_joined(self) -> bool:
        """Whether the folder is a report on other runs, whose rows name them."""
        return any(RUN in row.settings for row in self.rows)


def find_runs(places: Sequence[Path]) -> list[FinishedRun]:
    """Return the runs in folders, in the order of the folders; a multirun has several.

    A run that is found twice is listed once. Reports on runs, which repeat their rows, are only
    read where their folder itself is named. Folders within a run are not searched: offline, W&B
    keeps a copy of the results there.

    Raises:
        ZooError: a folder has no results, or a file in it is damaged.
    """
    runs: dict[Path, FinishedRun] = {}
    for place in places:
        paths = list(_results(place))
        found = [
            FinishedRun(path.parent, read_rows(path), _overrides(path.parent)) for path in paths
        ]
        found = [run for run in found if run.folder == place or not run.is_joined]
        if not found:
            others = " but those of reports on other runs" if paths else ""
            raise ZooError(f"{place} has no {RESULTS}{others}; name the folder of an evaluation.")
        for run in found:
            runs.setdefault(run.folder.resolve(), run)
    return list(runs.values())


def _results(place: Path) -> Iterator[Path]:
    """Yield the results of a run folder, or of all run folders in any other folder."""
    if (place / RESULTS).is_file():
        yield place / RESULTS
    elif place.is_dir():
        for inner in sorted(place.iterdir()):
            if not inner.is_symlink():
                yield from _results(inner)


def joined_rows(runs: Sequence[FinishedRun], folder: Path) -> list[Row]:
    """Return the rows of all runs.

    The name of a system that is in several runs contains the overrides in which a run differs from
    the others. Reference rows that several runs share are listed once. A row keeps its intervals
    and loses its p-values, whose baseline may not be among the rows.

    Args:
        runs: finished runs.
        folder: folder of the joined results, to which the paths of the logs are relative.
    """
    common = set.intersection(*(set(run.overrides) for run in runs)) if runs else set()
    found_in = Counter(name for run in runs for name in {row.system for row in run.rows})
    rows: list[Row] = []
    for run in runs:
        own = [
            override
            for override in run.overrides
            if override not in common and not override.startswith(NAMED_KEYS)
        ]
        for row in run.rows:
            log = os.path.relpath(run.folder / row.instances, folder)
            settings = {**row.settings, RUN: str(run.folder), "overrides": list(run.overrides)}
            name = row.system
            if row.kind == "system" and found_in[name] > 1:
                name = " ".join([name, *own])
            joined = replace(row, system=name, instances=log, settings=settings, p_values={})
            if row.kind == "system" or not any(_same_reference(joined, other) for other in rows):
                rows.append(joined)
    return rows


def _same_reference(row: Row, other: Row) -> bool:
    """Return whether two reference rows have the same name, test set and scores."""
    return all(
        getattr(row, name) == getattr(other, name)
        for name in ("system", "knob", "data", "split", "target_language", "scores")
    )


def _overrides(folder: Path) -> list[str]:
    """Return the recorded overrides of a run; none for a run of another tool."""
    path = folder / "overrides.yaml"
    if not path.is_file():
        return []
    try:
        recorded = parse_yaml(path.read_text(encoding="utf-8")) or []
        return [str(item) for item in recorded if not str(item).startswith(SILENT_KEYS)]
    except (OSError, ValueError, yaml.YAMLError, TypeError) as error:
        raise ZooError(f"{path} is damaged: {error}.") from error
