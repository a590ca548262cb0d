"""Adds COMET scores of segments and whole talks to rows, all rows in one process.

The texts of finished rows are those of ``segments.jsonl`` and of the log beside it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from zoo.data.cache import cache_root
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.evaluation.scorer import Scored
from zoo.evaluation.segments import NAME
from zoo.evaluation.settings import Settings
from zoo.evaluation.talks import has_references
from zoo.files import write_text
from zoo.formats.text import Record, json_lines, read_records
from zoo.languages import Language
from zoo.languages import language as find_language
from zoo.metrics.comet.scorer import Comet, CometModel, Text
from zoo.metrics.longform import resegmentation_name
from zoo.metrics.resegment import Resegmentation
from zoo.metrics.rules import find_rules
from zoo.metrics.signature import Score, signature
from zoo.parsing import parse_json
from zoo.progress import tracked
from zoo.report.joined import RESULTS, FinishedRun
from zoo.report.results import Row, TalkScores, write_rows
from zoo.types import Instance


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


def check_texts(talks: Sequence[Talk], comet: Comet) -> None:
    """Raise ZooError for talks without the references that a model reads, or without sources."""
    if not has_references(talks):
        _check_reference_free(comet)
    for talk in talks:
        if not any(segment.source.strip() for segment in talk.segments):
            raise _no_source(talk.name)


def _check_reference_free(comet: Comet) -> None:
    """Raise ZooError for a model that reads references."""
    for model in comet.models:
        if model.reference:
            raise ZooError(
                f"COMET model {model.name} reads references, and these talks have none; "
                "Unbabel/wmt22-cometkiwi-da and its like need none."
            )


def _no_source(talk: str) -> ZooError:
    """Return the error of a talk without source text."""
    return ZooError(
        f"COMET reads the source text, and talk {talk!r} has none "
        "(data=recorded takes it from data.sources)."
    )


def _shown(lines: Iterable[Record], total: int) -> Iterator[Record]:
    """Yield scored lines and show how many of them are done."""
    return tracked(lines, total=total, title="COMET")


@dataclass(frozen=True, slots=True)
class RowTexts:
    """Texts of a row.

    Attributes:
        segments: all segments, talk after talk.
        talks: name of the talk of each segment.
        documents: text of each whole talk, by its name; empty for offline output.
    """

    segments: Sequence[Text]
    talks: Sequence[str]
    documents: Mapping[str, Text]

    @classmethod
    def of(
        cls,
        segments: Sequence[Text],
        talks: Sequence[str],
        outputs: Mapping[str, str],
        *,
        source: Language,
        target: Language,
    ) -> "RowTexts":
        """Join the segments of each talk to a document.

        Args:
            segments: all segments, talk after talk.
            talks: name of the talk of each segment.
            outputs: whole output for each talk, by its name; empty: no documents.
            source: source language.
            target: target language.

        Raises:
            ZooError: a talk has no source text.
        """
        parts: dict[str, list[Text]] = {}
        for talk, text in zip(talks, segments, strict=True):
            parts.setdefault(talk, []).append(text)
        if segments and not any(text.source.strip() for text in segments):
            raise _no_source(talks[0])
        documents = {
            talk: Text(
                source.join(text.source.strip() for text in parts[talk]),
                output.strip(),
                target.join(text.reference.strip() for text in parts[talk]),
            )
            for talk, output in outputs.items()
        }
        return cls(segments, talks, documents)


@dataclass(frozen=True, slots=True)
class RowScores:
    """COMET scores of a row, by the name of the score.

    Attributes:
        segments: score of each segment.
        documents: score of each whole talk, by the name of the talk.
        talks: mean over the segments of each talk, by the name of the talk.
    """

    segments: dict[str, list[float]]
    documents: dict[str, dict[str, float]]
    talks: dict[str, dict[str, float]]

    def scores(self, models: Sequence[CometModel], resegmentation: str | None) -> dict[str, Score]:
        """Return the scores of the row: the means over segments, and over talks with ``Doc``.

        Args:
            models: the models.
            resegmentation: how the output was assigned to segments, for the signature.
        """
        found: dict[str, Score] = {}
        for model in models:
            facts: dict[str, str | bool | None] = {
                "model": model.name,
                "files": model.fingerprint[:12],
                "reference": model.reference,
                "unbabel-comet": model.version,
            }
            name, documents = model.score, list(self.documents[model.score].values())
            signed = signature(name, **facts, reseg=resegmentation)
            found[name] = Score(name, fmean(self.segments[name]), signed)
            if documents:
                name = f"Doc{name}"
                found[name] = Score(name, fmean(documents), signature(name, **facts))
        return found

    def of_talk(self, talk: str) -> dict[str, float | None]:
        """Return the scores of a single talk."""
        scores: dict[str, float | None] = {}
        for prefix, found in (("", self.talks), ("Doc", self.documents)):
            scores |= {prefix + name: values.get(talk) for name, values in found.items()}
        return scores


def score_rows(comet: Comet, rows: Sequence[RowTexts]) -> list[RowScores]:
    """Score the segments and documents of all rows in one process.

    Raises ZooError if the process stops.
    """
    texts = [text for row in rows for text in (*row.segments, *row.documents.values())]
    scored = comet.score(texts, _shown)
    found: list[RowScores] = []
    start = 0
    for row in rows:
        middle, end = start + len(row.segments), start + len(row.segments) + len(row.documents)
        segments = {name: values[start:middle] for name, values in scored.items()}
        found.append(
            RowScores(
                segments=segments,
                documents={
                    name: dict(zip(row.documents, values[middle:end], strict=True))
                    for name, values in scored.items()
                },
                talks={name: _means(row.talks, values) for name, values in segments.items()},
            )
        )
        start = end
    return found


def _means(talks: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """Return the mean over the segments of each talk."""
    by_talk: dict[str, list[float]] = {}
    for talk, value in zip(talks, values, strict=True):
        by_talk.setdefault(talk, []).append(value)
    return {talk: fmean(found) for talk, found in by_talk.items()}


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
        _check_reference_free(comet)
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
    method = _resegmentation(
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
        talks=tuple(
            TalkScores(talk.talk, talk.seconds, talk.scores | found.of_talk(talk.talk))
            for talk in row.talks
        ),
        settings={**row.settings, "comet": {**row.settings.get("comet", {}), **names}},
    )


def _resegmentation(
    method: Resegmentation, rules: str, *, is_offline: bool, is_referenced: bool
) -> str | None:
    """Return how output was assigned to segments, for the signature; None for offline output."""
    if is_offline:
        return None
    return resegmentation_name(method, find_rules(rules)) if is_referenced else "time"


def _write(path: Path, found: RowScores) -> None:
    """Add the scores of each segment to the file of the segments."""
    records: list[Record] = [
        parse_json(line) for line in path.read_text(encoding="utf-8").splitlines() if line
    ]
    for place, record in enumerate(records):
        values = {name: round(scores[place], 6) for name, scores in found.segments.items()}
        record["scores"] = {**record.get("scores", {}), **values}
    write_text(path, json_lines(records))


def scored_with_comet(
    scored: Scored,
    instances: Sequence[Instance],
    talks: Sequence[Talk],
    target: Language,
    *,
    settings: Settings,
    comet: Comet,
) -> Scored:
    """Add COMET scores to the scores of streams that are not on disk.

    Args:
        scored: scores of the streams.
        instances: one stream per talk.
        talks: talks with references.
        target: target language.
        settings: settings of the evaluation.
        comet: the models.

    Raises:
        ZooError: a talk has no source text.
    """
    sources = [segment.source for talk in talks for segment in talk.segments]
    names = [talk.name for talk in talks for _ in talk.segments]
    if scored.segments is None:  # offline output of single segments
        pairs = [
            (one.text, segment.targets[target.code].text)
            for one, talk in zip(instances, talks, strict=True)
            for segment in talk.segments
        ]
    else:
        pairs = [(segment.hypothesis, segment.reference) for segment in scored.segments]
    outputs = {one.talk: one.text for one in instances} if scored.segments is not None else {}
    texts = RowTexts.of(
        [Text(source, *pair) for source, pair in zip(sources, pairs, strict=True)],
        names,
        outputs,
        source=find_language(talks[0].source_language),
        target=target,
    )
    (found,) = score_rows(comet, [texts])
    method = _resegmentation(
        settings.resegmentation,
        settings.rules,
        is_offline=scored.segments is None,
        is_referenced=has_references(talks),
    )
    added = found.scores(comet.models, method)
    return replace(
        scored,
        scores=scored.scores | added,
        talks=tuple(
            TalkScores(talk.talk, talk.seconds, talk.scores | found.of_talk(talk.talk))
            for talk in scored.talks
        ),
    )


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
