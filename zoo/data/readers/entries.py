"""Recordings and segments as the files of a corpus list them, before they are checked."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from zoo.base.errors import ZooError
from zoo.base.types import Seconds
from zoo.formats.text import recording_name

# Suffixes of the files that libsndfile reads.
READABLE = (
    *(".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus"),
    *(".aif", ".aiff", ".aifc", ".au", ".caf", ".sph"),
)
# Suffixes of the files that are decoded once, as a whole.
FILMS = (".m4a", ".mp4", ".aac", ".wma", ".webm", ".mov", ".mkv", ".amr", ".avi")


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment as a corpus lists it.

    Attributes:
        where: file and line that list the segment, for error messages.
        offset: start in seconds from the start of the recording.
        duration: seconds; None: to the end of the recording.
        source: transcript, or "".
        target: translation; None without a reference.
        speaker: name of the speaker, or "".
    """

    where: str
    offset: Seconds = 0.0
    duration: Seconds | None = None
    source: str = ""
    target: str | None = None
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording as a corpus lists it.

    Attributes:
        where: file and line that list the recording, for error messages.
        audio: audio file.
        name: name of the talk, unique in the corpus.
        entries: segments in any order, at least one.
        offset: start of the recording in the audio file, in seconds.
        duration: duration of the recording in seconds; None: to the end of the audio file.
    """

    where: str
    audio: Path
    name: str
    entries: list[SegmentEntry] = field(default_factory=list)
    offset: Seconds = 0.0
    duration: Seconds | None = None


def by_audio(entries: Iterable[tuple[Path, SegmentEntry]]) -> list[Recording]:
    """Group segments by audio file, files in the order in which they first occur.

    Args:
        entries: audio file and segment.
    """
    recordings: dict[Path, Recording] = {}
    for path, entry in entries:
        if path not in recordings:
            recordings[path] = Recording(entry.where, path, recording_name(path.name))
        recordings[path].entries.append(entry)
    return list(recordings.values())


def at(path: Path, line: int) -> str:
    """Return a file and a line as error messages name them."""
    return f"{path}, line {line}"


def one_spaced(text: str) -> str:
    """Return a text with single spaces between words.

    Characters that end a line in Unicode (NEL, U+2028) are white space too, so that the text stays
    one line in every file that is written from it.
    """
    return " ".join(text.split())


def required(value: str | None, *, corpus: str, key: str, what: str) -> Path:
    """Return a path of the configuration.

    Args:
        value: the path, or None.
        corpus: name of the corpus in ``conf/data``.
        key: name of the argument.
        what: what the path must name.

    Raises:
        ZooError: the path is None or blank.
    """
    if value is None or not value.strip():
        raise ZooError(f"data={corpus} needs data.{key}, {what}.")
    return Path(value)


def optional(value: str | None, *, corpus: str, key: str) -> Path | None:
    """Return a path of the configuration, or None. Raises ZooError for a blank one.

    Args:
        value: the path, or None.
        corpus: name of the corpus in ``conf/data``.
        key: name of the argument.
    """
    if value is not None and not value.strip():
        raise ZooError(f"data.{key} of data={corpus} is blank; write a path or null.")
    return None if value is None else Path(value)


def existing_folder(path: Path, *, corpus: str, like: str) -> Path:
    """Return a folder of a corpus.

    Args:
        path: the folder.
        corpus: name of the corpus, for the message.
        like: what the folder must be.

    Raises:
        ZooError: there is no such folder.
    """
    if not path.is_dir():
        present = path.parent if path.parent.is_dir() else path.parent.parent
        names = sorted(one.name for one in present.iterdir()) if present.is_dir() else []
        listed = f"; {present} has: {', '.join(names[:8]) or 'nothing'}" if present.is_dir() else ""
        raise ZooError(f"{corpus} has no folder {path} ({like}){listed}.")
    return path


def audio_file(folder: Path, name: str, *, where: str) -> Path:
    """Return the audio file of a name, with or without suffix.

    Args:
        folder: folder of the audio files.
        name: name of the file in the corpus; the suffix may differ from that of the file.
        where: file and line that name it.

    Raises:
        ZooError: there is no such file.
    """
    if (folder / name).is_file() and Path(name).suffix.lower() in READABLE:
        return folder / name
    stem = recording_name(name)
    for suffix in (*READABLE, *FILMS):
        if (folder / f"{stem}{suffix}").is_file():
            return folder / f"{stem}{suffix}"
    raise ZooError(f"{where}: audio file {folder / name} does not exist.")
