"""Confidence intervals and paired tests of finished rows, from the segments on disk."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from zoo.errors import ZooError, unknown_choice
from zoo.languages import language as find_language
from zoo.metrics.quality import BLEU, ChrF, CorpusQuality
from zoo.metrics.significance import Estimate, Resampling, estimate_mean, estimate_quality
from zoo.results.groups import by_test_set, test_set_label
from zoo.results.names import COMPUTATION_AWARE, SCORES, comet_scores
from zoo.results.row import Row
from zoo.results.segments import NAME, ScoredSegment, read_segments

# Scores of a row by the latency of its segments of which they are the mean.
MEANS = {entry.name: entry.mean_of for entry in SCORES if entry.mean_of}
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
    done: dict[int, Row] = {}
    for key, group in by_test_set(rows).items():
        streamed = [row for row in group if row.kind != "ceiling" and row.has_references]
        if not streamed:
            continue
        # systems precede oracles
        first = min(streamed, key=lambda row: row.kind != "system")
        if baseline is not None:
            check_baseline(baseline, [row.label for row in streamed])
            first = next(row for row in streamed if is_named(row.label, baseline))
        ordered = [first, *(row for row in streamed if row is not first)]
        segments = [segments_of_row(row, folder) for row in ordered]
        _check_references(ordered, segments, where=test_set_label(key))
        estimates = _estimated(ordered, segments, resampling)
        done |= {id(row): estimated for row, estimated in zip(ordered, estimates, strict=True)}
    return [done.get(id(row), row) for row in rows]


def is_named(label: str, name: str) -> bool:
    """Return whether a row's label, or the system in it, is ``name``."""
    return label == name or label.rpartition(" ")[0] == name


def segments_of_row(row: Row, folder: Path) -> list[ScoredSegment]:
    """Read the segments of a row. Raises ZooError for a missing or damaged file."""
    path = (folder / row.instances).with_name(NAME)
    return read_segments(path, needed_by=f"a test of {row.label!r}")


def _check_references(
    rows: Sequence[Row], segments: Sequence[Sequence[ScoredSegment]], *, where: str
) -> None:
    """Raise ZooError if rows of a test set have different references."""
    references = [[segment.reference for segment in one] for one in segments]
    for row, other in zip(rows, references, strict=True):
        if other != references[0]:
            raise ZooError(
                f"{rows[0].label!r} and {row.label!r} have different references of {where} "
                f"({len(references[0])} and {len(other)} segments); only rows with the same "
                "references can be tested."
            )


def _estimated(
    rows: Sequence[Row], segments: Sequence[Sequence[ScoredSegment]], resampling: Resampling
) -> list[Row]:
    """Return the rows with estimates of their scores; the first row is the baseline."""
    found: dict[str, Sequence[Estimate | None]] = {}
    references = [segment.reference for segment in segments[0]]
    texts = [[segment.hypothesis for segment in one] for one in segments]
    for name, metric in quality_metrics(rows[0]).items():
        found[name] = estimate_quality(metric, texts, references, resampling)
    means = {score + end: name + end for end in SUFFIXES for name, score in MEANS.items()}
    # rows without a score of COMET have no estimate of it
    for score, name in {**means, **{name: name for name in comet_scores([rows[0]])}}.items():
        values = [[segment.scores.get(name) for segment in one] for one in segments]
        found[score] = estimate_mean(values, resampling)

    settings = [
        replace(
            row.settings,
            significance=tuple(resampling.tests),
            baseline=rows[0].label,
            resamples=resampling.resamples,
            trials=resampling.trials,
            resampling_seed=resampling.seed,
        )
        for row in rows
    ]
    return [
        _row(
            replace(row, settings=settings[place]),
            {name: estimates[place] for name, estimates in found.items()},
        )
        for place, row in enumerate(rows)
    ]


def _row(row: Row, estimates: Mapping[str, Estimate | None]) -> Row:
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
    )


def quality_metrics(row: Row) -> dict[str, CorpusQuality]:
    """Return sacreBLEU's metrics of a row; without BLEU if its tokenizer is not installed."""
    metrics: dict[str, CorpusQuality] = {"chrF": ChrF()}
    if row.scores.get("BLEU") is not None:
        metrics["BLEU"] = BLEU(find_language(row.target_language))
    return metrics
