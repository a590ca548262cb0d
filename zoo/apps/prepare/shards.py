"""Audio of a prepared split in tar archives (WebDataset), for trainings from object storage.

Each talk has two members in an archive: its audio, and its line of the manifest as ``.json``.
"""

import io
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from zoo.apps.prepare.store import hash_value, state_of
from zoo.base.disk.files import atomic_file, write_text
from zoo.base.disk.parsing import MALFORMED, read_json
from zoo.base.disk.tar_members import (
    SUFFIX,
    index_path,
    last_change,
    open_stored,
    size_of,
    write_index,
)
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data import manifest

MEGA = 10**6


def with_shards(talks: Sequence[Talk], folder: Path, split: str, megabytes: int) -> list[Talk]:
    """Write the audio of talks to ``audio/<split>-<number>.tar``, and return talks that name it.

    An archive whose talks and audio have not changed is kept.

    Args:
        talks: talks of the split.
        folder: folder of the prepared corpus.
        split: name of the split.
        megabytes: an archive ends with the talk with which it has this much audio.
    """
    named_talks: list[Talk] = []
    copies = (folder / "audio" / split).resolve()
    for number, group in enumerate(_groups(talks, megabytes * MEGA)):
        archive = folder / "audio" / f"{split}-{number:06d}{SUFFIX}"
        archive.parent.mkdir(parents=True, exist_ok=True)
        names = [(talk, f"{_key(talk)}{talk.file.suffix}") for talk in group]
        lines = [
            manifest.encode(replace(talk, audio=Path(name)), folder=Path()) for talk, name in names
        ]
        copied = [talk.file for talk in group if talk.file.resolve().is_relative_to(copies)]
        # A copy has the time of this preparation, on which the index must not depend.
        states = [
            size_of(talk.file) if talk.file in copied else state_of(talk.file) for talk in group
        ]
        content = hash_value([lines, states])
        if not _is_written(archive, content, copied):
            index_path(archive).unlink(missing_ok=True)  # the index of the previous archive
            _write(archive, [talk.file for talk in group], [name for _, name in names], lines)
            write_text(index_path(archive), write_index(archive, content))
        named_talks += [replace(talk, audio=archive / name) for talk, name in names]
    return named_talks


def remove_surplus(talks: Sequence[Talk], folder: Path, split: str) -> None:
    """Delete the archives of a split that none of its talks names.

    An earlier preparation with more audio, or with smaller archives, has written them. Whoever
    copies all archives to an object storage would train on their talks as well.

    Args:
        talks: talks of the split, whose manifest is written already.
        folder: folder of the prepared corpus.
        split: name of the split.
    """
    named = {talk.file.parent for talk in talks}
    for archive in (folder / "audio").glob(f"{split}-??????{SUFFIX}"):
        if archive not in named:
            index_path(archive).unlink(missing_ok=True)
            archive.unlink()


def _groups(talks: Sequence[Talk], size: int) -> Iterator[list[Talk]]:
    """Yield consecutive talks whose audio files have ``size`` bytes or more together."""
    group: list[Talk] = []
    filled = 0
    for talk in talks:
        group.append(talk)
        filled += size_of(talk.file)
        if filled >= size:
            yield group
            group, filled = [], 0
    if group:
        yield group


def _key(talk: Talk) -> str:
    """Return the name of a talk without folders and dots, which end a key of WebDataset."""
    name = talk.name
    for character, code in (("%", "%25"), ("/", "%2F"), (".", "%2E")):
        name = name.replace(character, code)
    return name


def _is_written(archive: Path, content: str, copied: Sequence[Path]) -> bool:
    """Return whether an archive is complete and was made from the same content.

    Args:
        archive: path of the archive.
        content: hash of what it is made from.
        copied: files in it that the step ``audio`` has written; a newer one is another one.
    """
    if any(last_change(path) > last_change(archive) for path in copied):
        return False
    try:
        index = read_json(index_path(archive))
        return bool(index["content"] == content and index["size"] == archive.stat().st_size)
    except (OSError, *MALFORMED):
        return False


def _write(
    archive: Path, files: Sequence[Path], names: Sequence[str], lines: Sequence[str]
) -> None:
    """Write an archive, the same bytes for the same members.

    Args:
        archive: path of the archive.
        files: audio files.
        names: their names in the archive.
        lines: lines of the manifest.

    Raises:
        ZooError: an audio file cannot be read.
    """
    with atomic_file(archive) as unfinished, tarfile.open(unfinished, "w") as file:
        for path, name, line in zip(files, names, lines, strict=True):
            try:
                with open_stored(path) as audio:
                    member = tarfile.TarInfo(name)
                    member.size = size_of(path)
                    file.addfile(member, audio)
            except OSError as error:
                raise ZooError(f"{path} cannot be written to {archive} ({error}).") from error
            member = tarfile.TarInfo(f"{name.partition('.')[0]}.json")
            content = line.encode()
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
