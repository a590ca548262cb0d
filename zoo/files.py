"""Atomic writes: a reader sees the old file or folder, or the whole new one, even after a crash.

New content is written beside its destination, flushed to disk and then renamed. Two processes may
write one folder at
the same time, but not one file: they take a lock first (``zoo/data/cache.py``).
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SUFFIX = ".part"  # of a file that is not complete; the next attempt overwrites it


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file, which becomes ``path`` when the block succeeds.

    After an error the temporary file is removed and ``path`` is as before.
    """
    temporary = path.with_name(path.name + SUFFIX)
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


@contextmanager
def atomic_folder(path: Path, *, keep: bool = False) -> Iterator[Path]:
    """Yield a new empty folder to fill; it becomes ``path`` when the block ends without an error.

    Args:
        path: destination; its parent exists.
        keep: whether an existing ``path`` stays and the new folder is dropped (several ranks write
            equal content). Otherwise the new folder takes its place.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as temporary:
        new = Path(temporary) / path.name
        new.mkdir()
        yield new
        replace_folder(new, path, keep=keep)


def replace_folder(new: Path, path: Path, *, keep: bool = False) -> None:
    """Rename the complete folder ``new`` to ``path`` on the same file system.

    Args:
        new: folder with all its content; other processes no longer write to it.
        path: destination.
        keep: whether an existing ``path`` stays, and ``new`` where it is.
    """
    for item in new.rglob("*"):
        _sync(item)
    _sync(new)
    old = _old(path)
    if not keep:
        shutil.rmtree(old, ignore_errors=True)
        if path.exists():
            path.rename(old)
    try:
        new.rename(path)
    except OSError:
        if not keep or not path.is_dir():
            raise
    if not keep:
        shutil.rmtree(old, ignore_errors=True)
    _sync(path.parent)


def restore_folder(path: Path) -> None:
    """Put back the old folder if ``replace_folder`` was killed between its two renames.

    Several processes may call this function at the same time.
    """
    if not path.exists():
        with suppress(FileNotFoundError):
            _old(path).rename(path)


def _old(path: Path) -> Path:
    """Return the name of a folder while it is being replaced."""
    return path.with_name(f"{path.name}.old")


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file atomically."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write a whole UTF-8 file atomically, line ends as given."""
    write_bytes(path, text.encode())


def _sync(path: Path) -> None:
    """Flush a file's content or a folder's entries to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
