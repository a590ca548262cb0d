"""Word alignments in Pharaoh format: a line per pair with links such as ``0-0 1-2``.

fast_align, eflomal, awesome-align, SimAlign and Giza tools write this format. The first number of a
link is the place of the source word, the second that of the target word, both from 0.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.alignment.words.base import Links, Pair, Point, links
from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import read_bounded
from zoo.base.errors import ZooError

if TYPE_CHECKING:
    import torch

LARGEST = 1_000_000_000  # bytes of a file of links
LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


class PharaohFile:
    """Word alignments in a file that another tool wrote.

    Args:
        path: file with one line per pair; ``check`` raises ZooError for None.
        target_first: whether the first number of a link is the target word.
    """

    whole_corpus = True

    def __init__(self, *, path: str | None, target_first: bool = False) -> None:
        self.path = path
        self.target_first = target_first

    def check(self) -> None:
        """See ``WordAligner``."""
        self._file()

    def load(self, device: "torch.device | None" = None) -> None:
        """Nothing to load; see ``WordAligner``."""

    def align(self, pairs: Sequence[Pair]) -> list[Links]:
        """Read the links of all pairs; see ``WordAligner``."""
        path = self._file()
        lines = read_links(path)
        if len(lines) != len(pairs):
            raise ZooError(
                f"{path} has the links of {len(lines)} pairs, but the corpus has {len(pairs)}."
            )
        results: list[Links] = []
        for number, (points, (source, target)) in enumerate(zip(lines, pairs, strict=True), 1):
            if self.target_first:
                points = [(second, first) for first, second in points]
            for first, second in points:
                if first >= len(source) or second >= len(target):
                    raise ZooError(
                        f"{path}, line {number} links word {first} of {len(source)} source words "
                        f"with word {second} of {len(target)} target words (from 0)."
                    )
            results.append(links(points, targets=len(target)))
        return results

    def _file(self) -> Path:
        """Return the file. Raises ZooError if there is none."""
        if self.path is None:
            raise ZooError("Word alignments from a file need path, a file in Pharaoh format.")
        path = Path(self.path)
        if not path.is_file():
            raise ZooError(f"There is no file {path} with word alignments.")
        return path


def read_links(path: Path) -> list[list[Point]]:
    """Read a file in Pharaoh format.

    Args:
        path: file with one line per pair; a line without links is empty.

    Returns:
        Links of each line, the first number before the second.

    Raises:
        ZooError: the file cannot be read, or a line has something else than links.
    """
    try:
        content = read_bounded(path, LARGEST).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ZooError(f"{path} is not text in UTF-8.") from error
    except OSError as error:
        raise ZooError(f"{path} cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise ZooError(f"{path} is no list of links: {error}.") from error
    lines = content.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [
        [_point(item, f"{path}, line {number}") for item in line.split()]
        for number, line in enumerate(lines, start=1)
    ]


def _point(item: str, where: str) -> Point:
    """Return a link. Raises ZooError if it is not two numbers joined by a hyphen."""
    match = LINK.fullmatch(item)
    if match is None:
        raise ZooError(f"{where} has {item!r} instead of a link such as 0-0.")
    return int(match[1]), int(match[2])


def write_pairs(path: Path, pairs: Sequence[Pair]) -> None:
    """Write pairs for another tool, in the format of fast_align: ``source ||| target``.

    Every pair has a line, also one with an empty side, so that line n is pair n.

    Raises:
        ZooError: the file cannot be written.
    """
    lines = [f"{' '.join(source)} ||| {' '.join(target)}\n" for source, target in pairs]
    try:
        write_text(path, "".join(lines))
    except OSError as error:
        raise ZooError(f"{path} cannot be written ({error.strerror}).") from error
