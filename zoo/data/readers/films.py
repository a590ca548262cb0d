"""Copies of audio files of a corpus in the cache folder: sound of films, and single channels."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from zoo.base.audio import files as audio
from zoo.base.disk.files import atomic_file
from zoo.data.cache import cache_root, lock_folder, seal, seal_if_complete
from zoo.data.readers.entries import FILMS


def streamable_file(path: Path) -> Path:
    """Return a file with the samples of ``path`` of which parts are read fast: itself or a copy.

    Args:
        path: audio file that exists.

    Raises:
        ZooError: the file is damaged or has no sound, or the cache is not writable.
    """
    if path.suffix.lower() not in FILMS:
        return path
    return _copy(path, "", lambda copy: audio.write(copy, audio.load(path)))


def channel_file(path: Path, channels: Sequence[int]) -> Path:
    """Return a copy of some channels of a file, averaged, at 16 kHz.

    Args:
        path: audio file that exists.
        channels: channels of the file, from 0, at least one.

    Raises:
        ZooError: the file is damaged or has no such channel, or the cache is not writable.
    """
    names = "+".join(map(str, channels))
    return _copy(
        path,
        f"-channel{names}",
        lambda copy: audio.write(copy, audio.load_channels(path, channels)),
    )


def _copy(path: Path, suffix: str, write: Callable[[Path], None]) -> Path:
    """Return a copy of a file, which is made once.

    Another size or time of the file makes another copy.

    Args:
        path: the file.
        suffix: what the name of the copy has in addition.
        write: writes the copy to a path.
    """
    facts = path.stat()
    described = f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns}{suffix}"
    key = hashlib.sha256(described.encode(errors="surrogateescape")).hexdigest()[:12]
    folder = cache_root() / f"decoded-{key}"
    copy = folder / f"{path.stem}{suffix}.wav"
    with lock_folder(folder):
        if not seal_if_complete(copy):
            with atomic_file(copy) as unfinished:
                write(unfinished)
            seal(copy)
    return copy
