"""Segment lists with reference texts.

A YAML list names the segments; a text file has one line per segment.
MuST-C, FBK's StreamLAAL, mWERSegmenter and OmniSTEval use this layout.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from typing import Any

import yaml

from zoo.disk.files import write_text
from zoo.disk.parsing import bounded_number, parse_yaml_list
from zoo.errors import ZooError, shorten
from zoo.formats.text import read_lines, read_text, recording_name
from zoo.talks import Segment, Talk, Target
from zoo.types import Seconds


@dataclass(frozen=True, slots=True)
class Span:
    """One entry of the YAML list.

    Attributes:
        wav: audio file as written in the list.
        offset: seconds from the start of the recording.
        duration: seconds.
        speaker: speaker id, or "".
        line: line of the YAML file on which the entry begins.
    """

    wav: str
    offset: Seconds
    duration: Seconds
    speaker: str
    line: int


def write_spans(path: Path, talks: Sequence[Talk]) -> None:
    """Write the YAML list of the reference segments of talks, as ``read_spans`` reads it."""
    lines = [
        f"- {{wav: {json.dumps(f'{talk.name}.wav')}, offset: {segment.offset!r}, "
        f"duration: {segment.duration!r}}}\n"
        for talk in talks
        for segment in talk.segments
    ]
    write_text(path, "".join(lines))


def read_references(
    segments: Path, texts: Path, *, target: str, sources: Path | None = None
) -> dict[str, list[Segment]]:
    """Segments of every recording with their reference translations.

    Args:
        segments: YAML list with ``offset`` and ``duration`` (seconds) and ``wav`` of each segment.
        texts: file with the reference of segment i on line i.
        target: code of the references' language.
        sources: file with the source text of segment i on line i; None: source texts are empty.

    Returns:
        Segments by recording name, in the order of the list.

    Raises:
        ZooError: a missing file, content of another shape, invalid times, a blank reference, or
            unequal counts.
    """
    talks: dict[str, list[Segment]] = {}
    spans = read_spans(segments)
    lines = read_texts(texts, spans, segments)
    source_lines = [""] * len(spans) if sources is None else read_texts(sources, spans, segments)
    rows = zip(spans, lines, source_lines, strict=True)
    for number, (span, text, source) in enumerate(rows, start=1):
        if not text:
            raise ZooError(f"{texts}, line {number}, is blank; each segment needs a reference.")
        segment = Segment(span.offset, span.duration, source, targets={target: Target(text)})
        talks.setdefault(recording_name(span.wav), []).append(segment)
    return talks


def read_texts(path: Path, spans: list[Span], segments: Path) -> list[str]:
    """Read a text file with one line per span.

    Args:
        path: the text file.
        spans: entries of ``segments``.
        segments: file of the spans, for error messages.

    Returns:
        The lines.

    Raises:
        ZooError: the file is unreadable, or the number of lines differs from the number of spans.
    """
    lines = read_lines(path)
    if len(lines) != len(spans):
        first = min(len(lines), len(spans)) + 1
        raise ZooError(
            f"{segments} has {len(spans)} segments but {path} has {len(lines)} lines; "
            f"number {first} is in one of them only."
        )
    return lines


def read_spans(path: Path) -> list[Span]:
    """Entries of the YAML list.

    Raises ZooError for another shape and for times that are not valid.
    """
    entries, lines = _entries(path)
    if not isinstance(entries, list) or not entries:
        raise ZooError(f"{path} is not a list of segments with offset, duration and wav.")
    for entry, line in zip(entries, lines, strict=True):
        if not isinstance(entry, dict) or not {"offset", "duration", "wav"} <= set(entry):
            raise ZooError(
                f"{path} is not a list of segments with offset, duration and wav (line {line})."
            )
    return [
        _span(path, number, entry, line)
        for number, (entry, line) in enumerate(zip(entries, lines, strict=True), 1)
    ]


def _entries(path: Path) -> tuple[Any, list[int]]:
    """Return the content of a YAML file, and the line of each item if it is a list."""
    text = read_text(path)
    try:
        return parse_yaml_list(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}," if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split()) or "unreadable"
        raise ZooError(f"{path}{where} is not YAML ({problem}).") from error


def _span(path: Path, index: int, entry: dict[str, Any], line: int) -> Span:
    offset, duration = _seconds(entry["offset"]), _seconds(entry["duration"])
    if not (0 <= offset < inf and 0 < duration < inf):
        actual = [shorten(repr(entry[key])) for key in ("offset", "duration")]
        raise ZooError(
            f"{path}, line {line}: segment {index} has offset {actual[0]} and duration "
            f"{actual[1]}; they must be seconds, at least 0 and above 0."
        )
    return Span(str(entry["wav"]), offset, duration, str(entry.get("speaker_id", "")), line)


def _seconds(value: object) -> Seconds:
    """Return a number of seconds; NaN for a value that is none."""
    try:
        return bounded_number(value)
    except ValueError:
        return nan
