"""Confidence intervals and paired tests of finished rows, from the segments on disk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zoo.errors import ZooError, unknown_choice
from zoo.evaluation.segments import NAME
from zoo.languages import language as find_language
from zoo.metrics.quality import BLEU, ChrF, CorpusQuality
from zoo.metrics.significance import Estimate, Resampling, estimate_mean, estimate_quality
from zoo.parsing import parse_json
from zoo.report.results import Row
from zoo.report.table import (
    by_test_set,
    comet_scores,
    has_references,
    row_label,
    test_set_label,
)

# Scores of a row by the latency of its segments of which they are the mean.
MEANS = {"StreamLAAL": "StreamLAAL", "LAAL": "LongLAAL", "YAAL": "LongYAAL"}
SUFFIXES = ("", "_CA")


@dataclass(frozen=True, slots=True)
class _Segments:
    """Segments of a row.

    Attributes:
        row: the row.
        references: reference texts.
        hypotheses: text of each segment.
        scores: scores of each segment by name.
    """

    row: Row
    references: Sequence[str]
    hypotheses: Sequence[str]
    scores: Sequence[Mapping[str, float | None]]

    def values(self, name: str) -> list[float | None]:
        """Return the value of a score in each segment."""
        return [scores.get(name) for scores in self.scores]


def check_baseline(name: str | None, labels: Sequence[str]) -> None:
    """Raise ZooError unless a row, or the system of a row, has the name of the baseline.

    Args:
        name: name of the baseline, or None.
        labels: labels of the rows, such as ``infinisst m=2``.
    """
    if name is not None and not any(_is_named(label, name) for label in labels):
        raise unknown_choice("baseline", name, list(labels))


def with_significance(
    rows: Sequence[Row], folder: Path, resampling: Resampling, *, baseline: str | None = None
) -> list[Row]:
    """Add intervals and p-values to rows.

    Rows are compared with the baseline of their test set. Rows of offline output have no segments,
    those of talks without references no scores of them; both stay as they are.

    Args:
        rows: rows of results.
        folder: folder to which the paths of the logs are relative.
        resampling: tests and numbers of draws.
        baseline: label of a row, such as ``infinisst m=2``, or name of a system, whose first row is
            the baseline; None: the first row of a system in each test set.

    Returns:
        The rows, in their order.

    Raises:
        ZooError: a test set has no such baseline, a row has no segments, or rows of one test set
            have different references.
    """
    done: dict[int, Row] = {}
    for key, group in by_test_set(rows).items():
        streamed = [row for row in group if row.kind != "ceiling" and has_references(row)]
        if not streamed:
            continue
        # systems precede oracles
        first = min(streamed, key=lambda row: row.kind != "system")
        if baseline is not None:
            check_baseline(baseline, [row_label(row) for row in streamed])
            first = next(row for row in streamed if _is_named(row_label(row), baseline))
        ordered = [first, *(row for row in streamed if row is not first)]
        segments = [_read(row, folder) for row in ordered]
        _check_references(segments, where=test_set_label(key))
        for row, estimated in zip(ordered, _estimated(segments, resampling), strict=True):
            done[id(row)] = estimated
    return [done.get(id(row), row) for row in rows]


def _is_named(label: str, name: str) -> bool:
    """Return whether a row's label, or the system in it, is ``name``."""
    return label == name or label.rpartition(" ")[0] == name


def _read(row: Row, folder: Path) -> _Segments:
    """Read the segments of a row. Raises ZooError for a missing or damaged file."""
    path = (folder / row.instances).parent / f"{NAME}.jsonl"
    if not path.is_file():
        raise ZooError(
            f"{path} is missing; intervals and tests need the segments of {row_label(row)!r}, "
            "which evaluations of this version write."
        )
    try:
        records: list[dict[str, Any]] = [
            parse_json(line) for line in path.read_text(encoding="utf-8").split("\n") if line
        ]
        return _Segments(
            row,
            references=[str(record["reference"]) for record in records],
            hypotheses=[str(record["hypothesis"]) for record in records],
            scores=[dict(record["scores"]) for record in records],
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ZooError(f"{path} is damaged ({error!r}).") from error


def _check_references(rows: Sequence[_Segments], *, where: str) -> None:
    """Raise ZooError if rows of a test set have different references."""
    first = rows[0]
    for other in rows[1:]:
        if other.references == first.references:
            continue
        raise ZooError(
            f"{row_label(first.row)!r} and {row_label(other.row)!r} have different references of "
            f"{where} ({len(first.references)} and {len(other.references)} segments); only rows "
            "with the same references can be tested."
        )


def _estimated(rows: Sequence[_Segments], resampling: Resampling) -> list[Row]:
    """Return the rows with estimates of their scores; the first row is the baseline."""
    found: dict[str, Sequence[Estimate | None]] = {}
    references = rows[0].references
    for name, metric in _quality_metrics(rows[0].row).items():
        texts = [row.hypotheses for row in rows]
        found[name] = estimate_quality(metric, texts, references, resampling)
    for suffix in SUFFIXES:
        for segment_score, score in MEANS.items():
            values = [row.values(segment_score + suffix) for row in rows]
            found[score + suffix] = estimate_mean(values, resampling)
    for name in comet_scores([rows[0].row]):  # rows without a score have no estimate
        found[name] = estimate_mean([row.values(name) for row in rows], resampling)

    facts = {
        "significance": list(resampling.tests),
        "baseline": row_label(rows[0].row),
        "resamples": resampling.resamples,
        "trials": resampling.trials,
        "resampling_seed": resampling.seed,
    }
    return [
        _row(one.row, {name: estimates[place] for name, estimates in found.items()}, facts)
        for place, one in enumerate(rows)
    ]


def _row(row: Row, estimates: Mapping[str, Estimate | None], facts: Mapping[str, Any]) -> Row:
    """Return a row with estimates of those of its scores that are defined."""
    defined = {
        name: estimate
        for name, estimate in estimates.items()
        if estimate is not None and row.scores.get(name) is not None
    }
    p_values: dict[str, dict[str, float]] = {}
    for name, estimate in defined.items():
        for test, value in estimate.p_values.items():
            p_values.setdefault(test, {})[name] = value
    return replace(
        row,
        intervals={name: estimate.interval for name, estimate in defined.items()},
        p_values=p_values,
        settings={**row.settings, **facts},
    )


def _quality_metrics(row: Row) -> dict[str, CorpusQuality]:
    """Return sacreBLEU's metrics of a row; without BLEU if its tokenizer is not installed."""
    metrics: dict[str, CorpusQuality] = {"chrF": ChrF()}
    if row.scores.get("BLEU") is not None:
        metrics["BLEU"] = BLEU(find_language(row.target_language))
    return metrics
