"""The words of a translation on a terminal, at the moment of their emission."""

import re
import sys
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console

from zoo.base.languages import Language
from zoo.base.types import Instance, Seconds
from zoo.formats.subtitles import ends_sentence, width
from zoo.streaming.translation import EmittedText

INDENT = 10  # columns of the time before each line


class Display:
    """Prints words as they are emitted. A line begins with the time at which its first word was.

    Args:
        target: language of the words.
        file: where to print; None: stdout.
    """

    def __init__(self, target: Language, file: TextIO | None = None) -> None:
        self._target = target
        self._console = Console(file=file or sys.stdout, highlight=False, soft_wrap=True)
        self._column = 0  # column of the current line; 0: no line has begun
        self._line = ""  # text of the current line

    def begin(self, title: str, duration: Seconds | None = None) -> None:
        """Print the title of a stream, with its duration if it is known."""
        self._print(title if duration is None else f"{title} ({clock(duration)})", style="bold")
        self._print("\n")

    def show(self, output: EmittedText) -> None:
        """Print the words of an output, after those that were deleted, as in ``[-word-]``."""
        if output.deleted:
            self._add(f" [-{output.deleted}-]", output.elapsed)
        for piece in self._pieces(output.text):
            self._add(piece, output.elapsed)
        self._console.file.flush()

    def end(self, instance: Instance) -> None:
        """End the last line of a talk and print how fast it was translated."""
        self._new_line()
        compute = sum(chunk.compute for chunk in instance.chunks)
        speed = f", {instance.source_length / compute:.1f} times real time" if compute else ""
        units = {"word": "words", "char": "characters"}[instance.unit]
        facts = f"{len(instance.units)} {units}, {compute:.1f} s of compute{speed}"
        self.note(facts)

    def note(self, sentence: str) -> None:
        """Print a sentence about the last stream."""
        self._print(f"{'':{INDENT}}{sentence}\n", style="dim")

    def _add(self, piece: str, at: Seconds) -> None:
        """Print a piece of text on the current line, or on a new line if it does not fit."""
        begins_word = piece[0].isspace() or self._target.unit == "char"
        is_full = self._column + width(piece) > self._console.width
        if self._line and begins_word and (is_full or ends_sentence(self._line)):
            self._new_line()
        if not self._line:
            piece = piece.lstrip()
            self._print(f"{clock(at):>{INDENT - 2}}  ", style="dim")
            self._column = INDENT
        self._print(piece)
        self._line += piece
        self._column += width(piece)

    def _pieces(self, text: str) -> Iterator[str]:
        """Yield the words of a text with the white space before them, or its characters."""
        pattern = r"\s*\S" if self._target.unit == "char" else r"\s*\S+"
        yield from re.findall(pattern, text)

    def _new_line(self) -> None:
        if self._line:
            self._print("\n")
        self._column, self._line = 0, ""

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(text, end="", style=style, markup=False, emoji=False)


def clock(seconds: Seconds) -> str:
    """Return a time such as 1:02.3 (minutes, seconds and tenths)."""
    minutes, tenths = divmod(round(seconds * 10), 600)
    return f"{minutes}:{tenths / 10:04.1f}"
