"""Confidence intervals and paired tests of scores, by resampling the reference segments.

A test compares the scores of a row with those of a baseline row on the same segments:

- ``bootstrap``: paired bootstrap (Koehn 2004, section 3.2), with segments drawn with replacement;
- ``randomisation``: approximate randomisation (Riezler and Maxwell 2005, section 3), which swaps
  the outputs of the two rows in random segments.

Quality is tested by sacreBLEU itself. Latencies are means over segments; their tests have the
definitions of sacreBLEU's and, with equal seeds, its draws.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sacrebleu.significance import PairedTest, Result, estimate_ci

from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.metrics.quality import CorpusQuality

Test = Literal["bootstrap", "randomisation"]
Values = NDArray[np.float64]

SACREBLEU_TESTS: dict[Test, str] = {"bootstrap": "bs", "randomisation": "ar"}
SEED_VARIABLE = "SACREBLEU_SEED"  # sacreBLEU reads its seed from the environment
LEAST_RESAMPLES = 40  # fewer have no 2.5 percentile
LEAST_TRIALS = 20  # no p-value of fewer is below 0.05
PART = 500  # trials whose swaps are multiplied at once, to bound memory


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """What is resampled, and how often.

    Attributes:
        tests: tests of the differences from the baseline, at least one.
        resamples: number of bootstrap resamples, also of the intervals.
        trials: number of trials of approximate randomisation.
        seed: seed of all draws.
    """

    tests: Sequence[Test] = ("bootstrap",)
    resamples: int = 1000
    trials: int = 10_000
    seed: int = 12345

    def __post_init__(self) -> None:
        """Raise ZooError for an unknown test, no test or a number out of range."""
        if not self.tests:
            raise ZooError(f"Name at least one test of significance: {', '.join(get_args(Test))}.")
        for test in self.tests:
            check_choice("test of significance", test, get_args(Test))
        # sacreBLEU draws other numbers in every run with seed 0
        check_numbers("significance", least=1, seed=self.seed)
        check_numbers("significance", least=LEAST_RESAMPLES, resamples=self.resamples)
        check_numbers("significance", least=LEAST_TRIALS, trials=self.trials)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Reliability of one score of one row.

    Attributes:
        interval: bounds of the 95 % interval: the mean over the bootstrap resamples, minus and plus
            half of the distance between their 2.5 and 97.5 percentiles.
        p_values: probability of a difference from the baseline at least as large by chance, by
            test; empty for the baseline.
    """

    interval: tuple[float, float]
    p_values: dict[Test, float] = field(default_factory=dict)


def estimate_quality(
    metric: CorpusQuality,
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[str],
    resampling: Resampling,
) -> list[Estimate]:
    """Estimate a quality score with sacreBLEU's paired tests.

    Args:
        metric: metric of sacreBLEU.
        hypotheses: hypotheses of each row, one per reference; the first row is the baseline.
        references: reference segments.
        resampling: tests and numbers of draws.

    Returns:
        One estimate per row.
    """
    intervals: list[tuple[float, float]] = []
    p_values: list[dict[Test, float]] = [{} for _ in hypotheses]
    for test in resampling.tests:
        results = _sacrebleu(test, metric, hypotheses, references, resampling)
        base = results[0].score
        for found, result in zip(p_values[1:], results[1:], strict=True):
            # sacreBLEU gives two rows without a difference the smallest p-value.
            found[test] = 1.0 if result.score == base else result.p_value or 0.0
        intervals = intervals or [
            _interval(result.mean or 0.0, result.ci or 0.0) for result in results
        ]
    return [Estimate(*pair) for pair in zip(intervals, p_values, strict=True)]


