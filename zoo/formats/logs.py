"""Reads the log of a translation run in any known format as instances, one per stream."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from zoo.errors import ZooError, check_choice
from zoo.formats import omnisteval, simuleval, simulstream
from zoo.formats.text import Line, read_records
from zoo.languages import Language
from zoo.types import Instance

LogFormat = Literal["simuleval", "omnisteval", "simulstream"]
Reader = Callable[[Sequence[Line], Path, Language], list[Instance]]

READERS: dict[str, Reader] = {
    "simuleval": simuleval.instances,
    "omnisteval": omnisteval.instances,
    "simulstream": simulstream.instances,
}


def read_log(path: Path, *, language: Language, format: LogFormat = "simuleval") -> list[Instance]:
    """Read a log.

    Args:
        path: JSON lines; times in milliseconds (simulstream: seconds).
        language: target language; its unit (word or character) is what has a delay.
        format: tool that wrote the log.

    Returns:
        One instance per stream with times in seconds, ordered by index.

    Raises:
        ZooError: unknown format, missing or damaged file, two streams of one index, or a stream
            whose fields contradict each other (the message names its talk).
    """
    check_choice("log format", format, READERS)
    records = read_records(path)
    instances = READERS[format](records, path, language)

    seen: set[int] = set()
    for instance in instances:
        if instance.index in seen:
            raise ZooError(
                f"{path} has index {instance.index} twice: two runs were written to one log."
            )
        seen.add(instance.index)
    return sorted(instances, key=lambda instance: instance.index)
