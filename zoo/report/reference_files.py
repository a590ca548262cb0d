"""Reads the reference files that go with recorded logs: a segment YAML and one sentence per line. Knows no metric."""

from math import inf, nan
from pathlib import Path
from typing import Any

import yaml

from zoo.errors import ZooError
from zoo.metrics.references import ReferenceSegment
from zoo.types import Seconds

AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".mp4")


def read_references(segments: Path, texts: Path) -> dict[str, list[ReferenceSegment]]:
    """Reference segments by talk. The YAML lists offset, duration (seconds) and wav; line i belongs to entry i.

    Raises ZooError for a missing file, another shape, times that are none or unequal counts.
    """
    spans = _spans(segments)
    lines = read_lines(texts)
    if len(lines) != len(spans):
        raise ZooError(f"{segments} has {len(spans)} segments but {texts} has {len(lines)} lines.")
    talks: dict[str, list[ReferenceSegment]] = {}
    for (talk, offset, duration), line in zip(spans, lines, strict=True):
        talks.setdefault(talk, []).append(ReferenceSegment(offset, duration, line))
    return talks


def read_lines(path: Path) -> list[str]:
    """The lines of a text file without outer white space. Raises ZooError for a missing file or no text."""
    return [line.strip() for line in _text(path).removesuffix("\n").split("\n")]


def _spans(path: Path) -> list[tuple[str, Seconds, Seconds]]:
    """Talk, offset and duration of each segment."""
    try:
        entries = yaml.load(_text(path), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        where = f", line {place.line + 1}," if place else ""
        raise ZooError(
            f"{path}{where} is not YAML ({getattr(error, 'problem', None) or 'unreadable'})."
        ) from error
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and {"offset", "duration", "wav"} <= set(entry) for entry in entries
    ):
        raise ZooError(f"{path} is not a list of segments with offset, duration and wav.")
    return [
        (recording_name(str(entry["wav"])), *_span(path, number, entry))
        for number, entry in enumerate(entries, 1)
    ]


def _span(path: Path, number: int, entry: dict[str, Any]) -> tuple[Seconds, Seconds]:
    try:
        offset, duration = float(entry["offset"]), float(entry["duration"])
    except (TypeError, ValueError):
        offset = duration = nan
    if not (0 <= offset < inf and 0 < duration < inf):
        raise ZooError(
            f"{path}: segment {number} has offset {entry['offset']!r} and duration {entry['duration']!r}; "
            "they must be seconds, from 0 and above 0."
        )
    return offset, duration


def _text(path: Path) -> str:
    if not path.is_file():
        raise ZooError(f"There is no file {path}.")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ZooError(f"{path} is not a text file in UTF-8.") from error


def recording_name(path: str) -> str:
    """``a/2022.acl-long.110.wav`` -> ``2022.acl-long.110``: no folder, no audio suffix, any other dot stays."""
    base = Path(path).name
    return base.rpartition(".")[0] if base.lower().endswith(AUDIO_SUFFIXES) else base
