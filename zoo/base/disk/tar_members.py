"""Files in uncompressed tar archives, read at their place in the archive, without unpacking.

The path of such a file is that of the archive with the name of the member after it, as if the
archive were a folder: ``audio/train-000000.tar/talk.wav``. Training data in object storage is kept
in archives of a gigabyte, because millions of small files are slow there.
"""

import io
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from zoo.base.disk.parsing import MALFORMED, read_json
from zoo.base.errors import ZooError

SUFFIX = ".tar"
# Errors of Python's reader for headers of any content, such as a chain of thousands of headers.
DAMAGES = (tarfile.TarError, OSError, ValueError, ArithmeticError, RecursionError)
# Suffix of the file with the size of the archive and the offsets of its members.
INDEX = ".index.json"


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive.

    Attributes:
        archive: path of the archive.
        offset: place of its first byte in the archive.
        size: number of its bytes.
    """

    archive: Path
    offset: int
    size: int

    def open(self) -> io.BufferedReader:
        """Open the file for reading."""
        return io.BufferedReader(_Window(self))


def archive_of(path: Path) -> Path | None:
    """Return the archive that a path lies in; None for a path outside of archives."""
    for parent in path.parents:
        if parent.suffix == SUFFIX and parent.is_file():
            return parent
    return None


def stored_in(path: Path) -> Path:
    """Return the file on the disk that a path names: its archive, or the path itself."""
    return archive_of(path) or path


def last_change(path: Path) -> int:
    """Return the time in nanoseconds at which the stored file was changed; 0 if there is none."""
    stored = stored_in(path)
    return stored.stat().st_mtime_ns if stored.is_file() else 0


def size_of(path: Path) -> int:
    """Return the bytes of a file or a member. Raises ZooError for a damaged archive."""
    member = member_of(path)
    return path.stat().st_size if member is None else member.size


def open_stored(path: Path) -> io.BufferedReader:
    """Open a file or a member for reading. Raises ZooError for a damaged archive."""
    member = member_of(path)
    return path.open("rb") if member is None else member.open()


def member_of(path: Path) -> Member | None:
    """Return the member of an archive that a path names; None for a path outside of archives.

    Raises:
        ZooError: the archive is damaged, or has no such member.
    """
    archive = archive_of(path)
    if archive is None:
        return None
    name = path.relative_to(archive).as_posix()
    facts = archive.stat()
    span = _members(archive, facts.st_size, facts.st_mtime_ns).get(name)
    if span is None:
        raise ZooError(f"Archive {archive} has no file {name}.")
    return Member(archive, *span)


def index_path(archive: Path) -> Path:
    """Return the path of the index of an archive."""
    return archive.with_name(archive.name + INDEX)


def scan_headers(archive: Path) -> dict[str, tuple[int, int]]:
    """Return offset and size of the members of an archive by name, from its headers.

    Links, folders and devices are no members: nothing outside of the archive is read.

    Raises:
        ZooError: the archive is damaged or compressed, or a member of it is sparse.
    """
    try:
        with tarfile.open(archive, "r:") as file:
            members = dict(_spans(file))
    except DAMAGES as error:
        raise ZooError(f"Archive {archive} is damaged or compressed ({error}).") from error
    size = archive.stat().st_size
    for name, span in members.items():
        if not _lies_within(span, size):
            raise ZooError(f"Archive {archive} is truncated: it ends within {name}.")
    return members


def _spans(file: tarfile.TarFile) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield name, offset and size of each member. Raises ValueError for one that cannot be read."""
    last = -1
    for member in file:
        if member.offset <= last or member.size < 0:  # else, reading would not end
            raise ValueError(f"{member.name} has a negative size")
        last = member.offset
        if member.issparse():
            raise ValueError(f"{member.name} is sparse; write the archive without --sparse")
        if member.isfile():
            yield member.name, (member.offset_data, member.size)


def _lies_within(span: tuple[object, object], size: int) -> bool:
    """Return whether a span is an offset and a length in a file of ``size`` bytes."""
    offset, length = span
    if type(offset) is not int or type(length) is not int:
        return False
    return min(offset, length) >= 0 and offset + length <= size


@lru_cache(maxsize=64)
def _members(archive: Path, size: int, modified: int) -> dict[str, tuple[int, int]]:
    """Return offset and size of the members of an archive by name.

    An index beside the archive spares reading its headers, each of which is a request to an object
    storage. An index of another size of the archive, or with places outside of it, is not used.

    Args:
        archive: path of the archive.
        size: bytes of the archive.
        modified: time of modification of the archive; another one means another content.
    """
    try:
        index: Any = read_json(index_path(archive))
        if index["size"] == size:
            members = {name: tuple(span) for name, span in index["members"].items()}
            if all(_lies_within(span, size) for span in members.values()):
                return members
    except (OSError, *MALFORMED):
        pass  # no index, or none that can be used
    return scan_headers(archive)


class _Window(io.RawIOBase):
    """The bytes of a member as a file.

    Args:
        member: the member.
    """

    def __init__(self, member: Member) -> None:
        super().__init__()
        self._file = member.archive.open("rb", buffering=0)
        self._offset, self._size = member.offset, member.size
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place, from 0 to the size of the member; see ``io.RawIOBase``."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, at most to the end of the member; see ``io.RawIOBase``."""
        view = memoryview(buffer)
        count = min(len(view), max(0, self._size - self._position))
        data = os.pread(self._file.fileno(), count, self._offset + self._position)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        """Close the archive."""
        self._file.close()
        super().close()


def write_index(archive: Path, content: str) -> str:
    """Return the text of the index of an archive.

    Args:
        archive: path of the complete archive.
        content: hash of what it was made from.
    """
    members = scan_headers(archive)
    return json.dumps({"content": content, "size": archive.stat().st_size, "members": members})
