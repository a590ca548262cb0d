"""The results of the steps on disk, a file for some talks each.

A file is complete or absent. Its first line has the key of the work that it holds, a hash of what
the step has received and of its settings, and a digest of the lines that follow, from which the key
of the next step is made. A preparation that starts again uses the files whose key is the same and
does all other work anew.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zoo.apps.prepare.items import Item, decode, encode
from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import parse_json
from zoo.base.disk.tar_members import stored_in
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.base.types import Seconds
from zoo.data import manifest

VERSION = 1  # version of the files and of what the steps compute
WORK = "work"  # folder of the results in the folder of a prepared corpus


@dataclass(frozen=True, slots=True)
class Head:
    """First line of a file.

    Attributes:
        key: key of the work.
        digest: hash of the lines that follow.
        problems: why talks of the part are left out.
    """

    key: str
    digest: str
    problems: list[str]


class Store:
    """Files ``<folder>/work/<split>/<step>/<part>.jsonl``.

    Args:
        folder: folder of the prepared corpus.
        split: name of the split.
    """

    def __init__(self, folder: Path, split: str) -> None:
        self.folder = folder
        self._work = folder / WORK / split

    def head(self, step: str, part: int) -> Head | None:
        """Return the head of the file of a part after a step; None if there is none.

        Args:
            step: name of the step.
            part: number of the part.
        """
        try:
            with self._path(step, part).open(encoding="utf-8") as file:
                return Head(**parse_json(file.readline()))
        except (OSError, ValueError, TypeError):
            return None

    def read(self, step: str, part: int) -> list[Item]:
        """Return the items of a part after a step, whose work has been done.

        Raises:
            ZooError: the file is damaged.
        """
        path = self._path(step, part)
        try:
            lines = path.read_text(encoding="utf-8").split("\n")[1:-1]
            return [decode(line, folder=self.folder) for line in lines]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ZooError(f"{path} is damaged ({error}); delete it and start again.") from error

    def write(self, step: str, part: int, key: str, items: Sequence[Item]) -> None:
        """Write the items of a part after a step; ``key`` is the key of the work."""
        path = self._path(step, part)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [encode(item, folder=self.folder) for item in items]
        head = Head(key, hash_value(lines), [item.problem for item in items if item.problem])
        first = json.dumps(asdict(head), ensure_ascii=False)
        write_text(path, "".join(f"{line}\n" for line in (first, *lines)))

    def _path(self, step: str, part: int) -> Path:
        return self._work / step / f"{part:06d}.jsonl"


def parts_of(talks: Sequence[Talk], seconds: Seconds) -> list[list[Talk]]:
    """Divide talks into parts of consecutive talks, the units of work.

    Args:
        talks: all talks of a split.
        seconds: a part ends with the talk with which it has this much audio, so that a corpus of
            single sentences does not become a million files.
    """
    parts: list[list[Talk]] = []
    filled = seconds
    for talk in talks:
        if filled >= seconds:
            parts.append([])
            filled = 0.0
        parts[-1].append(talk)
        filled += talk.duration
    return parts


def source_key(talks: Sequence[Talk], folder: Path) -> str:
    """Return the key of the talks of a corpus: their content, and size and time of their audio."""
    lines = [manifest.encode(talk, folder=folder) for talk in talks]
    return hash_value([lines, [state_of(talk.file) for talk in talks]])


def states_of(settings: Any) -> list[Any]:
    """Return size and time of all files that settings name, alone or as a folder.

    A changed checkpoint or dictionary of an aligner therefore changes the key of its work. A model
    of the hub has no path: its name is its key.

    Args:
        settings: values that JSON can describe.
    """
    if isinstance(settings, Mapping):
        return [state for value in settings.values() for state in states_of(value)]
    if isinstance(settings, list | tuple):
        return [state for value in settings for state in states_of(value)]
    if not isinstance(settings, str) or not settings:
        return []
    path = Path(settings)
    try:
        files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    except OSError:  # the text is too long for a path
        return []
    return [[os.path.relpath(file, path), state] for file in files if (state := state_of(file))]


def hash_value(value: Any) -> str:
    """Return a SHA-256 of a value that JSON can describe."""
    text = json.dumps([VERSION, value], sort_keys=True)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def state_of(path: Path) -> list[int] | None:
    """Return size and time of the last change of a file, or of the archive that it lies in.

    None: it does not exist.
    """
    try:
        state = stored_in(path).stat()
    except (OSError, ValueError):  # the file does not exist, or the text is no path
        return None
    return [state.st_size, state.st_mtime_ns]
