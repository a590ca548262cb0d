"""Joins the rows of finished runs: jobs of a sweep, shards, runs of other people."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from zoo.errors import ZooError
from zoo.parsing import parse_yaml
from zoo.report.results import Row, read_rows

RESULTS = "results.json"
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


def find_runs(places: Sequence[Path]) -> list[FinishedRun]:
    """Return the runs in folders, in the order of the folders; a multirun has several.

    Raises:
        ZooError: a folder has no results, or a file in it is damaged.
    """
    runs: list[FinishedRun] = []
    for place in places:
        found = sorted(place.rglob(RESULTS)) if place.is_dir() else []
        if not found:
            raise ZooError(f"{place} has no {RESULTS}; name the folder of an evaluation.")
        runs += [
            FinishedRun(path.parent, read_rows(path), _overrides(path.parent)) for path in found
        ]
    return runs


def joined_rows(runs: Sequence[FinishedRun], folder: Path) -> list[Row]:
    """Return the rows of all runs.

    The name of a row contains the overrides in which its run differs from the other runs. Reference
    rows that several runs share are listed once. A row keeps its intervals and loses its p-values,
    whose baseline may not be among the rows.

    Args:
        runs: finished runs.
        folder: folder of the joined results, to which the paths of the logs are relative.
    """
    common = set.intersection(*(set(run.overrides) for run in runs)) if runs else set()
    rows: list[Row] = []
    for run in runs:
        own = [
            override
            for override in run.overrides
            if override not in common and not override.startswith(NAMED_KEYS)
        ]
        for row in run.rows:
            log = os.path.relpath(run.folder / row.instances, folder)
            settings = {**row.settings, "run": str(run.folder), "overrides": list(run.overrides)}
            name = " ".join([row.system, *own]) if row.kind == "system" else row.system
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
