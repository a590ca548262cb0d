"""Adds COMET scores to finished rows.

The texts of a row are those of ``segments.jsonl`` and of the log beside it.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from zoo.errors import ZooError
from zoo.evaluation.comet import (
    RowScores,
    RowTexts,
    check_reference_free,
    find_comet,
    score_rows,
    signed_resegmentation,
)
from zoo.evaluation.segments import NAME
from zoo.files import check_links, write_text
from zoo.formats.text import Record, json_lines, read_records
from zoo.languages import language as find_language
from zoo.metrics.comet.scorer import Comet, CometModel, Text
from zoo.parsing import parse_json
from zoo.report.joined import RESULTS, FinishedRun
from zoo.report.results import Row, write_rows


def with_comet(rows: Sequence[Row], logs: Sequence[Path], comet: Comet) -> list[Row]:
    """Add COMET scores to finished rows, and those of each segment to ``segments.jsonl``.

    An offline row of an earlier version has no segments and stays as it is.

    Args:
        rows: rows of results.
        logs: path of the log of each row.
        comet: the models.

    Returns:
        The rows, in their order.

    Raises:
        ZooError: a row has no segments, or segments without source text.
    """
    chosen = [
        (row, log)
        for row, log in zip(rows, logs, strict=True)
        if row.kind != "ceiling" or _segments_file(log).is_file()
    ]
    if not all(row.settings.get("references", True) for row, _ in chosen):
        check_reference_free(comet)
    texts = [_read(row, log) for row, log in chosen]
    scored: dict[int, Row] = {}
    for (row, log), found in zip(chosen, score_rows(comet, texts), strict=True):
        scored[id(row)] = _updated(row, found, comet.models)
        _write(_segments_file(log), found)
    return [scored.get(id(row), row) for row in rows]


def _segments_file(log: Path) -> Path:
    """Return the path of the segments of a row."""
    return log.with_name(f"{NAME}.jsonl")


def _read(row: Row, log: Path) -> RowTexts:
    """Read the texts of a row. Raises ZooError for missing or damaged files."""
    path = _segments_file(log)
    if not path.is_file():
        raise ZooError(
            f"{path} is missing; COMET needs the segments of {row.system!r}, which evaluations of "
            "this version write."
        )
    records = read_records(path)
    try:
        texts = [Text(one["source"], one["hypothesis"], one["reference"]) for one in records]
        outputs = {
            str(stream["talk"]): str(stream.get("text", stream["prediction"]))
            for stream in (read_records(log) if row.kind != "ceiling" else ())
        }
        return RowTexts.of(
            texts,
            [str(one["talk"]) for one in records],
            outputs,
            source=find_language(row.source_language),
            target=find_language(row.target_language),
        )
    except (KeyError, TypeError) as error:
        raise ZooError(f"{path} or {log.name} is damaged ({error!r}).") from error


def _updated(row: Row, found: RowScores, models: Sequence[CometModel]) -> Row:
    """Return a row with the scores of COMET."""
    method = signed_resegmentation(
        row.settings["resegmentation"],
        row.settings["rules"],
        is_offline=row.kind == "ceiling",
        is_referenced=row.settings.get("references", True),
    )
    scores = found.scores(models, method)
    names = {model.score: model.name for model in models}
    return replace(
        row,
        scores=row.scores | {name: score.value for name, score in scores.items()},
        signatures=row.signatures | {name: score.signature for name, score in scores.items()},
        talks=found.added_to(row.talks),
        settings={**row.settings, "comet": {**row.settings.get("comet", {}), **names}},
    )


def _write(path: Path, found: RowScores) -> None:
    """Add the scores of each segment to the file of the segments."""
    records: list[Record] = [
        parse_json(line) for line in path.read_text(encoding="utf-8").splitlines() if line
    ]
    for place, record in enumerate(records):
        values = {name: round(scores[place], 6) for name, scores in found.segments.items()}
        record["scores"] = {**record.get("scores", {}), **values}
    write_text(path, json_lines(records))


def runs_with_comet(
    runs: Sequence[FinishedRun], names: Sequence[str], python: str | None
) -> list[FinishedRun]:
    """Add COMET scores to the rows of finished runs, also to their ``results.json``.

    Args:
        runs: finished runs.
        names: folders and names of the hub; empty: the runs stay as they are.
        python: Python of the environment; None: that of ``make comet``.

    Raises:
        ZooError: the environment, a file of a model or the segments of a row are missing, or a
            folder is not writable.
    """
    comet = find_comet(names, python)
    if comet is None:
        return list(runs)
    for run in runs:
        check_links(run.folder)
    rows = [row for run in runs for row in run.rows]
    logs = [run.folder / row.instances for run in runs for row in run.rows]
    try:
        scored = iter(with_comet(rows, logs, comet))
        found = [replace(run, rows=[next(scored) for _ in run.rows]) for run in runs]
        for run in found:
            write_rows(run.rows, run.folder / RESULTS)
    except OSError as error:
        raise ZooError(f"COMET scores cannot be added to a run: {error}.") from error
    return found
