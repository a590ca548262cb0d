"""Manifests: talks as JSON lines, one talk per line, audio paths relative to the file."""

import json
import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from zoo.data.talks import Segment, Talk, Target, Word
from zoo.errors import ZooError
from zoo.files import write_text

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
        ZooError: the file is missing, damaged or of another version, or ``limit`` is below 1.
    """
    if not path.is_file():
        raise ZooError(
            f"Manifest {path} does not exist; it must be a JSON lines file written by "
            "zoo.data.manifest."
        )
    if limit is not None and limit < 1:
        raise ZooError(f"A corpus needs at least 1 talk, not {limit}.")
    talks = []
    with path.open("rb") as file:
        for number, line in enumerate(islice(file, limit), start=1):
            try:
                talks.append(decode(line.decode(), folder=path.parent))
            except (ValueError, KeyError, TypeError) as error:
                raise ZooError(
                    f"Manifest {path} cannot be read at line {number}: {error!r}."
                ) from error
    return talks


def encode(talk: Talk, *, folder: Path) -> str:
    """Return a talk as one line without its end; the audio path is relative to ``folder``."""
    return json.dumps(
        {
            "version": VERSION,
            "name": talk.name,
            "audio": Path(os.path.relpath(talk.file, folder)).as_posix(),
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

    Raises ValueError, KeyError or TypeError for another format.
    """
    item = json.loads(line)
    if item["version"] != VERSION:
        raise ValueError(f"version {item['version']}, this program reads version {VERSION}")
    return Talk(
        name=item["name"],
        audio=Path(os.path.normpath(folder / item["audio"])),
        duration=item["duration"],
        source_language=item["source_language"],
        segments=tuple(_read_segment(segment) for segment in item["segments"]),
        offset=item["offset"],
        voice=item["voice"],
        labels={name: _read_words(words) for name, words in item["labels"].items()},
    )


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
        "targets": {
            code: {
                "text": target.text,
                "words": target.words,
                "alignment": target.alignment,
                "needs": target.needs,
            }
            for code, target in segment.targets.items()
        },
        **unusable,
    }


def _read_segment(item: dict[str, Any]) -> Segment:
    targets = {
        code: Target(
            text=target["text"],
            words=tuple(target["words"]),
            alignment=tuple(map(tuple, target["alignment"])),
            needs=tuple(map(tuple, target["needs"])),
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