def estimate_mean(
    values: Sequence[Sequence[float | None]], resampling: Resampling
) -> list[Estimate | None]:
    """Estimate a score that is the mean of the values of segments.

    Args:
        values: values of each row, one per segment; None: undefined, not part of the mean. The
            first row is the baseline.
        resampling: tests and numbers of draws.

    Returns:
        One estimate per row; None for a row without any value.
    """
    rows = [np.array(row, dtype=np.float64) for row in values]  # None becomes NaN
    size = len(rows[0])
    drawn = np.random.default_rng(resampling.seed).choice(
        size, size=(resampling.resamples, size), replace=True
    )
    means = [_means(row[drawn]) for row in rows]
    estimates: list[Estimate | None] = []
    for place, row in enumerate(rows):
        if np.isnan(row).all():
            estimates.append(None)
            continue
        p_values: dict[Test, float] = {}
        if place and not np.isnan(rows[0]).all():
            difference = float(abs(np.nanmean(row) - np.nanmean(rows[0])))
            for test in resampling.tests:
                if test == "bootstrap":
                    found = np.abs(means[place] - means[0])
                    found = found - np.nanmean(found)
                else:
                    found = _swapped_differences(rows[0], row, resampling)
                p_values[test] = _p_value(found, difference)
        defined = means[place][~np.isnan(means[place])]
        estimates.append(Estimate(_interval(*estimate_ci(defined)), p_values))
    return estimates


def _sacrebleu(
    test: Test,
    metric: CorpusQuality,
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[str],
    resampling: Resampling,
) -> list[Result]:
    """Return sacreBLEU's result of each row."""
    randomised = test == "randomisation"
    with _seeded(resampling.seed):
        _, results = PairedTest(
            [(str(place), list(texts)) for place, texts in enumerate(hypotheses)],
            {"score": metric.scorer},
            [list(references)],
            test_type=SACREBLEU_TESTS[test],
            n_samples=resampling.trials if randomised else resampling.resamples,
            n_ar_confidence=resampling.resamples if randomised else -1,
        )()
    results.pop("System")  # names of the rows
    (found,) = results.values()
    return [result for result in found if isinstance(result, Result)]


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Set sacreBLEU's seed and print none of its notes; restore both afterwards."""
    before = os.environ.get(SEED_VARIABLE)
    os.environ[SEED_VARIABLE] = str(seed)
    logger = logging.getLogger("sacrebleu")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
        if before is None:
            del os.environ[SEED_VARIABLE]
        else:
            os.environ[SEED_VARIABLE] = before


def _means(values: Values) -> Values:
    """Return the mean of the defined values of each line; NaN for a line without any."""
    counts = (~np.isnan(values)).sum(1)
    sums = np.nansum(values, 1)
    means: Values = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return means


def _swapped_differences(base: Values, own: Values, resampling: Resampling) -> Values:
    """Return the absolute difference of the two means after each trial of random swaps."""
    random = np.random.default_rng(resampling.seed)
    swaps = random.integers(2, size=(resampling.trials, len(base)), dtype=bool)
    # per segment and row: value and whether it is defined
    ours, theirs = (
        np.stack([np.nan_to_num(row), ~np.isnan(row)], axis=1).astype(np.float64)
        for row in (own, base)
    )
    moved = np.concatenate(
        [swaps[first : first + PART] @ (theirs - ours) for first in range(0, len(swaps), PART)]
    )
    sums = (ours.sum(0) + moved, theirs.sum(0) - moved)
    with np.errstate(invalid="ignore", divide="ignore"):  # a row that lost all of its values
        first, second = (pair[:, 0] / pair[:, 1] for pair in sums)
        differences: Values = np.array(abs(first - second), dtype=np.float64)
    return differences


def _p_value(found: Values, difference: float) -> float:
    """Return the p-value of a difference, as sacreBLEU does; 1 if there is no difference."""
    if difference == 0:
        return 1.0
    return float(np.sum(found > difference) + 1) / (len(found) + 1)


def _interval(mean: float, half: float) -> tuple[float, float]:
    return float(mean - half), float(mean + half)
