"""Reference rows: an oracle that emits the reference translation on a wait-k schedule."""

from collections.abc import Sequence

from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.talks import Segment, Talk
from zoo.base.types import Instance, Seconds

UNKNOWN = "…"  # emitted if the source words so far do not determine the target word


def wait_k_oracle(talks: Sequence[Talk], target: Language, k: int) -> list[Instance]:
    """Emit word t of each segment's reference at the end of source word t + k - 1 (wait-k).

    wait-k (Ma et al., 2019, section 3) on gold words and gold times; the rest of the reference
    follows the last source word at once. A target word that depends on later source words
    (``Target.needs``) is replaced by ``UNKNOWN``. The row's BLEU is therefore the upper bound of
    this schedule without guessing. For a corpus without ``needs`` the whole reference is emitted,
    and only the row's latency can be compared.

    Args:
        talks: talks with word times.
        target: target language.
        k: number of source words before the first target word, at least 1.

    Returns:
        One stream per talk.

    Raises:
        ZooError: a segment has no word times.
    """
    return [_instance(index, talk, target, k) for index, talk in enumerate(talks)]


def _instance(index: int, talk: Talk, target: Language, k: int) -> Instance:
    units: list[str] = []
    delays: list[Seconds] = []
    for segment in talk.segments:
        if not segment.words:
            raise ZooError(f"Talk {talk.name!r} has no word times; the wait-k oracle needs them.")
        emitted, times = _segment(segment, target, k)
        units += emitted
        # Segments may overlap in time, but the delays of a stream never decrease.
        earliest = delays[-1] if delays else 0.0
        delays += [max(time, earliest) for time in times]
    return Instance(
        index=index,
        talk=talk.name,
        source_length=talk.duration,
        text=target.join(units),
        units=tuple(units),
        delays=tuple(delays),
        elapsed=tuple(delays),
        reference=target.separator.join(
            segment.targets[target.code].text for segment in talk.segments
        ),
        unit=target.unit,
    )


def _segment(segment: Segment, target: Language, k: int) -> tuple[list[str], list[Seconds]]:
    """Return the emitted units of a segment and the time of each."""
    reference = segment.targets[target.code]
    units = target.units(reference.text)

    # The schedule of wait-k pairs each target word with one source word. Characters have no such
    # pairs, so they are spread evenly over the source words.
    rate = len(units) / len(segment.words) if target.unit == "char" else 1.0
    received = [min(int(t / rate) + k, len(segment.words)) for t in range(len(units))]

    needs = reference.needs or ((),) * len(units)
    emitted = [
        unit if all(word < count for word in needed) else UNKNOWN
        for unit, needed, count in zip(units, needs, received, strict=True)
    ]
    return emitted, [segment.words[count - 1].end for count in received]
