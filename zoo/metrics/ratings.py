"""Continuous rating: presses of a rater while a talk plays, their mean, and agreement of raters.

Javorský et al. (2022), "Continuous Rating as Reliable Human Evaluation of Simultaneous Speech
Translation": a rater of a live translation presses 1 (worst) to 4 (best) every few seconds. A
rating holds until the next press.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from zoo.base.types import Seconds
from zoo.metrics.signature import Score, signature

NAME = "HumanRating"
WORST, BEST = 1, 4
NO_RATING = 0  # the rater does not attend; what follows is not rated until the next press
LEAST_TRACKS = 5  # a bootstrap of fewer has no interval
RESAMPLES, SEED = 1000, 12345
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Track:
    """The presses of one rater on one talk of one system.

    Attributes:
        rater: name of the rater.
        talk: name of the talk.
        presses: (source time in seconds, rating) in the order of the times.
        until: source time to which the rater listened, in seconds.
    """

    rater: str
    talk: str
    presses: Sequence[tuple[Seconds, int]]
    until: Seconds


@dataclass(frozen=True, slots=True)
class RatedScore:
    """What the tracks of one system say.

    Attributes:
        score: the mean rating, weighted by time.
        press_mean: mean of all presses; None: there is none.
        interval: bounds of the 95 % interval of the mean; None with less than LEAST_TRACKS tracks.
        pearson: mean correlation of two raters of a talk; None: it is not defined.
        alpha: Krippendorff's alpha for intervals; None: it is not defined.
        raters: names of the raters.
        talks: names of the talks.
        presses: number of ratings.
        rated: seconds that have a rating, over all raters.
    """

    score: Score
    press_mean: float | None
    interval: tuple[float, float] | None
    pearson: float | None
    alpha: float | None
    raters: Sequence[str] = field(default=())
    talks: Sequence[str] = field(default=())
    presses: int = 0
    rated: Seconds = 0.0


def rate(tracks: Sequence[Track]) -> RatedScore:
    """Return the ratings of one system.

    Args:
        tracks: presses of its raters, at least one track.
    """
    value = mean_rating(tracks)
    raters = tuple(dict.fromkeys(track.rater for track in tracks))
    talks = tuple(dict.fromkeys(track.talk for track in tracks))
    ratings = [rating for track in tracks for _, rating in track.presses if rating != NO_RATING]
    samples = sample_talks(tracks)
    facts = signature(
        NAME,
        scale=f"{WORST}-{BEST}",
        weighted="time",
        raters=str(len(raters)),
        talks=str(len(talks)),
    )
    return RatedScore(
        Score(NAME, value, facts),
        press_mean=float(np.mean(ratings)) if ratings else None,
        interval=bootstrap_interval(tracks),
        pearson=mean_correlation(samples),
        alpha=krippendorff_alpha(np.concatenate(samples, axis=1)) if samples else None,
        raters=raters,
        talks=talks,
        presses=len(ratings),
        rated=sum(held_seconds(track)[0] for track in tracks),
    )


def held_seconds(track: Track) -> tuple[Seconds, float]:
    """Return how long a track has a rating, and the integral of its rating over this time.

    A rating holds from its press until the next press, the last one until the end of the track.
    The time before the first press has no rating.
    """
    ends = [*(time for time, _ in track.presses), max(track.until, track.presses[-1][0])]
    held = [
        (end - start, rating)
        for (start, end), (_, rating) in zip(pairwise(ends), track.presses, strict=True)
        if rating != NO_RATING
    ]
    return sum(seconds for seconds, _ in held), sum(seconds * rating for seconds, rating in held)


def mean_rating(tracks: Sequence[Track]) -> float | None:
    """Return the mean rating of a system; None: nothing is rated.

    The rating of a talk is the mean over its tracks, each of which is weighted by time. The talks
    are weighted by their rated time, of which the mean over the tracks is taken. The analysis of
    IWSLT 2022 (Macháček et al. 2023) differs where a talk is rated in part: it weights talks by
    their duration.
    """
    return _mean_of([_rated(track) for track in tracks])


def bootstrap_interval(tracks: Sequence[Track]) -> tuple[float, float] | None:
    """Return the 2.5 and 97.5 percentiles of the mean over draws of tracks with replacement.

    None with less than LEAST_TRACKS rated tracks.
    """
    rated = [one for one in map(_rated, tracks) if one[1] > 0]
    if len(rated) < LEAST_TRACKS:
        return None
    drawn = np.random.default_rng(SEED).choice(len(rated), size=(RESAMPLES, len(rated)))
    means = [_mean_of([rated[place] for place in places]) for places in drawn]
    low, high = np.percentile(np.array(means, dtype=np.float64), [2.5, 97.5])
    return float(low), float(high)


def _rated(track: Track) -> tuple[str, Seconds, float]:
    """Return the talk of a track, how long it has a rating, and the integral of the rating."""
    return (track.talk, *held_seconds(track))


def _mean_of(rated: Sequence[tuple[str, Seconds, float]]) -> float | None:
    """Return the mean over results of ``_rated``."""
    talks: dict[str, list[tuple[Seconds, float]]] = {}
    for talk, seconds, total in rated:
        if seconds > 0:
            talks.setdefault(talk, []).append((seconds, total / seconds))
    weights = [sum(seconds for seconds, _ in found) / len(found) for found in talks.values()]
    means = [sum(mean for _, mean in found) / len(found) for found in talks.values()]
    return float(np.average(means, weights=weights)) if means else None


def sample_talks(tracks: Sequence[Track]) -> list[Values]:
    """Return the rating at each second of each talk that several raters have rated.

    Returns:
        (raters of all talks, seconds) per talk; NaN where a rater has no rating.
    """
    raters = list(dict.fromkeys(track.rater for track in tracks))
    samples: list[Values] = []
    for talk in dict.fromkeys(track.talk for track in tracks):
        group = [track for track in tracks if track.talk == talk]
        if len(group) < 2:
            continue
        seconds = int(max(track.until for track in group)) + 1
        values = np.full((len(raters), seconds), np.nan)
        for track in group:
            values[raters.index(track.rater)] = sample(track, seconds)
        samples.append(values)
    return samples


def sample(track: Track, seconds: int) -> Values:
    """Return the rating of a track at 0, 1, ... s; NaN where there is none.

    Args:
        track: the track.
        seconds: number of values.
    """
    moments = np.arange(seconds)
    times = np.array([time for time, _ in track.presses])
    ratings = np.array([rating for _, rating in track.presses], dtype=np.float64)
    places = np.searchsorted(times, moments, side="right") - 1
    values: Values = np.where(places < 0, np.nan, ratings[np.maximum(places, 0)])
    values[(values == NO_RATING) | (moments > track.until)] = np.nan
    return values


def mean_correlation(samples: Sequence[Values]) -> float | None:
    """Return the mean over talks and pairs of raters of Pearson's correlation.

    A pair of which one rater never changes the rating has no correlation. None: no pair has one.

    Args:
        samples: (raters, seconds) per talk, NaN where there is no rating.
    """
    found: list[float] = []
    for values in samples:
        for first, second in combinations(values, 2):
            both = ~np.isnan(first) & ~np.isnan(second)
            if both.any() and np.ptp(first[both]) > 0 and np.ptp(second[both]) > 0:
                found.append(float(np.corrcoef(first[both], second[both])[0, 1]))
    return float(np.mean(found)) if found else None


def krippendorff_alpha(values: Values) -> float | None:
    """Return Krippendorff's alpha with the squared difference of intervals.

    1 is perfect agreement, 0 that of chance; opposite raters have a negative value.

    Args:
        values: (raters, units), NaN where a rater has no value. Units with one value are left out.

    Returns:
        None if there is no unit with two values, or if all values are equal.
    """
    defined = ~np.isnan(values)
    counts = defined.sum(axis=0)
    pairable = counts > 1
    if not pairable.any():
        return None
    kept, counts = np.nan_to_num(values[:, pairable]), counts[pairable]
    total = int(counts.sum())
    # The sum of (a - b)^2 over ordered pairs of n values is 2 (n sum(a^2) - sum(a)^2).
    sums, squares = kept.sum(axis=0), (kept**2).sum(axis=0)
    observed = float(np.sum(2 * (counts * squares - sums**2) / (counts - 1))) / total
    expected = 2 * float(total * squares.sum() - sums.sum() ** 2) / (total * (total - 1))
    return 1 - observed / expected if expected > 0 else None
