"""Index of a manifest: where the segments of its talks are, so that no training reads it whole.

The index is a folder beside the manifest, ``<split>.jsonl.index``, or in the cache folder if that
one is not writable. The first process that needs it reads and checks the whole manifest once and
writes it; others wait. It is made again when the size of the manifest or the time of its inode
change: unlike the time of modification, no archive can set that one, so that an index that was
exchanged with its manifest is not used. It contains:

- ``index.json``: size and time of the manifest, counts, languages and the hash of the talks
- ``talks.jsonl``: name, audio and language of each talk; of a talk with segments that are not
  usable, each part between them is a talk (``zoo.data.views.usable_parts``)
- ``talks.bin`` and ``segments.bin``: the arrays of ``TALKS`` and ``SEGMENTS``
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from json import JSONDecoder
from pathlib import Path
from typing import IO, Any

import numpy as np

from zoo.base.disk.files import atomic_folder, write_text
from zoo.base.errors import ZooError
from zoo.base.progress import show_progress
from zoo.base.talks import Segment, Talk
from zoo.data import manifest
from zoo.data.cache import cache_root, lock_folder
from zoo.data.fingerprint import talk_hash
from zoo.data.views import Part, is_usable, part_of, parts

VERSION = 1
DESCRIPTION, NAMES = "index.json", "talks.jsonl"
ARRAYS = ("talks", "segments")
# Times are seconds; ``begin`` is what the times of a part are counted from, NaN for a whole talk.
TALKS = np.dtype([("name", "<i8"), ("segment", "<i8"), ("duration", "<f8"), ("begin", "<f8")])
# ``byte`` and ``bytes``: place of the segment in the manifest; ``start`` and ``end``: times of its
# first word, NaN without words. All times are those in the part.
SEGMENTS = np.dtype(
    [
        ("byte", "<i8"),
        ("bytes", "<i8"),
        ("offset", "<f8"),
        ("duration", "<f8"),
        ("start", "<f8"),
        ("end", "<f8"),
    ]
)
# Returns a talk whose segments that trainings leave out are marked as not usable.
MarkUnusable = Callable[[Talk], Talk]
decoder = JSONDecoder()
logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class IndexDescription:
    """Content of ``index.json``.

    Attributes:
        version: version of the format.
        unaligned: ``data.unaligned``, on which the parts depend.
        size: size of the manifest in bytes.
        changed: time of the last change of the manifest's inode in nanoseconds.
        seconds: duration of all talks, or parts.
        segments: number of segments in the manifest.
        left_out: number of segments that are not usable.
        sources: a talk by the code of each source language.
        targets: codes of the languages into which all usable segments are translated.
        content_hash: hash of all talks.
    """

    version: int = VERSION
    unaligned: str
    size: int
    changed: int
    seconds: float = 0.0
    segments: int = 0
    left_out: int = 0
    sources: dict[str, str] = field(default_factory=dict)
    targets: list[str] | None = None
    content_hash: str = ""


def find_index(
    path: Path, *, unaligned: str, mark_unusable: MarkUnusable
) -> tuple[Path, IndexDescription]:
    """Return the folder of the index of a manifest and its description; write a missing one.

    Args:
        path: the manifest.
        unaligned: ``data.unaligned``.
        mark_unusable: marks the segments of a talk that trainings leave out.

    Raises:
        ZooError: the manifest is damaged, or neither its folder nor the cache is writable.
    """
    folder = path.with_name(f"{path.name}.index")
    if not os.access(path.parent, os.W_OK):
        digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
        folder = cache_root() / f"index-{digest}" / folder.name
    facts = path.stat()
    fresh = IndexDescription(unaligned=unaligned, size=facts.st_size, changed=facts.st_ctime_ns)
    description = _read(folder, fresh)
    if description is None:
        with lock_folder(folder.parent):
            description = _read(folder, fresh)
            if description is None:
                with atomic_folder(folder) as unfinished:
                    _Writer(path, unfinished, fresh).write(mark_unusable)
                description = fresh
    return folder, description


def _read(folder: Path, fresh: IndexDescription) -> IndexDescription | None:
    """Return the description of an index, or None if it is absent, damaged or of another manifest.

    Args:
        folder: folder of the index.
        fresh: description with the current facts of the manifest.
    """
    try:
        description = IndexDescription(
            **json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        )
    except (OSError, ValueError, TypeError):
        return None
    keys = ("version", "unaligned", "size", "changed")
    same = all(getattr(description, key) == getattr(fresh, key) for key in keys)
    return (
        description if same and all((folder / f"{name}.bin").is_file() for name in ARRAYS) else None
    )


class _Writer:
    """Writes the index of a manifest in one pass, with a constant amount of memory.

    Args:
        path: the manifest.
        folder: empty folder of the index.
        found: description with the facts of the manifest, completed by ``write``.
    """

    def __init__(self, path: Path, folder: Path, description: IndexDescription) -> None:
        self._path = path
        self._folder = folder
        self._description = description
        self._digest = hashlib.sha256()
        self._rows = 0  # number of segments that are written

    def write(self, mark_unusable: MarkUnusable) -> None:
        """Write all files. Raises ZooError for a damaged manifest."""
        names: set[str] = set()
        line_start = 0  # first byte of the line
        with ExitStack() as stack:
            files = {
                name: stack.enter_context((self._folder / name).open("wb"))
                for name in (NAMES, *(f"{name}.bin" for name in ARRAYS))
            }
            lines = stack.enter_context(self._path.open("rb"))
            total = sum(1 for _ in lines)
            lines.seek(0)
            title = f"Indexing {self._path.name}"
            for number, line in enumerate(show_progress(lines, total=total, title=title), start=1):
                talk = manifest.decode_line(line, path=self._path, number=number)
                if talk.name in names:
                    raise ZooError(
                        f"Manifest {self._path} cannot be read at line {number}: an earlier talk "
                        f"has the name {talk.name!r}, too."
                    )
                names.add(talk.name)
                self._add(mark_unusable(talk), segment_bytes(line, line_start), files)
                line_start += len(line)
        self._description.content_hash = self._digest.hexdigest()
        write_text(self._folder / DESCRIPTION, json.dumps(asdict(self._description)))

    def _add(
        self, talk: Talk, byte_spans: list[tuple[int, int]], files: Mapping[str, IO[bytes]]
    ) -> None:
        """Write the rows of a talk."""
        description = self._description
        self._digest.update(talk_hash(talk).encode())
        description.segments += len(talk.segments)
        description.left_out += sum(not segment.usable for segment in talk.segments)
        description.sources.setdefault(talk.source_language, talk.name)
        if is_usable(talk):
            ranges = [(talk, Part(0, len(talk.segments), np.nan, talk.duration))]
        else:
            ranges = [(part_of(talk, part), part) for part in parts(talk)]

        for talk_part, part in ranges:
            if not talk_part.segments:
                continue
            for segment in talk_part.segments:
                codes = set(segment.targets)
                description.targets = sorted(
                    codes if description.targets is None else codes & set(description.targets)
                )
            description.seconds += talk_part.duration
            row = (files[NAMES].tell(), self._rows, talk_part.duration, part.begin)
            files["talks.bin"].write(np.array([row], dtype=TALKS).tobytes())
            files[NAMES].write(_name(talk_part, self._path.parent))
            rows = [
                (*byte_span, segment.offset, segment.duration, *_first_word(segment))
                for byte_span, segment in zip(
                    byte_spans[part.first : part.last], talk_part.segments, strict=True
                )
            ]
            files["segments.bin"].write(np.array(rows, dtype=SEGMENTS).tobytes())
            self._rows += len(rows)


def _name(talk: Talk, folder: Path) -> bytes:
    """Return the line of a talk in ``talks.jsonl``: a manifest's line without segments."""
    empty = Talk(
        talk.name,
        talk.audio,
        talk.duration,
        talk.source_language,
        (),
        offset=talk.offset,
        voice=talk.voice,
    )
    return f"{manifest.encode(empty, folder=folder)}\n".encode()


