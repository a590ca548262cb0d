"""Reads segment lists with reference texts.

A YAML list names the segments; a text file has one line per segment.
MuST-C, FBK's StreamLAAL, mWERSegmenter and OmniSTEval use this layout.
"""

from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from typing import Any

import yaml

from zoo.data.talks import Segment, Target
from zoo.errors import ZooError
from zoo.formats.text import read_lines, read_text, recording_name
from zoo.types import Seconds

_Loader = getattr(
    yaml, "CSafeLoader", yaml.SafeLoader
)  # ten times faster where libyaml is built in


@dataclass(frozen=True, slots=True)
class Span:
    """One entry of the YAML list.

    Attributes:
        wav: audio file as written in the list.
        offset: seconds from the start of the recording.
        duration: seconds.
        speaker: speaker id, or "".
    """

    wav: str
    offset: Seconds
    duration: Seconds
    speaker: str


def read_references(segments: Path, texts: Path, *, target: str) -> dict[str, list[Segment]]:
    """Segments of every recording with their reference translations.

    Args:
        segments: YAML list with ``offset`` and ``duration`` (seconds) and ``wav`` of each segment.
        texts: file with the reference of segment i on line i.
        target: code of the references' language.

    Returns:
        Segments by recording name, in the order of the list; their source text is empty.

    Raises:
        ZooError: a missing file, content of another shape, invalid times, a blank reference, or
            unequal counts.
    """
    talks: dict[str, list[Segment]] = {}
    spans = read_spans(segments)
    lines = read_texts(texts, spans, segments)
    for number, (span, text) in enumerate(zip(spans, lines, strict=True), start=1):
        if not text:
            raise ZooError(f"{texts}, line {number}, is blank; each segment needs a reference.")
        segment = Segment(span.offset, span.duration, source="", targets={target: Target(text)})
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
        raise ZooError(f"{segments} has {len(spans)} segments but {path} has {len(lines)} lines.")
    return lines


def read_spans(path: Path) -> list[Span]:
    """Entries of the YAML list.

    Raises ZooError for another shape and for times that are not valid.
    """
    try:
        entries = yaml.load(read_text(path), Loader=_Loader)
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        where = f", line {place.line + 1}," if place else ""
        problem = getattr(error, "problem", None) or "unreadable"
        raise ZooError(f"{path}{where} is not YAML ({problem}).") from error
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and {"offset", "duration", "wav"} <= set(entry) for entry in entries
    ):
        raise ZooError(f"{path} is not a list of segments with offset, duration and wav.")
    return [_span(path, number, entry) for number, entry in enumerate(entries, 1)]


def _span(path: Path, number: int, entry: dict[str, Any]) -> Span:
    try:
        offset, duration = float(entry["offset"]), float(entry["duration"])
    except (TypeError, ValueError):
        offset = duration = nan
    if not (0 <= offset < inf and 0 < duration < inf):
        raise ZooError(
            f"{path}: segment {number} has offset {entry['offset']!r} and duration "
            f"{entry['duration']!r}; they must be seconds, at least 0 and above 0."
        )
    return Span(str(entry["wav"]), offset, duration, str(entry.get("speaker_id", "")))
