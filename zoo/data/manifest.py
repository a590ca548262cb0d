"""Manifests: talks as JSON lines, one talk per line, audio paths relative to the file.

``aligned.schema.json`` beside this file describes the fields; all of them are checked on reading.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import MALFORMED, parse_json, texts_in
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data.manifest_checks import check_talk
from zoo.formats.text import unwritable

VERSION = 1  # version of the format


def write(path: Path, talks: Iterable[Talk]) -> None:
    """Write a manifest; a reader finds the old file or the complete new file."""
    write_text(path, "".join(f"{encode(talk, folder=path.parent)}\n" for talk in talks))


def read(path: Path, *, limit: int | None = None) -> list[Talk]:
    """Read a manifest.

    Args:
        path: JSON lines file.
        limit: number of talks from the start of the file; None: all. No other line is read.

    Raises:
        ZooError: the file is missing, damaged or of another version, a talk has a wrong field or
            the name of an earlier talk, or ``limit`` is below 1.
    """
    if not path.is_file():
        raise ZooError(
            f"Manifest {path} does not exist; it must be a JSON lines file written by "
            "zoo.data.manifest."
        )
    if limit is not None and limit < 1:
        raise ZooError(f"A corpus needs at least 1 talk, not {limit}.")
    talks: dict[str, Talk] = {}
    with path.open("rb") as file:
        for number, line in enumerate(islice(file, limit), start=1):
            talk = decode_line(line, path=path, number=number)
            if talk.name in talks:
                raise ZooError(
                    f"Manifest {path} cannot be read at line {number}: an earlier talk has the "
                    f"name {talk.name!r}, too."
                )
            talks[talk.name] = talk
    return list(talks.values())


def decode_line(line: bytes, *, path: Path, number: int) -> Talk:
    """Return the talk of line ``number`` of the manifest ``path``.

    Raises:
        ZooError: the line is damaged or of another version, or the talk has a wrong field.
    """
    try:
        return decode(line.decode(), folder=path.parent)
    except (RecursionError, *MALFORMED) as error:
        reason = f"no field {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise ZooError(f"Manifest {path} cannot be read at line {number}: {reason}.") from error


def encode(talk: Talk, *, folder: Path) -> str:
    """Return a talk as one line without its end; the audio path is relative to ``folder``."""
    return json.dumps(
        {
            "version": VERSION,
            "name": talk.name,
            "audio": None if talk.audio is None else _relative(talk.audio, folder),
            "offset": talk.offset,
            "duration": talk.duration,
            "source_language": talk.source_language,
            "voice": talk.voice,
            "segments": [_segment(segment) for segment in talk.segments],
            "labels": {name: _words(words) for name, words in talk.labels.items()},
        },
        ensure_ascii=False,
    )


def decode(line: str, *, folder: Path) -> Talk:
    """Return the talk of one line, as written by :func:`encode`.

    Raises ValueError, LookupError, TypeError, ArithmeticError or RecursionError for another format.
    """
    item = parse_json(line)
    if "\\u" in line:  # of json, whose texts may hold what no file in UTF-8 can
        for reason in filter(None, map(unwritable, texts_in(item))):
            raise ValueError(reason)
    if item["version"] != VERSION:
        raise ValueError(f"version {item['version']}, this program reads version {VERSION}")
    check_talk(item)
    segments = tuple(_read_segment(segment) for segment in item["segments"])
    return with_segments(item, segments, folder=folder)


def decode_segment(content: bytes) -> Segment:
    """Return a segment of a manifest that has been checked."""
    return _read_segment(json.loads(content))


def with_segments(item: Mapping[str, Any], segments: Sequence[Segment], *, folder: Path) -> Talk:
    """Return the talk of a line that has been checked, with other segments.

    Args:
        item: the line as a JSON object.
        segments: segments of the talk.
        folder: folder of the manifest.
    """
    return Talk(
        name=item["name"],
        audio=None if item["audio"] is None else Path(os.path.normpath(folder / item["audio"])),
        duration=item["duration"],
        source_language=item["source_language"],
        segments=segments,
        offset=item["offset"],
        voice=item["voice"],
        labels={name: _read_words(words) for name, words in item["labels"].items()},
    )


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def _words(words: Iterable[Word]) -> list[list[Any]]:
    return [[word.text, word.start, word.end] for word in words]


def _read_words(items: list[list[Any]]) -> tuple[Word, ...]:
    return tuple(Word(*item) for item in items)


def _segment(segment: Segment) -> dict[str, Any]:
    unusable = {} if segment.usable else {"usable": False}
    return {
        "offset": segment.offset,
        "duration": segment.duration,
        "source": segment.source,
        "words": _words(segment.words),
        "targets": {code: _target(target) for code, target in segment.targets.items()},
        **unusable,
    }


def _target(target: Target) -> dict[str, Any]:
    prefixes = {"prefixes": target.prefixes} if target.prefixes else {}
    original = {} if target.original is None else {"original": target.original}
    return {
        "text": target.text,
        "words": target.words,
        "alignment": target.alignment,
        "needs": target.needs,
        **prefixes,
        **original,
    }


def _read_segment(item: dict[str, Any]) -> Segment:
    targets = {
        code: Target(
            text=target["text"],
            words=tuple(target["words"]),
            alignment=tuple(map(tuple, target["alignment"])),
            needs=tuple(map(tuple, target["needs"])),
            prefixes=tuple(target.get("prefixes", ())),  # only written if there are any
            original=target.get("original"),  # only written if there is one
        )
        for code, target in item["targets"].items()
    }
    return Segment(
        item["offset"],
        item["duration"],
        item["source"],
        _read_words(item["words"]),
        targets,
        usable=item.get("usable", True),  # only written for segments that are not
    )
