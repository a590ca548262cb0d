"""Word times in TextGrids, which the Montreal Forced Aligner writes (McAuliffe et al., 2017)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.alignment.times.base import TimedWords
from zoo.base.disk.parsing import bounded_number, read_bounded
from zoo.base.errors import ZooError, shorten_list
from zoo.base.languages import language as language_of
from zoo.base.talks import Segment, Talk, Word
from zoo.base.types import Seconds
from zoo.data.word_times import transcript_words

if TYPE_CHECKING:
    import torch

NO_WORD = ("", "sil", "sp", "spn")  # labels of silence and noise, besides <eps>, <unk>, [noise]
# What matters in a TextGrid of the long or the short form: strings and numbers, but not the numbers
# of tiers and intervals in brackets, which only the long form has.
ITEM = re.compile(
    r'"(?:[^"]|"")*"|\[[0-9]*\]|(?<![\w.])[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?'
)
# Encodings of Praat by their byte-order marks.
ENCODINGS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class TextGridTimes:
    """Words of interval tiers.

    A word belongs to the segment that its middle lies in. The words of a segment are mapped to its
    transcript, see ``zoo.data.word_times``; those in the place of intervals without a word (empty,
    ``sil``, ``sp``, ``spn``, ``<unk>``, ``[noise]``) get the time between their neighbours.

    Args:
        folder: folder of the TextGrids; ``check`` raises ZooError for None.
        language: code of the language of the transcripts.
        pattern: TextGrid of a talk or segment below ``folder``. ``{talk}`` is the name of the talk,
            ``{voice}`` its speaker, ``{segment}`` the place of the segment in its talk from 0, also
            with a width as in ``{segment:04d}``. With ``{segment}`` the times start at the start of
            the segment, otherwise at the start of the talk.
        tier: name of the tiers, alone (``words``) or after a speaker (``Ann - words``).

    Raises:
        ZooError: ``pattern`` has another placeholder.
    """

    def __init__(
        self,
        *,
        folder: str | None,
        language: str,
        pattern: str = "{talk}.TextGrid",
        tier: str = "words",
    ) -> None:
        self.folder = folder
        self.language = language_of(language)
        self.pattern = pattern
        self.tier = tier
        try:
            first, second = (pattern.format(talk="", voice="", segment=number) for number in (0, 1))
        except (KeyError, IndexError, ValueError) as error:
            raise ZooError(
                f"pattern={pattern!r} may contain {{talk}}, {{voice}} and {{segment}}."
            ) from error
        self._by_segment = first != second

    def check(self) -> None:
        """See ``WordTimer``."""
        if self.folder is None:
            raise ZooError("Word times from TextGrids need folder, the output folder of MFA.")
        if not Path(self.folder).is_dir():
            raise ZooError(f"There is no folder {self.folder} with TextGrids.")

    def load(self, device: "torch.device | None" = None) -> None:
        """Nothing to load; see ``WordTimer``."""

    def times(self, talk: Talk, segments: Sequence[Segment]) -> list[TimedWords]:
        """See ``WordTimer``; a missing or damaged file is a problem of its segments."""
        if self._by_segment:
            # Segments are found by their times, because their texts may have changed since the
            # files were written.
            numbers = {
                (one.offset, one.duration): number for number, one in enumerate(talk.segments)
            }
            return [
                self._from_own_file(talk, one, numbers[one.offset, one.duration])
                for one in segments
            ]
        words = self._words(talk, number=0, shift=0.0)
        if isinstance(words, str):
            return [TimedWords(problem=words) for _ in segments]
        return [self._timed(segment, words) for segment in segments]

    def _from_own_file(self, talk: Talk, segment: Segment, number: int) -> TimedWords:
        """Return the words of a segment that has a file of its own."""
        words = self._words(talk, number=number, shift=segment.offset)
        return TimedWords(problem=words) if isinstance(words, str) else self._timed(segment, words)

    def _words(self, talk: Talk, *, number: int, shift: Seconds) -> list[Word] | str:
        """Read a file.

        Args:
            talk: the talk.
            number: index of the segment in the talk.
            shift: what to add to the times of the file.

        Returns:
            Words in seconds from the start of the talk, or why there are none.

        Raises:
            ZooError: the file is damaged.
        """
        name = self.pattern.format(talk=talk.name, voice=talk.voice, segment=number)
        path = Path(self.folder or "") / name
        if not path.is_file():
            return f"there is no file {name}"
        words = [
            Word(word.text, word.start + shift, word.end + shift)
            for word in read_textgrid(path, tier=self.tier)
        ]
        return words or f"{name} has no words"

    def _timed(self, segment: Segment, words: Sequence[Word]) -> TimedWords:
        """Return the times of a segment from the words of its file."""
        if not any(map(str.isalnum, segment.source)):
            return TimedWords(problem="the transcript has no word")
        inside = tuple(
            Word(word.text, max(word.start, segment.offset), min(word.end, segment.end))
            for word in words
            if segment.offset <= (word.start + word.end) / 2 <= segment.end
        )
        if not inside:
            return TimedWords(problem="the TextGrid has no words in it")
        return TimedWords(tuple(transcript_words(replace(segment, words=inside), self.language)))


def read_textgrid(path: Path, *, tier: str) -> list[Word]:
    """Read the words of all interval tiers of a name, in order of time.

    Args:
        path: TextGrid in the long or the short form, in UTF-8 or UTF-16.
        tier: name of the tiers, alone or after a speaker and a hyphen.

    Raises:
        ZooError: the file is no TextGrid, or has no such tier.
    """
    items = _items(path)
    try:
        tiers = dict(_tiers(items))
    except (StopIteration, ValueError, RuntimeError) as error:
        raise ZooError(f"{path} is not a complete TextGrid.") from error
    chosen = [name for name in tiers if name == tier or name.endswith(f" - {tier}")]
    if not chosen:
        names = shorten_list(tiers) or "none"
        raise ZooError(f"{path} has no tier {tier!r} of intervals; it has: {names}.")
    words = [word for name in chosen for word in tiers[name] if _is_word(word.text)]
    return sorted(words, key=lambda word: (word.start, word.end))


def _is_word(label: str) -> bool:
    """Return whether a label stands for a word that the aligner knows."""
    return label not in NO_WORD and not label.startswith(("<", "["))


def _items(path: Path) -> Iterator[str]:
    """Return the strings, with quotes, and the numbers of a TextGrid in their order."""
    try:
        content = read_bounded(path)
        text = content.decode(ENCODINGS.get(content[:2], "utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ZooError(f"{path} is not text in UTF-8 or UTF-16.") from error
    except OSError as error:
        raise ZooError(f"{path} cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise ZooError(f"{path} is no TextGrid: {error}.") from error
    if '"TextGrid"' not in text[:200]:
        raise ZooError(f"{path} is not a TextGrid.")
    items = ITEM.findall(text.partition('"TextGrid"')[2])
    return (item for item in items if not item.startswith("["))


def _tiers(items: Iterator[str]) -> Iterator[tuple[str, list[Word]]]:
    """Yield name and words of each interval tier.

    Raises:
        ValueError: a string is where a number belongs, or the other way around.
        RuntimeError: the items end too early.
    """

    def number() -> float:
        return bounded_number(next(items))

    def string() -> str:
        item = next(items)
        if not item.startswith('"'):
            raise ValueError(item)
        return item[1:-1].replace('""', '"').strip()

    number(), number()  # skip start and end of the file
    for _ in range(int(number())):
        kind, name = string(), string()
        number(), number()  # skip start and end of the tier
        count = int(number())
        if kind != "IntervalTier":
            for _ in range(count):
                number(), string()
            continue
        words = []
        for _ in range(count):
            start, end = number(), number()
            words.append(Word(string(), start, end))
        yield name, words
