"""Rows to read the others against: what waiting for everything gives, and what an oracle needs for perfect words."""

from collections.abc import Sequence

from zoo.data.talks import Segment, Talk
from zoo.errors import ZooError
from zoo.languages import Language
from zoo.types import Instance, Seconds


def wait_k_oracle(talks: Sequence[Talk], target: Language, k: int) -> list[Instance]:
    """Writes the reference itself, word t of a segment when source word t + k - 1 of that segment has been heard.

    wait-k (Ma et al., 2019) on gold words and gold times; what is left follows the last source word at once. It knows
    the reference: its latency is a yardstick, its BLEU is no achievement. Raises ZooError without word times.
    """
    return [_instance(index, talk, target, k) for index, talk in enumerate(talks)]


def _instance(index: int, talk: Talk, target: Language, k: int) -> Instance:
    units: list[str] = []
    delays: list[Seconds] = []
    for segment in talk.segments:
        if not segment.words:
            raise ZooError(f"Talk {talk.name!r} has no word times; the wait-k oracle needs them.")
        written, times = _segment(segment, target, k)
        units += written
        delays += [max(time, delays[-1]) if delays else time for time in times]
    return Instance(
        index=index,
        talk=talk.name,
        source_length=talk.duration,
        text=target.join(units),
        units=tuple(units),
        delays=tuple(delays),
        elapsed=tuple(delays),
        unit=target.unit,
    )


def _segment(segment: Segment, target: Language, k: int) -> tuple[list[str], list[Seconds]]:
    units = target.units(segment.targets[target.code].text)
    # A word language writes a word per source word, a character language as many characters as the lengths suggest.
    rate = len(units) / len(segment.words) if target.unit == "char" else 1.0
    last = len(segment.words) - 1
    return units, [segment.words[min(int(t / rate) + k - 1, last)].end for t in range(len(units))]
