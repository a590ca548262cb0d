"""Segment lists with reference texts.

A YAML list names the segments; a text file has one line per segment.
MuST-C, FBK's StreamLAAL, mWERSegmenter and OmniSTEval use this layout.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path

import yaml

from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import Loader, bounded_number, check_depth
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target
from zoo.base.types import Seconds
from zoo.formats.segment_order import in_order
from zoo.formats.text import read_lines, read_text, recording_names

# The two halves of a character beyond U+FFFF, as JSON escapes it and as earlier versions wrote it,
# after escaped backslashes.
PAIR = re.compile(r"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB][\dA-Fa-f]{2}\\u[dD][c-fC-F][\dA-Fa-f]{2})")


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
        f"- {{wav: {wav}, offset: {segment.offset!r}, duration: {segment.duration!r}}}\n"
        for talk in talks
        for wav in [_quote(f"{talk.name}.wav")]
        for segment in talk.segments
    ]
    write_text(path, "".join(lines))


def _quote(name: str) -> str:
    """Return a text as YAML; a pair of escapes for one character, as in JSON, is no YAML."""
    return yaml.safe_dump(name, default_style='"', width=inf).strip()


def read_references(
    segments: Path, texts: Path, *, target: str, sources: Path | None = None
) -> dict[str, tuple[Segment, ...]]:
    """Segments of every recording with their reference translations.

    Args:
        segments: YAML list with ``offset`` and ``duration`` (seconds) and ``wav`` of each segment.
        texts: file with the reference of segment i on line i.
        target: code of the references' language.
        sources: file with the source text of segment i on line i; None: source texts are empty.

    Returns:
        Segments by recording name, recordings in the order of the list and segments in order of
        time.

    Raises:
        ZooError: a missing file, content of another shape, invalid times, a segment that lies in
            another one, or unequal counts.
    """
    talks: dict[str, list[tuple[Segment, str]]] = {}
    spans = read_spans(segments)
    lines = read_texts(texts, spans, segments)
    source_lines = [""] * len(spans) if sources is None else read_texts(sources, spans, segments)
    names = recording_names([span.wav for span in spans])
    for name, span, text, source in zip(names, spans, lines, source_lines, strict=True):
        segment = Segment(span.offset, span.duration, source, targets={target: Target(text)})
        talks.setdefault(name, []).append((segment, f"{segments}, line {span.line}"))
    return {name: in_order(listed, segments) for name, listed in talks.items()}


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
    entries = _entries(path)
    if not entries:
        raise ZooError(f"{path} is not a list of segments with offset, duration and wav.")
    for fields, line in entries:
        if not all(fields.get(key) for key in ("offset", "duration", "wav")):
            raise ZooError(
                f"{path} is not a list of segments with offset, duration and wav (line {line})."
            )
    return [
        _span(path, number, fields, line) for number, (fields, line) in enumerate(entries, start=1)
    ]


def _entries(path: Path) -> list[tuple[dict[str, str], int]]:
    """Return the items of a YAML list, each with its line; none if it is no list.

    Fields are texts as they are written: the recording 0012 is not the number 10.
    """
    text = PAIR.sub(_joined, read_text(path))
    try:
        check_depth(text)
        node = yaml.compose(text, Loader=Loader)
        items = node.value if isinstance(node, yaml.SequenceNode) else []
        return [(_fields(item), item.start_mark.line + 1) for item in items]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}," if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split()) or "unreadable"
        raise ZooError(f"{path}{where} is not YAML ({problem}).") from error


def _joined(pair: re.Match[str]) -> str:
    """Return one escape for the two halves of a character."""
    character = json.loads(f'"{pair[2]}"')
    return f"{pair[1]}\\U{ord(character):08X}"


def _fields(node: yaml.Node) -> dict[str, str]:
    """Return the fields of a mapping that have plain values. Raises YAMLError for equal keys."""
    if not isinstance(node, yaml.MappingNode):
        return {}
    fields: dict[str, str] = {}
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode):
            if key.value in fields:
                raise yaml.constructor.ConstructorError(
                    None, None, "two keys of a mapping are equal", key.start_mark
                )
            fields[key.value] = value.value
    return fields


def _span(path: Path, number: int, fields: dict[str, str], line: int) -> Span:
    offset, duration = _seconds(fields["offset"]), _seconds(fields["duration"])
    if not (0 <= offset < inf and 0 < duration < inf):
        raise ZooError(
            f"{path}, line {line}: segment {number} has offset {fields['offset']:.60} and "
            f"duration {fields['duration']:.60}; they must be seconds, at least 0 and above 0."
        )
    return Span(fields["wav"], offset, duration, fields.get("speaker_id", ""), line)


def _seconds(value: str) -> Seconds:
    """Return a number of seconds; NaN for a text that is none."""
    try:
        return bounded_number(value)
    except ValueError:
        return nan
