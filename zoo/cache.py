"""Lists and removes what the cache folder holds: ``python -m zoo.cache``.

The folder is ``$SIMULZOO_CACHE`` or ``~/.cache/simulzoo``. Everything in it can be made again.
"""

import argparse
import math
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from rich.console import Console
from rich.table import Table

from zoo.data.cache import cache_root, locked_now
from zoo.data.minitalks.version import version_name
from zoo.errors import ZooError, run_script

# What the entries of the cache folder hold, by pattern of their paths; others are not of the zoo.
CONTENTS = {
    "minitalks-*": "talks of the built-in corpus",
    "utterances-*": "synthesised clips",
    "encoded-*": "talks encoded by a frozen encoder",
    "index-*": "index of a manifest",
    "decoded-*": "audio that ffmpeg has decoded",
    "huggingface": "audio of Hugging Face data sets",
    "comet/*.jsonl": "scores of a COMET model",
}
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}  # as disks are labelled
SPANS = {"h": 3600, "d": 86400, "w": 7 * 86400}  # seconds
DAY = SPANS["d"]
WIDTH = 140  # columns, where stdout is not a terminal


@dataclass(frozen=True, slots=True)
class Entry:
    """One corpus, set of clips, encoding or model's scores in the cache folder.

    Attributes:
        name: path below the cache folder.
        path: folder or file.
        content: what it holds.
        size: bytes on disk.
        used: time of the last use, or of the last write of a file, in seconds of the epoch.
    """

    name: str
    path: Path
    content: str
    size: int
    used: float

    @property
    def version(self) -> str:
        """Whether this installation uses it; the names of other entries than corpora are hashes."""
        kind, _, version = self.name.partition("-")
        if kind != "minitalks":
            return "by content"
        return "current" if version == version_name() else "another"


def entries(root: Path) -> list[Entry]:
    """Return the entries of a cache folder, the one that was not used for longest first."""
    found = []
    for pattern, content in CONTENTS.items():
        for path in root.glob(pattern):
            size = sum(_size(file) for file in [path, *path.rglob("*")])
            name = path.relative_to(root).as_posix()
            found.append(Entry(name, path, content, size, path.stat().st_mtime))
    return sorted(found, key=lambda entry: (entry.used, entry.name))


def chosen(
    found: Sequence[Entry],
    *,
    patterns: Sequence[str] = (),
    unused: float | None = None,
    limit: int | None = None,
    now: float,
) -> list[Entry]:
    """Return the entries to remove.

    Args:
        found: all entries, the one that was not used for longest first.
        patterns: names, in which ``*`` stands for any characters.
        unused: entries that were not used for this number of seconds are removed.
        limit: bytes that the remaining entries may have; the first entries are removed until they
            do.
        now: current time in seconds of the epoch.

    Raises:
        ZooError: no entry has one of the names.
    """
    for pattern in patterns:
        if not any(fnmatch(entry.name, pattern) for entry in found):
            names = ", ".join(entry.name for entry in found) or "nothing"
            raise ZooError(f"The cache has no {pattern!r}; it has: {names}.")
    removed = [
        entry
        for entry in found
        if any(fnmatch(entry.name, pattern) for pattern in patterns)
        or (unused is not None and now - entry.used > unused)
    ]
    if limit is not None:
        kept = [entry for entry in found if entry not in removed]
        excess = sum(entry.size for entry in kept) - limit
        for entry in kept:
            if excess <= 0:
                break
            removed.append(entry)
            excess -= entry.size
    return removed


def remove(removed: Iterable[Entry]) -> Iterator[tuple[Entry, bool]]:
    """Remove entries; yield each and whether it was removed.

    A folder that another process is writing stays. A process that has opened a file continues to
    read it, and one that needs it later makes it again.

    Raises:
        ZooError: an entry cannot be removed.
    """
    for entry in removed:
        try:
            yield entry, _remove(entry.path)
        except OSError as error:
            raise ZooError(f"Cannot remove {entry.path}: {error.strerror}.") from error


def _remove(path: Path) -> bool:
    """Remove a file, or a folder that no process is writing; return whether it was removed."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return True
    with locked_now(path) as free:
        if free:
            shutil.rmtree(path)
    return free


def parse_size(text: str) -> int:
    """Return the number of bytes of a text such as 500MB or 10GB. Raises ZooError for others."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    size = float(match[1]) * UNITS[match[2].upper()] if match else math.inf
    if not math.isfinite(size):
        raise ZooError(f"--limit needs a size such as 500MB or 10GB, not {text!r}.")
    return int(size)


def parse_span(text: str) -> float:
    """Return the seconds of a text such as 12h, 30d or 4w. Raises ZooError for others."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([hdw])", text.strip())
    if match is None:
        raise ZooError(f"--unused needs a time such as 12h, 30d or 4w, not {text!r}.")
    return float(match[1]) * SPANS[match[2]]


def readable(size: float) -> str:
    """Return a number of bytes with three digits and a unit."""
    unit = max((unit for unit in UNITS if UNITS[unit] <= max(size, 1)), key=UNITS.__getitem__)
    return f"{size / UNITS[unit]:.3g} {unit}B"


def show(found: Sequence[Entry], root: Path, *, now: float) -> None:
    """Print the entries with their sizes, and the sum."""
    table = Table("size", "last use", "version", "content", box=None)
    table.add_column("entry", overflow="fold")
    for entry in found:
        days = (now - entry.used) / DAY
        size = readable(entry.size)
        table.add_row(size, f"{days:.1f} days ago", entry.version, entry.content, entry.name)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(table)
    total = readable(sum(entry.size for entry in found))
    console.print(f"{len(found)} entries, {total} in {root}", soft_wrap=True, highlight=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the content of the cache, or remove what the command line chooses.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(prog="python -m zoo.cache", description=__doc__)
    parser.add_argument(
        "--remove", nargs="+", default=[], metavar="NAME", help="remove these entries, or '*'"
    )
    parser.add_argument("--unused", help="remove what was not used for this time, such as 30d")
    parser.add_argument(
        "--limit", help="remove what was not used for longest until this size, such as 10GB"
    )
    parser.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    given = parser.parse_args(arguments)
    limit = None if given.limit is None else parse_size(given.limit)
    unused = None if given.unused is None else parse_span(given.unused)

    root, now = cache_root(), time.time()
    found = entries(root)
    if not given.remove and limit is None and unused is None:
        show(found, root, now=now)
        return
    removed = chosen(found, patterns=given.remove, unused=unused, limit=limit, now=now)
    if given.dry_run:
        show(removed, root, now=now)
        return
    size = 0
    for entry, gone in remove(removed):
        print(f"{'removed' if gone else 'kept, being written'}: {entry.name}")
        size += entry.size if gone else 0
    print(f"removed {readable(size)}")


def _size(path: Path) -> int:
    """Return the bytes of a file on disk; 0 for one that has just been removed."""
    try:
        return path.lstat().st_blocks * 512
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    run_script(main)
