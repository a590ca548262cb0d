"""Adds COMET scores to rows of a run folder, all rows in one process.

The texts of a row are those of ``segments.jsonl`` and of the streams beside it.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from zoo.base.disk.files import check_links
from zoo.base.disk.run_folder import RESULTS
from zoo.base.errors import ZooError
from zoo.base.languages import language as find_language
from zoo.base.talks import Talk
from zoo.data.cache import cache_root
from zoo.evaluation.comet_texts import RowScores, RowTexts, no_source, score_names, score_rows
from zoo.evaluation.talks import has_references
from zoo.metrics.comet.scorer import Comet, CometModel
from zoo.metrics.resegmentation import resegmentation_name
from zoo.metrics.rules import find_rules
from zoo.runs.rows.join import FinishedRun
from zoo.runs.rows.names import ASR
from zoo.runs.rows.row import Row, log_in, write_rows
from zoo.runs.rows.segments import (
    NAME,
    SPOKEN_NAME,
    ScoredSegment,
    read_segments,
    write_segments,
)
from zoo.runs.rows.store import StreamStore


def find_comet(names: Sequence[str], python: str | None) -> Comet | None:
    """Find COMET models and their environment; None without models.

    Args:
        names: folders and names of the hub.
        python: Python of the environment; None: that of ``make comet``.

    Raises:
        ZooError: the environment or a file of a model is missing.
    """
    if not names:
        return None
    return Comet.available(names, python=python, cache=cache_root() / "comet")


def check_texts(talks: Sequence[Talk], comet: Comet | None) -> None:
    """Raise ZooError for talks without the references that a model reads, or without sources.

    Without models all talks pass.
    """
    if comet is None:
        return
    if not has_references(talks):
        check_reference_free(comet)
    for talk in talks:
        if not any(segment.source.strip() for segment in talk.segments):
            raise no_source(talk.name)


def check_reference_free(comet: Comet) -> None:
    """Raise ZooError for a model that reads references."""
    for model in comet.models:
        if model.reference:
            raise ZooError(
                f"COMET model {model.name} reads references, and these talks have none; "
                "Unbabel/wmt22-cometkiwi-da and its like need none."
            )


def with_comet(rows: Sequence[Row], logs: Sequence[Path], comet: Comet) -> list[Row]:
    """Add COMET scores to finished rows, and those of each segment to ``segments.jsonl``.

    Rows with recognised words have scores of these, too, whose names begin with ``ASR_``.

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
    scorable = [
        index
        for index, row in enumerate(rows)
        if row.kind != "ceiling" or _segments_file(logs[index]).is_file()
    ]
    if not all(rows[index].has_references for index in scorable):
        check_reference_free(comet)
    spoken = [index for index in scorable if _segments_file(logs[index], SPOKEN_NAME).is_file()]
    files = [(index, NAME) for index in scorable] + [(index, SPOKEN_NAME) for index in spoken]
    segments = [_read(rows[index], logs[index], name) for index, name in files]
    texts = [
        RowTexts.of(
            found,
            _outputs(logs[index]) if name == NAME and rows[index].kind != "ceiling" else {},
            source=find_language(rows[index].source_language),
            target=find_language(rows[index].target_language),
        )
        for (index, name), found in zip(files, segments, strict=True)
    ]
    updated = list(rows)
    row_scores = score_rows(comet, texts)
    for (index, name), found, scores in zip(files, segments, row_scores, strict=True):
        with_own = _updated if name == NAME else _updated_speech
        updated[index] = with_own(updated[index], scores, comet.models)
        write_segments(_segments_file(logs[index], name), _with_scores(found, scores))
    return updated


def _read(row: Row, log: Path, name: str) -> list[ScoredSegment]:
    """Return the segments of a row in the file ``name`` beside its log."""
    needed_by, count = f"COMET of {row.system!r}", row.settings.segments
    return read_segments(_segments_file(log, name), needed_by=needed_by, count=count)


def _segments_file(log: Path, name: str = NAME) -> Path:
    """Return the path of the segments of a row."""
    return log.with_name(name)


def _outputs(log: Path) -> dict[str, str]:
    """Return the whole output for each talk of a row. Raises ZooError for a damaged file."""
    streams = StreamStore(log.parent).read(samples=False)
    return {stream.talk: stream.text for stream in streams.values()}


def _updated(row: Row, found: RowScores, models: Sequence[CometModel]) -> Row:
    """Return a row with the scores of COMET."""
    scores = found.scores(models, _resegmentation(row))
    return replace(
        row,
        scores=row.scores | {name: score.value for name, score in scores.items()},
        signatures=row.signatures | {name: score.signature for name, score in scores.items()},
        talks=found.added_to(row.talks),
        settings=replace(row.settings, comet={**row.settings.comet, **score_names(models)}),
    )


def _updated_speech(row: Row, found: RowScores, models: Sequence[CometModel]) -> Row:
    """Return a row with the scores of COMET of its recognised words."""
    scores = found.scores(models, _resegmentation(row))
    return replace(
        row,
        scores=row.scores | {ASR + name: score.value for name, score in scores.items()},
        signatures=row.signatures
        | {ASR + name: ASR + score.signature for name, score in scores.items()},
    )


def _resegmentation(row: Row) -> str | None:
    """Return how output was assigned to segments, for the signature; None for offline output."""
    if row.kind == "ceiling":
        return None
    if not row.has_references:
        return "time"
    method, rules = row.settings.resegmentation, row.settings.rules
    assert method is not None
    assert rules is not None
    return resegmentation_name(method, find_rules(rules), row.settings.encoder)


def _with_scores(segments: Sequence[ScoredSegment], found: RowScores) -> list[ScoredSegment]:
    """Return segments with the scores of COMET."""
    return [
        replace(
            segment,
            scores={
                **segment.scores,
                **{name: round(scores[place], 6) for name, scores in found.segments.items()},
            },
        )
        for place, segment in enumerate(segments)
    ]


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
    logs = [log_in(run.folder, row) for run in runs for row in run.rows]
    try:
        scored = iter(with_comet(rows, logs, comet))
        found = [replace(run, rows=[next(scored) for _ in run.rows]) for run in runs]
        for run in found:
            write_rows(run.rows, run.folder / RESULTS)
    except OSError as error:
        raise ZooError(f"COMET scores cannot be added to a run: {error}.") from error
    return found
