"""Evaluations that a page or a card shows: the rows of a run, its date, commit and command.

A run folder has streams, logs and scores of each talk. What a page needs of it is recorded in one
small file, from which the page can be written again without the run.
"""

import json
import shlex
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from zoo.base.disk.files import portable_name, write_text
from zoo.base.disk.run_folder import RESULTS
from zoo.runs.rows.join import FinishedRun, find_runs, read_provenance
from zoo.runs.rows.names import COMPUTATION_AWARE, Column, columns
from zoo.runs.rows.row import Row, read_records
from zoo.runs.rows.settings import STRICT, RowSettings


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A finished evaluation.

    Attributes:
        date: day on which its results were written, such as ``2026-11-26`` (UTC).
        commit: git commit of the zoo; None: unknown.
        changed: whether files of the zoo differed from the commit.
        command: command that repeats it.
        rows: rows of systems and offline rows, without the scores of each talk.
    """

    __pydantic_config__ = STRICT
    date: str
    commit: str | None
    changed: bool
    command: str
    rows: tuple[Row, ...]

    @property
    def origin(self) -> str:
        """Where the rows come from, as a sentence."""
        commit = f", commit {self.commit[:7]}" if self.commit else ""
        changed = " with changes" if self.changed else ""
        sets = " and ".join(dict.fromkeys(f"{row.data} {row.split}".strip() for row in self.rows))
        talks = f"{self.talks} of {sets}" if self.talks else sets
        return f"Evaluated on {talks}, {self.date}{commit}{changed}, by `{self.command}`."

    @property
    def talks(self) -> str:
        """The number of streams of the systems, such as ``2 talks``; empty: unknown or several."""
        systems = [row.settings for row in self.rows if row.kind == "system"]
        found = {(settings.talks, settings.view) for settings in systems}
        if len(found) != 1:
            return ""
        number, view = found.pop()
        unit = "segment" if view == "segments" else "talk"
        return f"{number} {unit}{'' if number == 1 else 's'}" if number else ""


def read_evaluations(places: Sequence[Path], *, start: str) -> list[Evaluation]:
    """Read evaluations from run folders and from files of ``write_evaluations``.

    Args:
        places: run folders, folders that contain run folders, and files.
        start: words that start an evaluation, such as ``python evaluate.py``.

    Raises:
        ZooError: a place has no results, or a file is damaged.
    """
    found: list[Evaluation] = []
    for place in places:
        if place.is_file():
            found += read_records(place, list[Evaluation], "record of evaluations")
        else:
            found += [_evaluation(run, start) for run in find_runs([place])]
    return found


def write_evaluations(evaluations: Sequence[Evaluation], path: Path) -> None:
    """Write evaluations to a file that ``read_evaluations`` reads."""
    content = [
        {**asdict(evaluation), "rows": [row.record() for row in evaluation.rows]}
        for evaluation in evaluations
    ]
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def shown_columns(rows: Sequence[Row]) -> list[Column]:
    """Return the columns of quality and latency that rows have.

    Columns that depend on the machine and its load are left out.
    """
    return [
        column
        for column in columns(rows)
        if not column.score.endswith((COMPUTATION_AWARE, "RTF"))
        and any(row.scores.get(column.score) is not None for row in rows)
    ]


def _evaluation(run: FinishedRun, start: str) -> Evaluation:
    """Return the evaluation of a run folder; ``start`` as in ``read_evaluations``."""
    written = datetime.fromtimestamp((run.folder / RESULTS).stat().st_mtime, UTC)
    git = read_provenance(run.folder).get("git") or {}
    rows = [row for row in run.rows if row.kind != "oracle"]
    shown = {column.score for column in shown_columns(rows)}
    return Evaluation(
        date=f"{written:%Y-%m-%d}",
        commit=git.get("commit"),
        changed=bool(git.get("dirty")),
        command=f"{start} {shlex.join(run.overrides)}".rstrip(),
        rows=tuple(_shortened(row, shown) for row in rows),
    )


def _shortened(row: Row, shown: Collection[str]) -> Row:
    """Return a row with those of its scores that are shown; a folder of weights has its name."""
    kept = row.settings
    settings = RowSettings(
        batch_size=kept.batch_size,
        resegmentation=kept.resegmentation,
        encoder=kept.encoder,
        rules=kept.rules,
        view=kept.view,
        talks=kept.talks,
        metrics=kept.metrics,
        weights={key: portable_name(name) for key, name in kept.weights.items()},
        parameters=kept.parameters,
        reference_segments=kept.reference_segments,
        comet=kept.comet,
    )
    return replace(
        row,
        scores={name: value for name, value in row.scores.items() if name in shown},
        signatures={name: text for name, text in row.signatures.items() if name in shown},
        settings=settings,
        instances="",
        talks=(),
        stages={},
    )
