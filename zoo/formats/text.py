"""Text files, JSON, recording names and milliseconds, as several formats have them."""

import json
import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from zoo.base.disk.parsing import parse_list, parse_object
from zoo.base.errors import ZooError
from zoo.base.types import Seconds

Record = dict[str, Any]  # one JSON object of a log


class Line(Record):
    """One JSON object of a log that was read.

    Attributes:
        line: Number of its line, or of its place in a list, from 1.
    """

    line: int = 0


AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".mp4")
SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)  # two of them are one character in JSON
GIT_LFS = "version https://git-lfs.github.com/spec/"  # beginning of a pointer to a file
LARGEST = 1_000_000_000  # bytes of a text file; a log of a whole test set has a tenth
LONGEST_LINE = 1_000_000  # characters; a talk of two hours has 0.1 million
MS = 1000.0  # milliseconds per second


def read_text(path: Path) -> str:
    """Content of a UTF-8 file, without a mark of the byte order; each line ends with a line feed.

    Raises ZooError for a missing file, for one that cannot be read, and for other content.
    """
    if not path.is_file():
        raise ZooError(f"There is no file {path}.")
    try:
        if path.stat().st_size > LARGEST:
            raise ZooError(f"{path} has more than {LARGEST // 1_000_000} MB, as no text has.")
        content = path.read_bytes()
    except OSError as error:
        raise ZooError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        text = content.decode("utf-8-sig")  # "utf-8-sig" removes a byte-order mark
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ZooError(f"{path} is not a text file in UTF-8 (line {line}).") from error
    if "\0" in text:  # ASCII text in UTF-16 has this character
        line = text[: text.index("\0")].count("\n") + 1
        raise ZooError(f"{path} is not a text file in UTF-8 (line {line} has a zero byte).")
    if text.startswith(GIT_LFS):
        raise ZooError(
            f"{path} is a pointer to a file that Git LFS keeps; fetch the file with git lfs pull."
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 file without leading and trailing white space.

    Raises ZooError like ``read_text``, and for a line that is no text of a segment or a talk.
    """
    lines = [line.strip() for line in read_text(path).removesuffix("\n").split("\n")]
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_LINE:
            raise ZooError(
                f"{path}, line {number}, has {len(line)} characters; write a segment or a talk on "
                f"each line, of at most {LONGEST_LINE} characters."
            )
    return lines


def read_records(path: Path) -> list[Line]:
    """JSON objects of a log, one per line; blank lines are skipped.

    Raises ZooError for a missing or empty file and for a line that is not a JSON object.
    """
    records: list[Line] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        content = parse_object(line, where)
        records.append(_line(content, number, where, escaped=SURROGATE.search(line) is not None))
    return _not_empty(records, path)


def read_list(path: Path) -> list[Line]:
    """JSON objects of a file that is one list of them.

    Raises ZooError for a missing or empty file and list, and for other content.
    """
    text = read_text(path)
    escaped = SURROGATE.search(text) is not None
    records = [
        _line(content, number, f"{path}, item {number}", escaped=escaped)
        for number, content in enumerate(parse_list(text, str(path)), start=1)
    ]
    return _not_empty(records, path)


def _line(content: Record, number: int, where: str, *, escaped: bool) -> Line:
    """Return a JSON object with its number.

    Args:
        content: The object.
        number: Number of its line or of its place in a list.
        where: File and place, for the message.
        escaped: Whether the text may have an escape of half a character, which is refused.
    """
    if escaped:
        _check_characters(content, where)
    record = Line(content)
    record.line = number
    return record


def _not_empty(records: list[Line], path: Path) -> list[Line]:
    """Return the objects of a file. Raises ZooError if there is none."""
    if not records:
        raise ZooError(f"{path} is empty.")
    return records


def _check_characters(content: Record, where: str) -> None:
    """Raise ZooError for an escape of half a character, which no file in UTF-8 can hold."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"{error.object[error.start]!a}"
        raise ZooError(f"{where}, has half of a character ({half}).") from error


def unwritable(text: str) -> str:
    """Return why no file in UTF-8 can hold a text, or C libraries end it early; empty if not.

    JSON and tables can hold half of a character and a zero byte.
    """
    if "\0" in text:
        return "a text with a zero byte"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"a text with half of a character ({error.object[error.start]!a})"
    return ""


def check_can_be_written(where: str, *texts: str | None) -> None:
    """Raise ZooError for a text that is ``unwritable``.

    Args:
        where: file and place, for the message.
        texts: texts of a segment; None for one that it lacks.
    """
    if reason := next(filter(None, map(unwritable, filter(None, texts))), ""):
        raise ZooError(f"{where} has {reason}.")


def json_lines(records: Iterable[Record]) -> str:
    """Text of a file with one JSON object per line."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def recording_name(path: str) -> str:
    """``a/2022.acl-long.110.wav`` -> ``2022.acl-long.110``: without folder and audio suffix."""
    base = Path(path).name
    return base.rpartition(".")[0] if base.lower().endswith(AUDIO_SUFFIXES) else base


def recording_names(paths: Sequence[str]) -> list[str]:
    """Names of recordings, which differ if the files differ.

    Files of one name have the names of their folders before it, as far as these are needed:
    ``a/x/1.wav`` and ``b/x/1.wav`` -> ``a-x-1`` and ``b-x-1``. A path without folder names the file
    in any folder.
    """
    files = [Path(os.path.normpath(path)) if path else Path() for path in paths]
    names = [recording_name(path) for path in paths]
    of_name: dict[str, set[Path]] = {}
    for name, file in zip(names, files, strict=True):
        of_name.setdefault(name, set()).add(file)
    longer: dict[Path, str] = {}
    for others in of_name.values():
        if len(others) > 1 and all(len(file.parts) > 1 for file in others):
            longer |= _names_with_folders(others)
    return [longer.get(file, name) for name, file in zip(names, files, strict=True)]


def _names_with_folders(files: Collection[Path]) -> dict[Path, str]:
    """Names of several files of one name."""
    length = 2
    while len({file.parts[-length:] for file in files}) < len(files):
        length += 1
    return {
        file: recording_name("-".join(part.strip("/") for part in file.parts[-length:]).strip("-"))
        for file in files
    }


def milliseconds(times: Iterable[Seconds]) -> list[float]:
    """Seconds as milliseconds with six decimals."""
    return [round(time * MS, 6) for time in times]
