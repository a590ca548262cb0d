"""Rows to read the others against: what waiting for everything gives, and what an oracle needs for perfect words."""

from collections.abc import Sequence

from zoo.data.talks import Segment, Talk
from zoo.errors import ZooError
from zoo.languages import Language
from zoo.types import Instance, Seconds

UNKNOWN = "…"  # written where a word cannot be known yet


def wait_k_oracle(talks: Sequence[Talk], target: Language, k: int) -> list[Instance]:
    """Writes word t of each segment's reference when source word t + k - 1 of that segment has been heard.

    wait-k (Ma et al., 2019) on gold words and gold times; what is left follows the last source word at once. A word
    that hangs on more than was heard (``Target.needs``) cannot be known yet: UNKNOWN stands for it. So its BLEU is what
    perfect recognition and translation reach on this schedule without a guess, where the corpus says what words need;
    else it writes the whole reference, and only its latency is a yardstick. Raises ZooError without word times.
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
    reference = segment.targets[target.code]
    units = target.units(reference.text)
    # A word language writes a word per source word, a character language as many characters as the lengths suggest.
    rate = len(units) / len(segment.words) if target.unit == "char" else 1.0
    heard = [min(int(t / rate) + k, len(segment.words)) for t in range(len(units))]
    needs = reference.needs or ((),) * len(units)
    known = [
        all(word < count for word in needed) for needed, count in zip(needs, heard, strict=True)
    ]
    written = [unit if sure else UNKNOWN for unit, sure in zip(units, known, strict=True)]
    return written, [segment.words[count - 1].end for count in heard]
