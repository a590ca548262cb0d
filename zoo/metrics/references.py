"""Reference segments of talks, and checks that they match the instances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from zoo.base.errors import ZooError
from zoo.base.types import Instance, Seconds

UNLIKE = 100.0  # ratio of two durations that cannot be those of the same talk


class HasText(Protocol):
    """A translation with a text."""

    @property
    def text(self) -> str:
        """Text of the translation."""


class TimedSegment(Protocol):
    """A segment with start, duration and translations, such as ``zoo.base.talks.Segment``."""

    @property
    def offset(self) -> Seconds:
        """Start in seconds from the start of the talk."""

    @property
    def duration(self) -> Seconds:
        """Duration in seconds."""

    @property
    def targets(self) -> Mapping[str, HasText]:
        """Reference translations by language code."""


@dataclass(frozen=True, slots=True)
class ReferenceSegment:
    """A reference sentence and the position of its source.

    Attributes:
        offset: Start of the source in seconds from the start of the talk.
        duration: Duration of the source in seconds.
        text: Reference translation.
    """

    offset: Seconds
    duration: Seconds
    text: str

    @classmethod
    def of(cls, segment: TimedSegment, *, target: str, talk: str) -> "ReferenceSegment":
        """Create the reference of a manifest segment.

        Args:
            segment: Segment of a talk.
            target: Code of the target language.
            talk: Name of the talk, for the error message.

        Raises:
            ZooError: The segment has no translation into ``target``.
        """
        if target not in segment.targets:
            raise ZooError(
                f"Talk {talk!r} has no reference in {target!r} for its segment at "
                f"{segment.offset:g} s."
            )
        return cls(segment.offset, segment.duration, segment.targets[target].text)


def check_talks(
    instances: Sequence[Instance], references: Sequence[Sequence[ReferenceSegment]]
) -> None:
    """Check that talks have references and occur once; some sentences may have blank references.

    Raises:
        ZooError: A talk has no reference, occurs twice, has wrong numbers of times, or has quite
            another duration than its references.
    """
    if len(instances) != len(references):
        raise ZooError(
            f"There are {len(instances)} talks to score but references for {len(references)}."
        )
    if (blank := first_blank(references)) is not None:
        raise ZooError(f"Talk {instances[blank].talk!r} has no reference.")
    seen: set[str] = set()
    for instance, segments in zip(instances, references, strict=True):
        if instance.talk in seen:
            raise ZooError(f"Talk {instance.talk!r} occurs twice; do two runs share one log?")
        seen.add(instance.talk)
        check_units(instance)
        end = max(segment.offset + segment.duration for segment in segments)
        if not 1 / UNLIKE < instance.source_length / end < UNLIKE:
            raise ZooError(
                f"Talk {instance.talk!r} lasts {instance.source_length:g} s, but its references "
                f"end at {end:g} s; are its times seconds instead of milliseconds?"
            )


def first_blank(references: Sequence[Sequence[HasText]]) -> int | None:
    """Return the place of the first talk without the reference that it needs; None: all have one.

    A segment of a whole talk may have a blank reference, and so may a stream of one sentence if
    others have text.

    Args:
        references: Reference segments of each talk.
    """
    filled = [any(one.text.strip() for one in segments) for segments in references]
    needed = (not any(filled) or len(segments) != 1 for segments in references)
    wanting = [need and not has for need, has in zip(needed, filled, strict=True)]
    return wanting.index(True) if True in wanting else None


def check_units(instance: Instance) -> None:
    """Check that each unit has a delay and either all or no units have an elapsed time.

    Raises:
        ZooError: The numbers differ.
    """
    units = f"Talk {instance.talk!r} has {len(instance.units)} {instance.unit}s"
    if len(instance.delays) != len(instance.units):
        raise ZooError(f"{units} but {len(instance.delays)} delays.")
    if len(instance.elapsed) not in (0, len(instance.units)):
        raise ZooError(f"{units} but {len(instance.elapsed)} elapsed times.")
