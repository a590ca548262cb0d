"""Continuous rating, computed by hand: means over time, agreement of raters."""

from math import inf, nan

import numpy as np
import pytest

from zoo.metrics.ratings import (
    LEAST_TRACKS,
    NAME,
    Track,
    krippendorff_alpha,
    mean_rating,
    rate,
    sample,
)


def track(*presses: tuple[float, int], until: float, rater: str = "a", talk: str = "t") -> Track:
    return Track(rater, talk, presses, until)


@pytest.mark.parametrize(
    ("tracks", "mean", "press_mean"),
    [
        ([track((0, 1), (9, 4), until=10)], 1.3, 2.5),  # 1 for 9 s, 4 for 1 s
        ([track((5, 3), until=20)], 3.0, 3.0),  # the time before the first press has no rating
        ([track((0, 4), (4, 0), (9, 1), until=10)], 3.4, 2.5),  # 4 for 4 s, none for 5 s, 1 for 1 s
        (  # two raters of one talk count equally, however long they listened
            [track((0, 2), until=10), track((0, 4), until=90, rater="b")],
            3.0,
            3.0,
        ),
        (  # talks count by their rated time: 1 for 10 s, 4 for 30 s
            [track((0, 1), until=10), track((0, 4), until=30, talk="u")],
            3.25,
            2.5,
        ),
        ([track((0, 0), (3, 0), until=10)], None, None),  # the rater never attended
        ([track((7, 2), until=7)], None, 2.0),  # a press at the very end holds for no time
    ],
)
def test_means(tracks: list[Track], mean: float | None, press_mean: float | None) -> None:
    result = rate(tracks)
    assert result.score.value == (None if mean is None else pytest.approx(mean))
    assert result.press_mean == (None if press_mean is None else pytest.approx(press_mean))


def test_a_rating_holds_until_the_next_press_at_each_second() -> None:
    one = track((0.5, 2), (2.0, 3), (3.5, 0), (5, 1), until=5.9)
    assert sample(one, 8).tolist() == pytest.approx([nan, 2, 3, 3, nan, 1, nan, nan], nan_ok=True)


RISING = ((0, 1), (1, 2), (2, 3), (3, 4))
FALLING = ((0, 4), (1, 3), (2, 2), (3, 1))


@pytest.mark.parametrize(
    ("first", "second", "pearson", "alpha"),
    [
        (RISING, RISING, 1.0, 1.0),
        # observed: (9 + 1 + 1 + 9) * 2 / 8 = 5; expected: 2 (8 * 60 - 20^2) / (8 * 7) = 20 / 7
        (RISING, FALLING, -1.0, -0.75),
        # a rater without a change has no correlation; 1 - (6 * 2 / 8) / (2 (8 * 66 - 22^2) / 56)
        (RISING, ((0, 3),), None, 1 / 22),
        (((0, 3),), ((0, 3),), None, None),  # all values are equal: chance has no disagreement
    ],
)
def test_agreement_of_two_raters(
    first: tuple[tuple[float, int], ...],
    second: tuple[tuple[float, int], ...],
    pearson: float | None,
    alpha: float | None,
) -> None:
    result = rate([track(*first, until=3), track(*second, until=3, rater="b")])
    assert result.pearson == (None if pearson is None else pytest.approx(pearson))
    assert result.alpha == (None if alpha is None else pytest.approx(alpha))


def test_one_rater_and_raters_of_different_talks_have_no_agreement() -> None:
    for tracks in (
        [track(*RISING, until=3)],
        [track(*RISING, until=3), track(*RISING, until=3, rater="b", talk="u")],
    ):
        result = rate(tracks)
        assert (result.pearson, result.alpha, result.interval) == (None, None, None)


def test_alpha_is_that_of_krippendorff_s_example() -> None:
    """Krippendorff (2011), "Computing Krippendorff's alpha-reliability": interval data."""
    values = np.array(
        [
            [1, 2, 3, 3, 2, 1, 4, 1, 2, nan, nan, nan],
            [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, nan, 3],
            [nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, nan],
            [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, nan],
        ]
    )
    assert krippendorff_alpha(values) == pytest.approx(0.849, abs=5e-4)


def test_the_interval_needs_several_ratings_and_contains_the_mean() -> None:
    tracks = [track((0, 1 + place % 4), until=10, rater=str(place)) for place in range(8)]
    assert rate(tracks[: LEAST_TRACKS - 1]).interval is None
    low, high = rate(tracks).interval or (inf, -inf)
    assert 1 <= low < (mean_rating(tracks) or nan) < high <= 4
    assert rate(tracks).interval == (low, high)  # the seed is fixed
    equal = [track((0, 3), until=10, rater=str(place)) for place in range(LEAST_TRACKS)]
    assert rate(equal).interval == (3.0, 3.0)


def test_the_facts_of_the_ratings() -> None:
    result = rate([track((0, 2), (30, 0), until=60), track((30, 4), until=60, rater="b")])
    assert (result.raters, result.talks) == (("a", "b"), ("t",))
    assert (result.presses, result.rated) == (2, 60.0)
    assert result.score.signature.startswith(f"{NAME}|scale:1-4|weighted:time|raters:2|talks:1|")
