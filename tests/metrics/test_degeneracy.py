"""Shares of words before the end of the source, by hand."""

import pytest

from zoo.metrics.degeneracy import DEGENERACY_METRICS
from zoo.metrics.latency import Timing


def scores(*timings: Timing) -> dict[str, float]:
    values = {}
    for name, metric_class in DEGENERACY_METRICS.items():
        metric = metric_class()
        for timing in timings:
            metric.update(timing)
        values[name] = metric.compute()
    return values


def test_words_before_the_end_over_all_words() -> None:
    """YAAL of the first segment is 1: words at 1, 2, 3 of 4 s; the last word is at the end."""
    even = Timing((1.0, 2.0, 3.0, 4.0), 4.0, 4)
    assert scores(even) == {"SWF": 75.0, "EFSW": 75.0, "DSPTV": 0.0}


def test_one_early_word_and_the_rest_at_the_end() -> None:
    """The lag of the first word alone is 0.5 s of 4 s: 87.5 % are expected before the end."""
    degenerate = Timing((0.5, 4.0, 4.0, 4.0), 4.0, 4)
    assert scores(degenerate) == {"SWF": 25.0, "EFSW": 87.5, "DSPTV": 62.5}


def test_segments_without_words_before_the_end_have_no_expected_share() -> None:
    late, even = Timing((4.0, 4.0), 4.0, 2), Timing((1.0, 2.0), 2.0, 2)
    values = scores(late, even)
    assert values["SWF"] == pytest.approx(100 / 4)
    assert values["EFSW"] == pytest.approx(50.0)
    assert values["DSPTV"] == pytest.approx(25.0)
