"""Difference of the quality of two systems at equal latency, by paired bootstrap of the segments.

The rows of a system, one per latency setting, are a curve of quality over latency. Rows of two
systems rarely have equal latencies, so a difference of their scores mixes both. Here the quality of
each system is interpolated linearly between its rows at one latency. A resample (Koehn 2004,
section 3.2) draws the same segments for all rows of both systems, and latency and quality of each
row are computed from them again, so that the interval of the difference covers both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoo.metrics.quality import CorpusQuality

Values = NDArray[np.float64]
Counts = NDArray[np.int64]
LOW, HIGH = 2.5, 97.5  # percentiles of the 95 % interval


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """Latency and quality of one row: of all segments first, then of each resample.

    Attributes:
        latencies: in seconds; shape (1 + resamples,).
        qualities: of the same shape.
        setting: latency setting of the row, such as ``m=2``.
    """

    latencies: Values
    qualities: Values
    setting: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """Quality of two systems at one latency.

    Attributes:
        latency: the latency in seconds.
        baseline: quality of the first system.
        quality: quality of the second system.
        interval: bounds of the 95 % interval of the difference of the second from the first.
        p_value: probability of a difference at least as large by chance.
    """

    latency: float
    baseline: float
    quality: float
    interval: tuple[float, float]
    p_value: float


def draw_counts(size: int, *, resamples: int, seed: int) -> Counts:
    """Return how often each segment occurs: once at first, then in each resample.

    Args:
        size: number of segments.
        resamples: number of resamples.
        seed: seed of the draws, which are those of ``zoo.metrics.significance``.

    Returns:
        Counts of shape (1 + resamples, segments).
    """
    drawn = np.random.default_rng(seed).choice(size, size=(resamples, size), replace=True)
    counts = np.stack([np.bincount(line, minlength=size) for line in drawn])
    return np.concatenate([np.ones((1, size), dtype=np.int64), counts])


def mean_of_draws(values: Sequence[float | None], counts: Counts) -> Values:
    """Return the mean of the defined values of segments in each draw; NaN without any.

    Args:
        values: one value per segment; None: undefined.
        counts: see ``draw_counts``.
    """
    known = np.array(values, dtype=np.float64)  # None becomes NaN
    is_defined = ~np.isnan(known)
    sums, numbers = counts @ np.nan_to_num(known), counts @ is_defined
    means: Values = np.divide(sums, numbers, out=np.full(len(sums), np.nan), where=numbers > 0)
    return means


def quality_of_draws(
    metric: CorpusQuality, hypotheses: Sequence[str], references: Sequence[str], counts: Counts
) -> Values:
    """Return the corpus score of each draw.

    Args:
        metric: metric of sacreBLEU.
        hypotheses: one per segment.
        references: one per segment.
        counts: see ``draw_counts``.
    """
    statistics = np.array(metric.statistics(hypotheses, references), dtype=np.int64)
    return np.array([metric.score_of(sums) for sums in (counts @ statistics).tolist()])


def common_latencies(baseline: Sequence[DrawnRow], other: Sequence[DrawnRow]) -> list[float]:
    """Return latencies at which both systems can be compared without extrapolation.

    They are the latencies of the rows of the baseline within the range of the other system, or
    without any of these, those of the other system within the range of the baseline.
    """
    pairs = ((baseline, other), (other, baseline))
    for rows, limits in pairs:
        edges = [row.latencies[0] for row in limits]
        low, high = min(edges), max(edges)
        found = sorted({float(row.latencies[0]) for row in rows if low <= row.latencies[0] <= high})
        if found:
            return found
    return []


def outside_rows(rows: Sequence[DrawnRow], other: Sequence[DrawnRow]) -> list[DrawnRow]:
    """Return the rows of a system whose latencies another system does not reach."""
    edges = [row.latencies[0] for row in other]
    low, high = min(edges), max(edges)
    return [row for row in rows if not low <= row.latencies[0] <= high]


def difference_at(
    latency: float, baseline: Sequence[DrawnRow], other: Sequence[DrawnRow]
) -> Difference:
    """Compare two systems at one latency.

    Args:
        latency: latency in seconds.
        baseline: rows of the first system.
        other: rows of the second system, of the same draws.
    """
    first, second = _at(latency, baseline), _at(latency, other)
    differences = second - first
    observed, drawn = float(differences[0]), differences[1:]
    low, high = np.percentile(drawn, (LOW, HIGH))
    by_chance = np.abs(drawn - drawn.mean())
    p_value = float(np.sum(by_chance >= abs(observed)) + 1) / (len(drawn) + 1)
    return Difference(
        latency,
        float(first[0]),
        float(second[0]),
        interval=(float(low), float(high)),
        p_value=1.0 if observed == 0 else p_value,
    )


def _at(latency: float, rows: Sequence[DrawnRow]) -> Values:
    """Return the quality at a latency in each draw.

    In a draw whose rows all have smaller or all have larger latencies, it is that of the nearest.
    """
    latencies = np.stack([row.latencies for row in rows])
    qualities = np.stack([row.qualities for row in rows])
    order = np.argsort(latencies, axis=0)
    latencies = np.take_along_axis(latencies, order, axis=0)
    qualities = np.take_along_axis(qualities, order, axis=0)
    pairs = zip(latencies.T, qualities.T, strict=True)
    return np.array([np.interp(latency, times, scores) for times, scores in pairs])
