"""Joins the rows of finished runs: jobs of a sweep, shards, runs of other people."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from zoo.base.disk.files import check_name_is_text, check_regular
from zoo.base.disk.parsing import MALFORMED, read_json, read_yaml
from zoo.base.disk.run_folder import OVERRIDES, PROVENANCE, RESULTS
from zoo.base.errors import ZooError
from zoo.runs.rows.regimes import with_regimes
from zoo.runs.rows.row import Row, log_in, read_rows

CORPUS = "corpus_hash"  # entry of provenance.json: hash of the talks
DEVELOPMENT = "development"  # folder in a training, with an evaluation for each of some steps
OFFLINE = " offline"  # end of the name of an offline row
# Overrides of these keys do not change a result, so they do not name a row.
SILENT_KEYS = (
    "hydra.",
    "logger",
    "device",
    "threads",
    "resume",
    "trainer.devices",
    "evaluation.significance",
    "evaluation.baseline",
    "evaluation.resampl",
    "evaluation.trials",
    "evaluation.comet",
)
# The name of a row, which these keys choose, has their information already.
NAMED_KEYS = ("system=", "compare=")


@dataclass(frozen=True)
class FinishedRun:
    """A run folder.

    Attributes:
        folder: run folder.
        rows: rows of its ``results.json``.
        overrides: overrides of its command line that can change a result.
        corpus_hash: hash of its talks; None: a run of another tool has none.
    """

    folder: Path
    rows: Sequence[Row]
    overrides: Sequence[str]
    corpus_hash: str | None = None

    @property
    def is_joined(self) -> bool:
        """Whether the folder is a report on other runs, whose rows name them."""
        return any(row.settings.run is not None for row in self.rows)


def find_runs(places: Sequence[Path]) -> list[FinishedRun]:
    """Return the runs in folders, in the order of the folders; a multirun has several.

    A run that is found twice is listed once. Reports on runs, which repeat their rows, are only
    read where their folder itself is named, and so are the evaluations of the development talks of
    a training. Folders within an evaluation are not searched: offline, W&B keeps a copy of the
    results there.

    Raises:
        ZooError: a folder has no results, or a file in it is damaged or a pipe.
    """
    runs: dict[Path, FinishedRun] = {}
    for place in places:
        paths = list(results_in(place))
        for path in chain(*(path.parent.rglob("*") for path in paths)):
            check_regular(path)  # to read a pipe never ends
        found = [
            FinishedRun(
                path.parent, read_rows(path), _overrides(path.parent), _corpus_hash(path.parent)
            )
            for path in paths
        ]
        for run in found:
            check_name_is_text(run.folder)  # the rows of a report name it
            for row in () if run.is_joined else run.rows:
                log_in(run.folder, row)
        found = [run for run in found if run.folder == place or not run.is_joined]
        if not found:
            others = " but those of reports on other runs" if paths else ""
            raise ZooError(f"{place} has no {RESULTS}{others}; name the folder of an evaluation.")
        for run in found:
            runs.setdefault(run.folder.resolve(), run)
    return list(runs.values())


def results_in(place: Path) -> Iterator[Path]:
    """Yield the results of a run folder, or of all run folders in any other folder."""
    if (place / RESULTS).is_file():
        yield place / RESULTS
    elif place.is_dir():
        for inner in sorted(place.iterdir()):
            if not inner.is_symlink() and inner.name != DEVELOPMENT:
                yield from results_in(inner)


def joined_rows(runs: Sequence[FinishedRun], folder: Path) -> list[Row]:
    """Return the rows of all runs.

    Rows of one corpus on different talks have different test sets. The name of a system that is in
    several runs on the same talks contains the overrides in which a run differs from the others. So
    does the name of a reference row whose scores differ between runs; reference rows with equal
    scores are listed once. A row keeps its intervals and loses its p-values, whose baseline may not
    be among the rows. Regimes are those of the joined rows.

    Args:
        runs: finished runs.
        folder: folder of the joined results, to which the paths of the logs are relative.
    """
    found = [(run, _placed(row, run, folder)) for run in runs for row in run.rows]
    labels = _talk_sets([row for _, row in found])
    named = [
        (run, replace(row, settings=replace(row.settings, talk_set=label)))
        for (run, row), label in zip(found, labels, strict=True)
    ]
    kept: list[tuple[FinishedRun, Row]] = []
    for run, row in named:
        if row.kind == "system" or not any(same_reference(row, other) for _, other in kept):
            kept.append((run, row))

    common = set.intersection(*(set(run.overrides) for run in runs)) if runs else set()
    ambiguous = _ambiguous(kept)
    rows: list[Row] = []
    for run, row in kept:
        own = [
            override
            for override in run.overrides
            if override not in common and not override.startswith(NAMED_KEYS)
        ]
        rows.append(_renamed(row, own) if _key(row) in ambiguous else row)
    return with_regimes(rows)


def _placed(row: Row, run: FinishedRun, folder: Path) -> Row:
    """Return a row whose log is relative to a folder and whose settings name its run and talks."""
    settings = replace(
        row.settings,
        run=str(run.folder),
        overrides=tuple(run.overrides),
        corpus_hash=row.settings.corpus_hash or run.corpus_hash or _size(run.rows),
        talk_set="",
    )
    log = os.path.relpath(run.folder / row.instances, folder)
    return replace(row, instances=log, settings=settings, p_values={})


def _talk_sets(rows: Sequence[Row]) -> list[str]:
    """Return the description of the talks of each row, such as ``2 talks``.

    It is empty where all rows of a test set have the same talks. The beginning of the hash follows
    if two sets have the same number of talks.
    """
    sets: dict[object, dict[str, list[Row]]] = {}
    for row in rows:
        of_talks = sets.setdefault(row.test_set, {})
        of_talks.setdefault(str(row.settings.corpus_hash), []).append(row)
    labels: dict[tuple[object, str], str] = {}
    for key, group in sets.items():
        sizes = {corpus: _size(found) for corpus, found in group.items()}
        for corpus, size in sizes.items():
            is_unique = corpus == size or list(sizes.values()).count(size) == 1
            labels[key, corpus] = size if is_unique else f"{size} ({corpus[:8]})".strip()
    return [
        labels[row.test_set, str(row.settings.corpus_hash)] if len(sets[row.test_set]) > 1 else ""
        for row in rows
    ]


def _size(rows: Sequence[Row]) -> str:
    """Return the number of talks of a run as text; without whole talks, that of its segments."""
    whole = [row for row in rows if row.kind != "ceiling" and row.settings.view != "segments"]
    unit = "talk" if whole else "segment"
    numbers = [row.settings.talks for row in whole or rows if row.settings.talks is not None]
    if not numbers:
        return "unknown talks"
    return f"{numbers[0]} {unit}{'' if numbers[0] == 1 else 's'}"


def _key(row: Row) -> tuple[object, ...]:
    """Return the test set, the kind and the system of a row, which a curve has in common."""
    return row.test_set, row.kind, row.system


def _ambiguous(found: Sequence[tuple[FinishedRun, Row]]) -> set[tuple[object, ...]]:
    """Return the keys of systems of several runs, and of reference rows with several scores."""
    runs: dict[tuple[tuple[object, ...], object], set[Path]] = {}
    for run, row in found:
        knob = None if row.kind == "system" else row.knob
        runs.setdefault((_key(row), knob), set()).add(run.folder)
    return {key for (key, _), folders in runs.items() if len(folders) > 1}


def _renamed(row: Row, own: Sequence[str]) -> Row:
    """Return a row whose name contains overrides; an offline row ends with ``offline``."""
    end = OFFLINE if row.kind == "ceiling" and row.system.endswith(OFFLINE) else ""
    system = row.system.removesuffix(end)
    parts = system.split("+")[1:]  # such as history=punctuation, which the name has already
    name = " ".join([system, *(override for override in own if override not in parts)])
    return replace(row, system=f"{name}{end}")


def same_reference(row: Row, other: Row) -> bool:
    """Return whether two reference rows have the same name, test set and scores."""
    names = ("system", "knob", "test_set", "scores")
    return all(getattr(row, name) == getattr(other, name) for name in names)


def _corpus_hash(folder: Path) -> str | None:
    """Return the recorded hash of the talks of a run; None for a run of another tool."""
    found = read_provenance(folder).get(CORPUS)
    return None if found is None else str(found)


def read_provenance(folder: Path) -> dict[str, Any]:
    """Return the provenance of a run; empty for a run of another tool.

    Raises ZooError for a damaged file.
    """
    path = folder / PROVENANCE
    if not path.is_file():
        return {}
    try:
        content = read_json(path)
        if not isinstance(content, dict):
            raise ValueError("no object")
        return content
    except (OSError, ValueError) as error:
        raise ZooError(f"{path} is damaged: {error}.") from error


def _overrides(folder: Path) -> list[str]:
    """Return the recorded overrides of a run; none for a run of another tool."""
    path = folder / OVERRIDES
    if not path.is_file():
        return []
    try:
        recorded = read_yaml(path) or []
        return [str(item) for item in recorded if not str(item).startswith(SILENT_KEYS)]
    except (OSError, yaml.YAMLError, *MALFORMED) as error:
        raise ZooError(f"{path} is damaged: {' '.join(str(error).split())}.") from error
