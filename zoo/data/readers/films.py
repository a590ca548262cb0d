"""Copies of audio files of a corpus in formats that only ffmpeg reads, in the cache folder."""

import hashlib
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from zoo.audio.ffmpeg import readable
from zoo.data.cache import cache_root, lock_folder, seal, seal_if_complete
from zoo.data.readers.entries import FILMS
from zoo.disk.files import atomic_file


def streamable_file(path: Path) -> Path:
    """Return a file with the samples of ``path`` that can be streamed: ``path`` itself or a copy.

    A copy is made once; another size or time of the file makes another copy.

    Args:
        path: audio file that exists.

    Raises:
        ZooError: the file is damaged, ffmpeg is needed and missing, or the cache is not writable.
    """
    if path.suffix.lower() not in FILMS:
        return path
    facts = path.stat()
    described = f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns}"
    key = hashlib.sha256(described.encode(errors="surrogateescape")).hexdigest()[:12]
    folder = cache_root() / f"decoded-{key}"
    copy = folder / f"{path.stem}.wav"
    with lock_folder(folder):
        if not seal_if_complete(copy):
            with TemporaryDirectory() as temporary:
                source = readable(path, Path(temporary))
                if source == path:  # libsndfile reads the file in spite of its suffix
                    return path
                with atomic_file(copy) as unfinished:
                    shutil.copyfile(source, unfinished)
            seal(copy)
    return copy
