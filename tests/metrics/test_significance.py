"""Intervals and paired tests over segments."""

import logging
import os
from itertools import product
from statistics import fmean

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from sacrebleu.significance import PairedTest

from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.metrics.quality import BLEU
from zoo.metrics.significance import Resampling, estimate_mean, estimate_quality

BOTH = Resampling(tests=("bootstrap", "randomisation"), resamples=60, trials=80)
REFERENCES = [f"the {noun} of house {number} is large ." for number, noun in enumerate("abcdefgh")]
GOOD = [text.replace("large", "big") if "c" in text else text for text in REFERENCES]
BAD = [text.replace("is", "was") if "e of" in text else text for text in REFERENCES]
BAD[3], BAD[6] = "a house .", "the six"


def test_quality_is_that_of_sacrebleu() -> None:
    found = estimate_quality(BLEU(language("de")), [GOOD, BAD, GOOD], REFERENCES, BOTH)
    rows = [("base", GOOD), ("bad", BAD)]
    for test, kind in (("bootstrap", "bs"), ("randomisation", "ar")):
        _, results = PairedTest(
            rows, {"BLEU": SacreBLEU()}, [REFERENCES], kind, 60 if kind == "bs" else 80, 60
        )()
        _, expected = results["BLEU"]
        assert found[1].p_values[test] == expected.p_value  # type: ignore[index, union-attr]
        if kind == "bs":
            mean, half = expected.mean, expected.ci  # type: ignore[union-attr]
            assert found[1].interval == (mean - half, mean + half)
    assert found[0].p_values == {}
    assert found[0].interval == found[2].interval
    assert found[2].p_values == {"bootstrap": 1.0, "randomisation": 1.0}, "no difference at all"


def test_the_seed_decides_and_the_environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "7")

    def interval(seed: int) -> tuple[float, float]:
        wanted = Resampling(resamples=60, seed=seed)
        (found,) = estimate_quality(BLEU(language("de")), [BAD], REFERENCES, wanted)
        return found.interval

    assert interval(1) == interval(1)
    assert interval(1) != interval(2)
    assert os.environ["SACREBLEU_SEED"] == "7"


def test_sacrebleu_prints_no_notes_between_the_tables(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        estimate_quality(BLEU(language("de")), [GOOD, BAD], REFERENCES, BOTH)
    assert caplog.records == []
    assert logging.getLogger("sacrebleu").level != logging.WARNING


def test_the_interval_of_a_mean_is_that_of_its_normal_distribution() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, size=900)
    (found,) = estimate_mean([values.tolist()], Resampling(resamples=4000))
    assert found is not None
    low, high = found.interval
    assert (low + high) / 2 == pytest.approx(values.mean(), abs=0.02)
    assert (high - low) / 2 == pytest.approx(1.96 * 2.0 / 30, rel=0.08)


def test_randomisation_approximates_all_swaps() -> None:
    base = [1.0, 2.0, 3.0, 1.5, 2.5, None, 2.0, 1.0]
    own = [1.5, 2.5, 2.9, 2.5, 2.6, 3.0, None, 1.8]

    def difference(swaps: tuple[bool, ...]) -> float:
        pairs = [(b, a) if swap else (a, b) for a, b, swap in zip(base, own, swaps, strict=True)]
        means = [fmean(v for v in column if v is not None) for column in zip(*pairs, strict=True)]
        return abs(means[1] - means[0])

    observed = difference((False,) * 8)
    all_swaps = list(product((False, True), repeat=8))
    exact = fmean(difference(swaps) > observed + 1e-9 for swaps in all_swaps)
    _, found = estimate_mean([base, own], Resampling(tests=("randomisation",), trials=20_000))
    assert found is not None
    assert found.p_values["randomisation"] == pytest.approx(exact, abs=0.02)


def test_bootstrap_of_means_counts_defined_values_of_the_drawn_segments() -> None:
    base, own = [1.0, None, 3.0, 2.0, 2.2], [2.0, 2.0, None, 2.5, 2.4]
    draws = np.random.default_rng(5).choice(5, size=(50, 5), replace=True)

    def means(row: list[float | None]) -> list[float]:
        return [fmean(row[i] for i in draw if row[i] is not None) for draw in draws]

    differences = [abs(a - b) for a, b in zip(means(base), means(own), strict=True)]
    observed = abs(fmean([1.0, 3.0, 2.0, 2.2]) - fmean([2.0, 2.0, 2.5, 2.4]))
    larger = sum(one - fmean(differences) > observed for one in differences)
    _, found = estimate_mean([base, own], Resampling(resamples=50, seed=5))
    assert found is not None
    assert found.p_values["bootstrap"] == (larger + 1) / 51
    assert sorted(means(own))[1] == pytest.approx(found.interval[0], abs=0.2)


def test_a_row_without_values_has_no_estimate_and_equal_rows_do_not_differ() -> None:
    values = [1.0, 2.0, 3.0]
    none, same, _ = estimate_mean([[None] * 3, values, values], BOTH)
    assert none is None
    assert same is not None
    assert same.p_values == {}
    first, second = estimate_mean([values, values], BOTH)
    assert first is not None
    assert second is not None
    assert first.interval == second.interval
    assert second.p_values == {"bootstrap": 1.0, "randomisation": 1.0}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tests": ["t-test"]}, "Unknown test of significance 't-test'"),
        ({"tests": []}, "at least one test of significance: bootstrap, randomisation"),
        ({"resamples": 0}, "resamples"),
        ({"trials": -1}, "trials"),
        ({"seed": 0}, "seed"),
    ],
)
def test_wrong_numbers_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        Resampling(**values)  # type: ignore[arg-type]
