"""Texts with times: SubRip subtitles (``.srt``) and tables of start, end and text (``.tsv``)."""

import re
from dataclasses import dataclass
from pathlib import Path

from zoo.base.disk.parsing import bounded_number
from zoo.base.errors import ZooError
from zoo.base.types import Seconds
from zoo.data.readers.entries import at
from zoo.data.readers.tables import read_rows
from zoo.formats.text import MS, read_text

_TIME = r"(\d{1,6}):([0-5]\d):([0-5]\d)[,.](\d{3})"
_TIMES = re.compile(rf"{_TIME}\s+-->\s+{_TIME}(?:\s.*)?")
# A line of times, also of another form: it belongs to the next subtitle.
_NEXT = re.compile(r"\d\s*-->\s*\d")
# Marks of style, which no viewer shows as text.
_STYLE = re.compile(r"</?(?:[biu]|font)(?:\s[^<>]*)?>|\{\\an?\d+\}", re.IGNORECASE)
HEADING = ["start", "end", "text"]


@dataclass(frozen=True, slots=True)
class Timed:
    """A text with times.

    Attributes:
        where: file and line.
        text: the text.
        start: seconds from the start of the recording.
        end: seconds from the start of the recording; None: the text has no times.
    """

    where: str
    text: str
    start: Seconds = 0.0
    end: Seconds | None = None

    @property
    def timed(self) -> bool:
        """Whether the text has times."""
        return self.end is not None


def read_srt(path: Path) -> list[Timed]:
    """Return the subtitles of a file.

    A subtitle is an optional number, a line of times and lines of text, and a blank line ends it.

    Raises:
        ZooError: the file is missing, empty or not UTF-8, or a subtitle has another form.
    """
    subtitles: list[Timed] = []
    block: list[str] = []
    first = 1  # line of the block
    for number, line in enumerate([*read_text(path).split("\n"), ""], start=1):
        if line.strip():
            first = first if block else number
            block.append(line.strip())
        elif block:
            subtitles.append(_subtitle(block, path, first))
            block = []
    if not subtitles:
        raise ZooError(f"{path} is empty.")
    return subtitles


def _subtitle(block: list[str], path: Path, line: int) -> Timed:
    """Return the subtitle of a block of lines, the first of which is ``line``."""
    if block[0].isdecimal() and len(block) > 1:
        block, line = block[1:], line + 1
    where = at(path, line)
    times = _TIMES.fullmatch(block[0])
    if not times:
        raise ZooError(f"{where} must be 00:00:01,000 --> 00:00:02,500, not {block[0][:60]!r}.")
    for number, text in enumerate(block[1:], start=line + 1):
        if _NEXT.search(text):
            raise ZooError(
                f"{at(path, number)} has the times of another subtitle; write a blank line between "
                "two subtitles."
            )
    text = _STYLE.sub("", " ".join(block[1:])).strip()
    if not text:
        raise ZooError(f"{where} has times without a text.")
    numbers = times.groups()
    return Timed(where, text, _seconds(numbers[:4]), _seconds(numbers[4:]))


def _seconds(numbers: tuple[str, ...]) -> Seconds:
    """Return hours, minutes, seconds and milliseconds as seconds."""
    hours, minutes, seconds, milliseconds = map(int, numbers)
    return ((hours * 60 + minutes) * 60 + seconds) + milliseconds / MS


def read_tsv(path: Path) -> list[Timed]:
    """Return the lines of a table of start, end (seconds) and text, with or without a heading.

    Raises:
        ZooError: the file is missing, empty or not UTF-8, or a line has another form.
    """
    lines: list[Timed] = []
    for line, (start, end, text) in read_rows(path, columns=len(HEADING)):
        where = at(path, line)
        if line == 1 and [start, end, text] == HEADING:
            continue
        if not text.strip():
            raise ZooError(f"{where} has times without a text.")
        try:
            lines.append(Timed(where, text, bounded_number(start), bounded_number(end)))
        except ValueError as error:
            raise ZooError(
                f"{where} must begin with start and end in seconds, not {start!r} and {end!r}."
            ) from error
    if not lines:
        raise ZooError(f"{path} has no segments.")
    return lines
