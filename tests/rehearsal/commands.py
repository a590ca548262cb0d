"""The commands on the pages of the documentation, and what runs a rehearsal of one.

A command runs as the page gives it. Only its placeholders are filled, and arguments are appended
that make it small: fewer talks and steps, shorter answers, and the shape of the tiny encoder.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "prepare",
    "policies",
    "papers",
    "infinisst",
    "learned_wait",
    "streamuni",
    "simulu",
    "hibiki",
    "corpora",
    "context",
    "iwslt",
    "lightning",
    *sorted(f"networks/{page.stem}" for page in (ROOT / "docs" / "networks").glob("*.md")),
)
_START = re.compile(
    r"(?:^|`)(python (?:-m zoo |train\.py|evaluate\.py)[^`#\n]* [^`#\n]+)", re.MULTILINE
)
PLACEHOLDER = re.compile(r"<([^<>]+)>")
# A command is rehearsed if it names published weights or a corpus of one's own. ``<name>`` stands
# for one of several small trainings.
REAL = re.compile(
    r"<(?!name>)|size=(?:published|llama8b)|convert\b|"
    r"backbone=(?:canary|cascade(?:_gemma3|_qwen3)?\b|fbk|infinisst\b|learned_wait_qwen|lst\b"
    r"|phi4_(?:direct|multi)|qwen[23]|seamless"
    r"|speech_to|voxtral|whisper)"
)


@dataclass(frozen=True)
class Command:
    """A command on a page.

    Attributes:
        page: name of the page.
        line: number of its line.
        text: the command, on one line.
    """

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"docs/{self.page}.md: {self.text} (line {self.line})"

    @property
    def words(self) -> list[str]:
        """The words of the command, as a shell has them."""
        return shlex.split(self.text)

    @property
    def kind(self) -> str:
        """``train``, ``evaluate``, or the command of ``python -m zoo``, such as ``prepare``."""
        words = self.words
        return words[3] if words[1] == "-m" else Path(words[1]).stem


def commands() -> Iterator[Command]:
    """Yield the commands for published weights and real corpora, in the order of the pages.

    Conversions come first, because pages use converted weights before they say where they are from.
    """
    yield from sorted(_of_pages(), key=lambda command: "convert" not in command.kind)


def _of_pages() -> Iterator[Command]:
    """Yield the commands as they stand on the pages."""
    for page in PAGES:
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        for found in _START.finditer(_joined(text)):
            command = found[1].strip()
            # With random weights it is chance whether a setting is in a regime.
            if not REAL.search(command) or "-m zoo submit" in command:
                continue
            line = text.count("\n", 0, found.start(1)) + 1
            yield Command(page, line, " ".join(command.split()))


def filled(command: Command, values: Mapping[str, str]) -> list[str]:
    """Return the words of a command with its placeholders filled.

    Raises:
        KeyError: a placeholder has no value.
    """
    return shlex.split(PLACEHOLDER.sub(lambda found: shlex.quote(values[found[1]]), command.text))


def given(words: Sequence[str], key: str) -> str | None:
    """Return the value of an override among words; None if the key is not set."""
    values = [word.partition("=")[2] for word in words if word.partition("=")[0] == key]
    return values[-1] if values else None


def _joined(text: str) -> str:
    """Return a page with continued lines joined; the number of characters is kept."""
    return text.replace("\\\n", "  ")
