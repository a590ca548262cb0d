"""Confidence intervals and paired tests of finished rows, from the segments on disk."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from zoo.base.errors import ZooError, unknown_choice
from zoo.base.languages import language as find_language
from zoo.metrics.quality import BLEU, ChrF, CorpusQuality
from zoo.metrics.significance import Estimate, Resampling, estimate_mean, estimate_quality
from zoo.runs.rows.groups import test_set_label
from zoo.runs.rows.names import COMPUTATION_AWARE, SCORES, comet_scores
from zoo.runs.rows.row import Row
from zoo.runs.rows.segments import NAME, ScoredSegment, read_segments

SUFFIXES = ("", COMPUTATION_AWARE)


def check_baseline(name: str | None, labels: Sequence[str]) -> None:
    """Raise ZooError unless a row, or the system of a row, has the name of the baseline.

    Args:
        name: name of the baseline, or None.
        labels: labels of the rows, such as ``infinisst m=2``.
    """
    if name is not None and not any(is_named(label, name) for label in labels):
        systems = list(dict.fromkeys(label.rpartition(" ")[0] or label for label in labels))
        longer = [system for system in systems if system.startswith(f"{name} ")]
        raise unknown_choice("baseline", name, systems, longer[:3])


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
    tested = list(rows)
    for test_set in dict.fromkeys(row.test_set for row in rows):
        # positions in ``rows`` of the rows that are compared, the baseline first
        compared = [
            index
            for index, row in enumerate(rows)
            if row.test_set == test_set and row.kind != "ceiling" and row.has_references
        ]
        if not compared:
            continue
        first = compared[_find_baseline([rows[index] for index in compared], baseline)]
        compared.sort(key=lambda index: index != first)
        group = [rows[index] for index in compared]
        segments = [segments_of_row(row, folder) for row in group]
        _check_references(group, segments, where=test_set_label(test_set))
        estimates = _estimate_scores(group[0], segments, resampling)
        for position, index in enumerate(compared):
            of_row = {score: by_row[position] for score, by_row in estimates.items()}
            tested[index] = _with_estimates(rows[index], of_row, resampling, group[0].label)
    return tested


def _find_baseline(rows: Sequence[Row], name: str | None) -> int:
    """Return the position of the baseline among the rows of a test set.

    Args:
        rows: rows, at least one.
        name: label of a row, or name of a system; None: the first row of a system.
    """
    if name is None:
        # Oracles may precede the systems.
        return min(range(len(rows)), key=lambda index: rows[index].kind != "system")
    labels = [row.label for row in rows]
    check_baseline(name, labels)
    return next(index for index, label in enumerate(labels) if is_named(label, name))


def is_named(label: str, name: str) -> bool:
    """Return whether a row's label, or the system in it, is ``name``."""
    system, space, _ = label.rpartition(" ")
    return label == name or (bool(space) and system == name)


def segments_of_row(row: Row, folder: Path) -> list[ScoredSegment]:
    """Read the segments of a row. Raises ZooError for a missing or damaged file."""
    path = (folder / row.instances).with_name(NAME)
    return read_segments(path, needed_by=f"a test of {row.label!r}", count=row.settings.segments)


def _check_references(
    rows: Sequence[Row], segments: Sequence[Sequence[ScoredSegment]], *, where: str
) -> None:
    """Raise ZooError if rows of a test set have different references."""
    references = [[segment.reference for segment in of_row] for of_row in segments]
    for row, row_references in zip(rows, references, strict=True):
        if row_references != references[0]:
            raise ZooError(
                f"{rows[0].label!r} and {row.label!r} have different references of {where} "
                f"({len(references[0])} and {len(row_references)} segments); only rows with the "
                "same references can be tested."
            )


def _estimate_scores(
    baseline: Row, segments: Sequence[Sequence[ScoredSegment]], resampling: Resampling
) -> dict[str, Sequence[Estimate | None]]:
    """Estimate all scores of the rows of a test set.

    Args:
        baseline: the first row.
        segments: segments of each row, those of the baseline first.
        resampling: tests and numbers of draws.

    Returns:
        Estimates by score, one per row; None where the segments of a row lack the score.
    """
    estimates: dict[str, Sequence[Estimate | None]] = {}
    references = [segment.reference for segment in segments[0]]
    hypotheses = [[segment.hypothesis for segment in of_row] for of_row in segments]
    for score, metric in quality_metrics(baseline).items():
        estimates[score] = estimate_quality(metric, hypotheses, references, resampling)
    for score, segment_score in _scores_of_segments(baseline).items():
        values = [[segment.scores.get(segment_score) for segment in of_row] for of_row in segments]
        estimates[score] = estimate_mean(values, resampling)
    return estimates


def _scores_of_segments(row: Row) -> dict[str, str]:
    """Return the scores that are means over segments, each with the score of a segment."""
    latencies = {
        entry.name + suffix: entry.mean_of + suffix
        for suffix in SUFFIXES
        for entry in SCORES
        if entry.mean_of is not None
    }
    return latencies | {name: name for name in comet_scores([row])}


def _with_estimates(
    row: Row, estimates: Mapping[str, Estimate | None], resampling: Resampling, baseline: str
) -> Row:
    """Return a row with its intervals and p-values, and with the settings of the test.

    Args:
        row: tested row. Scores that it lacks have no interval.
        estimates: estimates by score.
        resampling: tests and numbers of draws.
        baseline: label of the baseline.
    """
    intervals: dict[str, tuple[float, float]] = {}
    p_values: dict[str, dict[str, float]] = {}
    for score, estimate in estimates.items():
        if estimate is None or row.scores.get(score) is None:
            continue
        intervals[score] = estimate.interval
        for test, p_value in estimate.p_values.items():
            p_values.setdefault(test, {})[score] = p_value
    settings = replace(
        row.settings,
        significance=tuple(resampling.tests),
        baseline=baseline,
        resamples=resampling.resamples,
        trials=resampling.trials,
        resampling_seed=resampling.seed,
    )
    return replace(row, settings=settings, intervals=intervals, p_values=p_values)


def quality_metrics(row: Row) -> dict[str, CorpusQuality]:
    """Return sacreBLEU's metrics of a row; without BLEU if its tokenizer is not installed."""
    metrics: dict[str, CorpusQuality] = {"chrF": ChrF()}
    if row.scores.get("BLEU") is not None:
        metrics["BLEU"] = BLEU(find_language(row.target_language))
    return metrics
