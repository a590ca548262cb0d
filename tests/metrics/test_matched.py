"""Quality at equal latency: interpolation, draws and p-values."""

import numpy as np
import pytest

from zoo.metrics.matched import (
    DrawnRow,
    common_latencies,
    difference_at,
    draw_counts,
    mean_of_draws,
    quality_of_draws,
)
from zoo.metrics.quality import ChrF
from zoo.metrics.significance import Resampling, estimate_mean

COUNTS = draw_counts(40, resamples=300, seed=5)


def drawn(latency: float, qualities: list[float]) -> DrawnRow:
    """A row whose segments have one latency, and qualities of their own."""
    return DrawnRow(
        mean_of_draws([latency] * len(qualities), COUNTS), mean_of_draws(qualities, COUNTS)
    )


def values(mean: float, seed: int = 1) -> list[float]:
    noise = np.random.default_rng(seed).normal(size=40)
    return [float(value) for value in mean + noise - noise.mean()]


def test_a_draw_is_that_of_the_other_tests() -> None:
    segments: list[float | None] = [0.5, 2.0, None, 4.0, 1.0]
    resampling = Resampling(resamples=200, seed=7)
    counts = draw_counts(5, resamples=200, seed=7)
    assert counts.shape == (201, 5)
    assert counts[0].tolist() == [1] * 5
    assert set(counts.sum(1).tolist()) == {5}
    means = mean_of_draws(segments, counts)
    assert means[0] == pytest.approx(1.875)
    [estimate] = estimate_mean([segments], resampling)
    assert estimate is not None
    low, high = np.percentile(means[1:], (2.5, 97.5))
    assert estimate.interval[1] - estimate.interval[0] == pytest.approx(high - low, rel=0.05)


def test_the_corpus_score_of_a_draw_is_that_of_its_segments() -> None:
    texts = ["ein Satz", "noch ein Satz", "das Ende"]
    references = ["ein Satz", "noch zwei Sätze", "Ende"]
    counts = np.array([[1, 1, 1], [2, 0, 1]])
    scores = quality_of_draws(ChrF(), texts, references, counts)
    for score, order in zip(scores, ([0, 1, 2], [0, 0, 2]), strict=True):
        metric = ChrF()
        metric.update([texts[i] for i in order], [references[i] for i in order])
        assert score == pytest.approx(metric.compute())


def test_the_quality_is_interpolated_between_the_rows() -> None:
    base = [drawn(3.0, values(30.0)), drawn(1.0, values(10.0))]  # in any order
    other = [drawn(2.0, values(25.0, seed=2))]
    assert common_latencies(base, other) == [2.0]
    found = difference_at(2.0, base, other)
    assert (found.baseline, found.quality) == (pytest.approx(20.0), pytest.approx(25.0))
    low, high = found.interval
    assert low < 5.0 < high
    assert high - low < 3.0
    assert found.p_value < 0.01


def test_rows_of_the_baseline_need_no_interpolation() -> None:
    base = [drawn(latency, values(latency)) for latency in (1.0, 2.0, 3.0)]
    other = [drawn(latency, values(latency)) for latency in (1.5, 4.0)]
    assert common_latencies(base, other) == [2.0, 3.0]
    assert common_latencies(other, base) == [1.5]
    assert common_latencies(base, [drawn(5.0, values(1.0))]) == []


def test_equal_systems_and_noise_do_not_differ() -> None:
    base = [drawn(1.0, values(10.0)), drawn(2.0, values(20.0))]
    assert difference_at(1.5, base, base).p_value == 1.0
    noisy = [drawn(1.0, values(10.1, seed=3)), drawn(2.0, values(20.1, seed=4))]
    found = difference_at(1.5, base, noisy)
    assert found.p_value > 0.1
    assert found.interval[0] < 0.0 < found.interval[1]
