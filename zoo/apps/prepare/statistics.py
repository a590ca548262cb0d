"""Statistics of a prepared split."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import fmean, median
from typing import Any

import numpy as np

from zoo.apps.prepare.items import Item, Notes
from zoo.apps.prepare.steps.filters import reasons_of
from zoo.apps.prepare.steps.recognition import WER
from zoo.apps.prepare.steps.retranslation import count_retranslations
from zoo.apps.prepare.steps.trajectories import LAG, UNALIGNED
from zoo.apps.prepare.steps.words import SCORE
from zoo.base.talks import Segment, Talk
from zoo.base.types import Seconds

BINS = 24  # number of bins of a histogram
# Share of the values that the range of the bins covers; the last bin also counts larger values.
BULK = 0.99
SECONDS = "seconds"
UNITS = {  # units of scores, by the beginnings of their names
    LAG: SECONDS,
    UNALIGNED: "share of words",
    SCORE: "log-probability per frame",
    WER: "percent",
}


@dataclass(frozen=True, slots=True)
class Quantity:
    """Distribution of a quantity.

    Attributes:
        name: name of the quantity.
        unit: unit of the values.
        count: number of values.
        mean: mean of the values.
        median: median of the values.
        p90: 90th percentile.
        minimum: smallest value.
        maximum: largest value.
        start: start of the first bin of the histogram.
        width: width of a bin; the last one also has all larger values.
        counts: number of values in each bin.
    """

    name: str
    unit: str
    count: int
    mean: float
    median: float
    p90: float
    minimum: float
    maximum: float
    start: float
    width: float
    counts: Sequence[int]


def quantity(name: str, unit: str, values: Sequence[float]) -> Quantity:
    """Return the distribution of at least one value; numbers have four decimals."""
    least = min(values)
    start, high = min(0.0, least), float(np.quantile(values, BULK))
    width = (high - start) / BINS or 1.0
    bins = np.clip(((np.asarray(values) - start) / width).astype(int), 0, BINS - 1)
    counts: list[int] = np.bincount(bins, minlength=BINS).tolist()
    return Quantity(
        name=name,
        unit=unit,
        count=len(values),
        mean=round(fmean(values), 4),
        median=round(median(values), 4),
        p90=round(float(np.quantile(values, 0.9)), 4),
        minimum=round(least, 4),
        maximum=round(max(values), 4),
        start=round(start, 4),
        width=round(width, 4),
        counts=counts,
    )


def statistics(split: str, items: Sequence[Item], steps: Sequence[str]) -> dict[str, Any]:
    """Return the statistics of a split as values that JSON can describe.

    Args:
        split: name of the split.
        items: items after the last step.
        steps: names of the steps.
    """
    used = [item for item in items if not item.problem]
    usable = list(chain.from_iterable(_usable(item) for item in used))
    targets = sorted({code for segment, _ in usable for code in segment.targets})
    quantities = _quantities(used, usable)
    return {
        "split": split,
        "steps": list(steps),
        "source_language": used[0].talk.source_language,
        "target_languages": targets,
        "talks": len(used),
        "hours": _hours(item.talk.duration for item in used),
        "segments": sum(len(item.notes) for item in used),
        "usable_segments": len(usable),
        "replaced_translations": count_retranslations(used),
        "usable_hours": _hours(segment.duration for segment, _ in usable),
        "left_out_talks": {item.talk.name: item.problem for item in items if item.problem},
        "reasons": {
            reason: {"segments": count, "minutes": round(seconds / 60, 2)}
            for reason, (count, seconds) in reasons_of(used).items()
        },
        "quantities": [
            asdict(quantity(name, unit, values))
            for name, (unit, values) in quantities.items()
            if values
        ],
    }


def _hours(durations: Iterable[Seconds]) -> float:
    return round(sum(durations) / 3600, 4)


def _usable(item: Item) -> Iterator[tuple[Segment, Notes]]:
    """Yield the usable segments of an item with their notes."""
    for segment, note in zip(item.talk.segments, item.notes, strict=True):
        if not note.reason:
            yield segment, note


def _quantities(
    items: Sequence[Item], usable: Sequence[tuple[Segment, Notes]]
) -> Mapping[str, tuple[str, list[float]]]:
    """Return unit and values of each quantity by its name; segments are the usable ones."""
    segments = [segment for segment, _ in usable]
    words = [word for segment in segments for word in segment.words]
    quantities: dict[str, tuple[str, list[float]]] = {
        "duration of talks": ("minutes", [item.talk.duration / 60 for item in items]),
        "duration of segments": (SECONDS, [segment.duration for segment in segments]),
        "pauses between segments": (
            SECONDS,
            [pause for item in items for pause in _pauses(item.talk)],
        ),
        "words of a segment": (
            "words",
            [float(len(segment.words)) for segment in segments if segment.words],
        ),
        "duration of words": (SECONDS, [word.end - word.start for word in words]),
        "speed of speech": (
            "characters per second",
            [len(segment.source) / segment.duration for segment in segments if segment.source],
        ),
    }
    for name in sorted({name for _, note in usable for name in note.scores}):
        unit = next((unit for start, unit in UNITS.items() if name.startswith(start)), "")
        quantities[name] = (unit, [note.scores[name] for _, note in usable if name in note.scores])
    return quantities


def _pauses(talk: Talk) -> Iterator[Seconds]:
    """Yield the durations of the pauses before, between and after the segments of a talk."""
    end = 0.0
    for segment in talk.segments:
        if segment.offset > end:
            yield segment.offset - end
        end = max(end, segment.end)
    if talk.duration > end:
        yield talk.duration - end
