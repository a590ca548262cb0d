"""Matches the streams of a recorded log with the talks that they translate."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Protocol, runtime_checkable

from zoo.base.errors import ZooError, shorten_list
from zoo.base.languages import Language
from zoo.base.talks import Talk
from zoo.base.types import Instance

UNIT_ERROR = 100.0  # a stream is shorter or longer by this factor only if a unit is wrong
SHOWN = 5  # maximum number of names in a message


@runtime_checkable
class InstanceSource(Protocol):
    """A source of recorded streams, such as ``zoo.systems.replay.Replay``.

    Attributes:
        name: name of the row in ``results.json``.
        source_language: language of the talks.
        target_language: language of the translations.
    """

    name: str
    source_language: Language
    target_language: Language

    def instances(self) -> Iterator[Instance]:
        """Yield the streams. Raises ZooError for a log that cannot be read."""


def match_streams(
    source: InstanceSource, talks: Sequence[Talk], *, all_streams: bool
) -> tuple[list[Instance], list[Talk]]:
    """Find the stream of each talk.

    Args:
        source: recorded streams.
        talks: talks with references.
        all_streams: whether every stream must have a talk. If False, a stream without a talk is
            skipped.

    Returns:
        One stream per talk, in the order of the talks, and the talks. A talk without audio is at
        least as long as its stream.

    Raises:
        ZooError: a talk without stream, a stream without talk, two streams of one talk, or a stream
            whose times have another unit than the segments.
    """
    streams: dict[str, Instance] = {}
    for instance in source.instances():
        if instance.talk in streams:
            raise ZooError(
                f"The log of {source.name!r} has talk {instance.talk!r} twice; "
                "do two runs share one log?"
            )
        streams[instance.talk] = instance

    names = [talk.name for talk in talks]
    for name in names:
        if name not in streams:
            raise ZooError(
                f"The log of {source.name!r} has no talk {name!r}; "
                f"it has: {shorten_list(streams, SHOWN)}."
            )
    if all_streams:
        known = set(names)
        for name in streams:
            if name not in known:
                available = shorten_list(names, SHOWN)
                raise ZooError(
                    f"Talk {name!r} of {source.name!r} has no reference; "
                    f"the talks with references are: {available}."
                )

    found = [streams[name] for name in names]
    for talk, instance in zip(talks, found, strict=True):
        end = max((one.offset + one.duration for one in talk.segments), default=talk.duration)
        if not end / UNIT_ERROR < instance.source_length < end * UNIT_ERROR:
            raise ZooError(
                f"The stream of talk {talk.name!r} in the log of {source.name!r} lasts "
                f"{instance.source_length:g} s, but its segments end at {end:g} s; are the times "
                "of one of them in another unit?"
            )
    return found, [
        _with_duration(talk, instance) for talk, instance in zip(talks, found, strict=True)
    ]


def flag_missing(source: InstanceSource) -> tuple[str, ...]:
    """Flag a log that lacks streams: its indices, which count from 0, have gaps."""
    present = sorted(instance.index for instance in source.instances())
    gaps: list[str] = []
    for before, after in pairwise([-1, *present]):
        if after == before + 2:
            gaps.append(f"{before + 1}")
        elif after > before + 2:
            gaps.append(f"{before + 1} to {after - 1}")
    return (f"the log lacks the streams of index {shorten_list(gaps, SHOWN)}",) if gaps else ()


def _with_duration(talk: Talk, instance: Instance) -> Talk:
    """Return a talk that is at least as long as its stream; a talk with audio keeps its length."""
    if talk.audio is not None:
        return talk
    return replace(talk, duration=max(talk.duration, instance.source_length))
