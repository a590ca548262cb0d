"""Reads the log of a translation run in any known format as instances, one per stream."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from zoo.base.errors import ZooError, check_choice
from zoo.base.languages import Language
from zoo.base.talks import Segment, Target
from zoo.base.types import Instance
from zoo.formats import omnisteval, simuleval, simulstream, streamuni
from zoo.formats.checks import check_log
from zoo.formats.pieces import PieceForm
from zoo.formats.text import Line, read_list, read_records

LogFormat = Literal["simuleval", "omnisteval", "simulstream", "streamuni"]
Reader = Callable[[Sequence[Line], Path, Language], list[Instance]]

READERS: dict[str, Reader] = {
    "simuleval": simuleval.instances,
    "omnisteval": omnisteval.instances,
    "simulstream": simulstream.instances,
    "streamuni": streamuni.instances,
}


def read_log(
    path: Path,
    *,
    language: Language,
    format: LogFormat = "simuleval",
    pieces: PieceForm | None = None,
) -> list[Instance]:
    """Read a log.

    Args:
        path: JSON lines with times in milliseconds (simulstream: seconds); streamuni: a JSON list.
        language: target language; its unit (word or character) is what has a delay.
        format: tool that wrote the log.
        pieces: form of the tokens of a simulstream log; None: it is recognised.

    Returns:
        One instance per stream with times in seconds, ordered by index; in the order of the file if
        logs whose indices start again were joined.

    Raises:
        ZooError: unknown format, missing or damaged file, two streams of one index and one talk, a
            stream whose fields contradict each other (the message names its talk), or times in
            another unit.
    """
    check_choice("log format", format, READERS)
    records = read_list(path) if format == "streamuni" else read_records(path)
    if format == "simulstream":
        instances = simulstream.instances(records, path, language, pieces)
    elif pieces is not None:
        raise ZooError(f"system.pieces={pieces} is for logs of simulstream; {format} has texts.")
    else:
        instances = READERS[format](records, path, language)

    check_log([one for one in instances if not one.repaired], path)
    return _in_order(instances, path)


def _in_order(instances: Sequence[Instance], path: Path) -> list[Instance]:
    """Return streams by index; joined logs of different talks are numbered as they are joined.

    Raises ZooError for two streams of one index and one talk.
    """
    seen: set[tuple[int, str]] = set()
    for instance in instances:
        stream = instance.index, instance.talk
        if stream in seen:
            raise ZooError(
                f"{path} has index {instance.index} twice: two runs were written to one log."
            )
        seen.add(stream)
    if len({instance.index for instance in instances}) < len(instances):
        return [replace(instance, index=index) for index, instance in enumerate(instances)]
    return sorted(instances, key=lambda instance: instance.index)


def read_segments(
    path: Path, *, language: Language, format: LogFormat = "simuleval"
) -> list[tuple[str, list[Segment]]]:
    """Read the references of a log: the name and the reference segments of each stream.

    A stream of a log without segments is one segment.

    Args:
        path: as ``read_log``.
        language: target language.
        format: tool that wrote the log.

    Raises:
        ZooError: like ``read_log``, or a stream has no segments or damaged ones.
    """
    instances = read_log(path, language=language, format=format)
    if format == "streamuni":
        segments = streamuni.segments(read_list(path), path, language)
    else:
        targets = [{language.code: Target(one.reference)} for one in instances]
        segments = [
            [Segment(0.0, one.source_length, "", targets=target)]
            for one, target in zip(instances, targets, strict=True)
        ]
    return [(one.talk, each) for one, each in zip(instances, segments, strict=True)]
