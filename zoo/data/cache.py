"""The cache folder for corpora, clips and encoded talks: locks and checksums.

Each file ``NAME`` of the cache has its checksum in ``NAME.sha256``, in the format of the program
``sha256sum``. A file that does not have its checksum is made again.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from zoo.base.disk.files import sha256, write_text
from zoo.base.errors import ZooError

LOCK = ".lock"  # file in a folder of the cache that is locked while a process writes the folder
CHECKSUM = ".sha256"  # suffix of the file with the checksum
BLOCK = 1 << 20  # number of bytes that are compared with zero at once

logger = logging.getLogger(__name__)


def cache_root(cache: Path | None = None) -> Path:
    """Return the root of the cache folders.

    It is ``cache``, or else ``$SIMULZOO_CACHE``, or else ``~/.cache/simulzoo``. Raises ZooError if
    none of these exists.
    """
    configured = cache or os.environ.get("SIMULZOO_CACHE")
    try:
        if configured:
            return Path(configured).expanduser()
        return Path.home() / ".cache" / "simulzoo"
    except RuntimeError as error:
        raise ZooError(
            "There is no home folder; set SIMULZOO_CACHE to a writable folder."
        ) from error


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create a folder and lock it while the block runs; other processes wait for the lock.

    Raises ZooError if the folder is not writable, or if its file system cannot lock files.
    """
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = (folder / LOCK).open("w")
        except OSError as error:
            raise ZooError(
                f"Cannot write to the cache folder {folder} ({error.strerror}); "
                "set SIMULZOO_CACHE to a writable folder."
            ) from error
        with lock:
            try:
                _lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                logger.info("Another process is writing %s; waiting for it.", folder)
                _lock(lock, fcntl.LOCK_EX)
            if _is_open(folder / LOCK, lock.fileno()):
                try:
                    yield
                finally:  # unlock explicitly: a forked process may keep the file open
                    fcntl.flock(lock, fcntl.LOCK_UN)
                return
            # Otherwise the folder was removed while this process waited, so try again.


def _lock(lock: IO[str], operation: int) -> None:
    """Lock an open file.

    Raises:
        BlockingIOError: another process has locked it, and the operation does not wait.
        ZooError: the file system cannot lock files, as Lustre without the option ``flock``.
    """
    try:
        fcntl.flock(lock, operation)
    except BlockingIOError:
        raise
    except OSError as error:
        raise ZooError(
            f"The file system of {Path(lock.name).parent} cannot lock files ({error.strerror}); "
            "use a folder on another one (SIMULZOO_CACHE names the cache folder)."
        ) from error


def _is_open(path: Path, descriptor: int) -> bool:
    """Return whether a path still is the file that a descriptor has open."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def seal(file: Path) -> None:
    """Write the checksum of a complete file; the folder is locked."""
    write_text(_checksum(file), f"{sha256(file)}  {file.name}\n")


def is_intact(file: Path) -> bool:
    """Return whether a file has its checksum."""
    try:
        recorded = _checksum(file).read_bytes().decode(errors="replace").split()
        return recorded[:1] == [sha256(file)]
    except OSError:  # the file or its checksum does not exist
        return False


def is_complete(file: Path) -> bool:
    """Return whether a file without a checksum is complete.

    Files get their names when they are complete. A complete file has no checksum if it is of an
    older version of the zoo, or if its process was killed before it wrote the checksum. A file that
    is empty or whose bytes are all zero was damaged by a crash.
    """
    return file.is_file() and not _checksum(file).exists() and not _is_zero(file)


def seal_if_complete(file: Path) -> bool:
    """Write the missing checksum of a complete file; the folder is locked.

    Returns:
        Whether the file is intact now. Otherwise, it must be made again.
    """
    if is_intact(file):
        return True
    if is_complete(file):
        seal(file)
        return True
    if file.exists():
        logger.warning("%s is damaged and is made again", file)
    return False


def _checksum(file: Path) -> Path:
    """Return the path of the checksum of a file."""
    return file.with_name(file.name + CHECKSUM)


def _is_zero(file: Path) -> bool:
    """Return whether a file has no byte that is not zero."""
    with file.open("rb") as content:
        return not any(map(any, iter(lambda: content.read(BLOCK), b"")))
