"""What a talk should have said, segment by segment. Knows no hypothesis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from zoo.errors import ZooError
from zoo.types import Instance, Seconds


class HasText(Protocol):
    """A translation."""

    @property
    def text(self) -> str: ...


class TimedSegment(Protocol):
    """What ``zoo.data.talks.Segment`` offers."""

    @property
    def offset(self) -> Seconds: ...
    @property
    def duration(self) -> Seconds: ...
    @property
    def targets(self) -> Mapping[str, HasText]: ...


@dataclass(frozen=True, slots=True)
class ReferenceSegment:
    """One reference sentence and where its source is spoken (seconds from the start of the talk)."""

    offset: Seconds
    duration: Seconds
    text: str

    @classmethod
    def of(cls, segment: TimedSegment, *, target: str, talk: str) -> "ReferenceSegment":
        """The reference of a manifest segment. Raises ZooError naming the talk if it has none in ``target``."""
        if target not in segment.targets:
            raise ZooError(
                f"Talk {talk!r} has no reference in {target!r} for its segment at {segment.offset:g} s."
            )
        return cls(segment.offset, segment.duration, segment.targets[target].text)


def check_talks(
    instances: Sequence[Instance], references: Sequence[Sequence[ReferenceSegment]]
) -> None:
    """Raise ZooError unless every talk has references, and no talk comes twice."""
    if len(instances) != len(references):
        raise ZooError(
            f"There are {len(instances)} talks to score but references for {len(references)}."
        )
    seen: set[str] = set()
    for instance, segments in zip(instances, references, strict=True):
        if instance.talk in seen:
            raise ZooError(f"Talk {instance.talk!r} is there twice; do two runs share one log?")
        seen.add(instance.talk)
        if not any(segment.text.strip() for segment in segments):
            raise ZooError(f"Talk {instance.talk!r} has no reference.")
        check_units(instance)


def check_units(instance: Instance) -> None:
    """Raise ZooError unless each unit has a delay, and an elapsed time where any has one."""
    if len(instance.delays) != len(instance.units):
        raise ZooError(
            f"Talk {instance.talk!r} has {len(instance.units)} {instance.unit}s but {len(instance.delays)} delays."
        )
    times = len(instance.elapsed)
    if times not in (0, len(instance.units)):
        raise ZooError(
            f"Talk {instance.talk!r} has {len(instance.units)} {instance.unit}s but {times} elapsed times."
        )
