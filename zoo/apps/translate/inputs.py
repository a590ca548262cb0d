"""Audio files and folders of a translation as talks without references."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from zoo.base.disk.files import check_regular
from zoo.base.errors import ZooError
from zoo.base.talks import Talk, check_talk_name
from zoo.streaming.sources import talk_of_file

# Files that are translated if a folder is given; a file that is named may have any suffix.
AUDIO = (
    *(".aac", ".aif", ".aifc", ".aiff", ".amr", ".au", ".caf", ".flac", ".m4a", ".mp3", ".oga"),
    *(".ogg", ".opus", ".snd", ".sph", ".w64", ".wav", ".wma"),
)
FILMS = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".webm")
SUFFIXES = (*AUDIO, *FILMS)


def find_talks(paths: Sequence[str], *, source_language: str) -> list[Talk]:
    """Return a talk for each audio file, and read each file once to find damage.

    Args:
        paths: audio files, and folders, whose files and subfolders are searched for audio.
        source_language: code of the language that is spoken.

    Raises:
        ZooError: ``paths`` is no list of texts, there is no file, or a file cannot be read or has
            no samples.
    """
    is_list = isinstance(paths, Sequence) and not isinstance(paths, str)
    if not is_list or any(not isinstance(name, str) or not name.strip() for name in paths):
        raise ZooError(f"inputs must be a list of files and folders, not {paths}.")
    files = list(dict.fromkeys(path for name in paths for path in _files(Path(name))))
    return [
        talk_of_file(path, name=name, source_language=source_language)[0]
        for path, name in zip(files, _names(files), strict=True)
    ]


def _files(path: Path) -> Iterator[Path]:
    """Yield the audio files of a folder in order, or the file itself."""
    if not path.is_dir():
        if not path.exists():
            raise ZooError(f"There is no file or folder {str(path)!r}.")
        check_regular(path)
        yield path
        return
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in SUFFIXES
        and file.is_file()
        and not any(name.startswith(".") for name in file.relative_to(path).parts)
    ]
    if not files:
        raise ZooError(f"Folder {path} has no audio file ({' '.join(SUFFIXES)}).")
    yield from files


def _names(files: Iterable[Path]) -> Iterator[str]:
    """Yield the name of each file without its suffix; files of one name are numbered."""
    taken: set[str] = set()
    for file in files:
        name, number = file.stem, 1
        while name in taken:
            number += 1
            name = f"{file.stem}-{number}"
        taken.add(name)
        check_talk_name(name, str(file))
        yield name
