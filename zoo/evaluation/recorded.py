"""Recorded streams and the talks they translate, by name. Nothing is computed and no audio is read."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from zoo.data.talks import Talk
from zoo.errors import ZooError, shorten_list
from zoo.languages import Language
from zoo.types import Instance

SHOWN = 5  # names in a message


class InstanceSource(Protocol):
    """Streams that are there already, such as ``zoo.systems.replay.Replay``. name: as in ``results.json``."""

    name: str
    source_language: Language
    target_language: Language

    def instances(self) -> Iterator[Instance]:
        """The streams. Raises ZooError."""


def matched(
    source: InstanceSource, talks: Sequence[Talk], *, all_streams: bool
) -> tuple[list[Instance], list[Talk]]:
    """The stream of each talk, in the order of the talks; a talk without audio lasts as long as its stream says.

    all_streams: each stream must have its talk, else other streams are left out. Raises ZooError for a talk without
    stream, a stream without talk and a talk that comes twice.
    """
    streams: dict[str, Instance] = {}
    for instance in source.instances():
        if instance.talk in streams:
            raise ZooError(
                f"The log of {source.name!r} has talk {instance.talk!r} twice; do two runs share one log?"
            )
        streams[instance.talk] = instance
    names = [talk.name for talk in talks]
    for name in names:
        if name not in streams:
            raise ZooError(
                f"The log of {source.name!r} has no talk {name!r}; it has: {shorten_list(streams, SHOWN)}."
            )
    for name in streams if all_streams else ():
        if name not in names:
            known = shorten_list(names, SHOWN)
            raise ZooError(
                f"Talk {name!r} of {source.name!r} has no reference; there are some for: {known}."
            )
    found = [streams[name] for name in names]
    return found, [_as_long(talk, instance) for talk, instance in zip(talks, found, strict=True)]


def _as_long(talk: Talk, instance: Instance) -> Talk:
    if talk.audio is not None:
        return talk
    return replace(talk, duration=max(talk.duration, instance.source_length))
