"""The cache folder for corpora, clips and encoded talks, and its locks."""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zoo.errors import ZooError

logger = logging.getLogger(__name__)


def cache_root(cache: Path | None = None) -> Path:
    """Return the root of the cache folders.

    It is ``cache``, or else ``$SIMULZOO_CACHE``, or else ``~/.cache/simulzoo``.
    """
    return Path(cache or os.environ.get("SIMULZOO_CACHE") or Path.home() / ".cache" / "simulzoo")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create a folder and lock it while the block runs; other processes wait for the lock.

    Raises ZooError if the folder is not writable.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise ZooError(
            f"Cannot write to the cache folder {folder} ({error.strerror}); "
            "set SIMULZOO_CACHE to a writable folder."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("Another process is writing %s; waiting for it.", folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