def _first_word(segment: Segment) -> tuple[float, float]:
    """Return start and end of the first word of a segment, NaN without words."""
    words = segment.words
    return (words[0].start, words[0].end) if words else (np.nan, np.nan)


def segment_bytes(line: bytes, start: int) -> list[tuple[int, int]]:
    """Return first byte and number of bytes of each segment in a line of a manifest.

    Args:
        line: a line that has been decoded without an error.
        start: byte of the line in the manifest.
    """
    text = line.decode()
    spans: list[tuple[int, int]] = []
    counted = 0  # characters of ``text`` that ``start`` counts
    for begin, end in _segment_spans(text):
        start += len(text[counted:begin].encode())
        size = len(text[begin:end].encode())
        spans.append((start, size))
        start, counted = start + size, end
    return spans


def _segment_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield first and last character of each element of ``segments`` in a JSON object."""
    position = _skip(text, text.index("{") + 1)
    while text[position] != "}":
        key, position = decoder.raw_decode(text, position)
        position = _skip(text, position)  # skip the colon
        if key != "segments":
            _, position = decoder.raw_decode(text, position)
        else:
            position = _skip(text, position + 1)  # skip the bracket
            while text[position] != "]":
                begin = position
                _, position = decoder.raw_decode(text, position)
                yield begin, position
                position = _skip(text, position)
            position += 1
        position = _skip(text, position)


def _skip(text: str, position: int) -> int:
    """Return the next place after white space, commas and colons between values."""
    while text[position] in " \t\r\n,:":
        position += 1
    return position


def array(folder: Path, name: str) -> np.ndarray[Any, Any]:
    """Return an array of an index, read from disk when it is used."""
    dtype = {"talks": TALKS, "segments": SEGMENTS}[name]
    path = folder / f"{name}.bin"
    if not path.stat().st_size:  # mmap refuses an empty file
        return np.zeros(0, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r")
