"""Truncation rules of StreamUni over the transcripts of a segment (section 3.1, appendix A).

The rules take the transcripts of a segment after each of its chunks, with the newest one last.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from zoo.base.languages import Language
from zoo.streaming.abbreviations import SENTENCE_ABBREVIATIONS

STRONG = ".?!;。？！；؟؛"
CLOSING = re.escape("\"'”’»)]}）」』】")
LETTER = r"[^\W\d_]"
ACRONYM = re.compile(rf"(?:{LETTER}\.)+{LETTER}")  # "e.g", "U.S", "z.B"
ORDINAL = re.compile(r"\d{1,2}")
LAST_WORD = re.compile(r"[\w.]*$")
CJK = "\u2e80"  # scripts from this code point on need no space after a full stop
RELEASED_MARK = re.compile(r"[.?!;:]")  # ends a sentence in the released code
ORDINAL_DOTS = ("cs", "de", "tr")  # languages that write "am 3. Mai"

Reason = Literal["silence", "sentence", "max_seconds"]


@dataclass(frozen=True, slots=True)
class Truncation:
    """Where a segment is truncated.

    Indices are negative: -1 is the newest chunk (n in the paper), -2 and -3 are those before it
    (l = n-1, n-2).

    Attributes:
        chunk: Index of the chunk after which the audio is cut.
        transcript: Index of the transcript whose translation is finished.
        reason: Why: ``silence``, the end of a ``sentence``, or a segment of ``max_seconds``.
    """

    chunk: int
    transcript: int
    reason: Reason = "sentence"


class SentenceDetector:
    """Finds the ends of sentences in a text.

    A full stop does not end a sentence within "3.5" or "example.com", after an abbreviation
    ("Mr.", "e.g."), after an initial ("J. Smith"; "I" is a word) or, in some languages, after an
    ordinal ("am 3. Mai"). A sentence that does end in one of these ways is not detected and joins
    the next one: truncating too late costs less than truncating within a sentence.

    Args:
        language: Language of the text.
        abbreviations: Abbreviations in addition to those of ``language``.
    """

    def __init__(self, language: Language, abbreviations: Iterable[str] = ()) -> None:
        listed = [*SENTENCE_ABBREVIATIONS.get(language.code, "").split(), *abbreviations]
        self._abbreviations = {word.removesuffix(".").casefold() for word in listed}
        self._has_ordinal_dots = language.code in ORDINAL_DOTS
        self._marks = re.compile(rf"[{STRONG}]+[{CLOSING}]*")

    def ends(self, text: str) -> list[int]:
        """Return the position after each sentence of ``text``."""
        matches = self._marks.finditer(text)
        return [match.end() for match in matches if not self._is_within_sentence(text, match)]

    def is_complete(self, text: str) -> bool:
        """Return whether ``text`` has words and its last sentence has ended."""
        return any(letters(text[:end]) and not letters(text[end:]) for end in self.ends(text))

    def begins_next(self, newer: str, older: str) -> bool:
        """Return whether ``newer`` repeats the complete ``older`` and begins another sentence.

        Case and punctuation within the sentence may differ, because a model may revise them as it
        receives more audio.
        """
        words = letters(older)
        return self.is_complete(older) and any(
            letters(newer[:end]) == words and letters(newer[end:]) for end in self.ends(newer)
        )

    def begins_next_relaxed(self, newer: str, older: str) -> bool:
        """Return whether ``older`` is complete and ``newer`` is not, with as many sentence ends.

        The words of the transcripts may differ. This rule is not in the paper.
        """
        return (
            self.is_complete(older)
            and len(self.ends(newer)) >= len(self.ends(older))
            and not self.is_complete(newer)
        )

    def _is_within_sentence(self, text: str, match: re.Match[str]) -> bool:
        """Return whether a punctuation mark is a full stop that does not end a sentence."""
        if match[0] != ".":
            return False
        following = text[match.end() : match.end() + 1]
        if following.isalnum() and following < CJK:
            return True

        last_word = LAST_WORD.search(text[: match.start()])
        word = last_word[0] if last_word else ""
        is_initial = len(word) == 1 and word.isupper() and word != "I"
        is_ordinal = self._has_ordinal_dots and ORDINAL.fullmatch(word) is not None
        return (
            is_initial
            or is_ordinal
            or word.casefold() in self._abbreviations
            or ACRONYM.fullmatch(word) is not None
        )


def letters(text: str) -> str:
    """Return the letters and digits of ``text``, case-folded."""
    return "".join(character for character in text.casefold() if character.isalnum())


def is_silence(texts: Sequence[str]) -> bool:
    """Return whether the last three transcripts are equal (first condition)."""
    return len(texts) > 2 and len(set(texts[-3:])) == 1


def paper_truncation(
    texts: Sequence[str], detector: SentenceDetector, *, relaxed: bool
) -> Truncation | None:
    """Apply the truncation conditions of the paper.

    Args:
        texts: Transcripts of the segment, one per chunk, the newest one last.
        detector: Detector for the source language.
        relaxed: Apply ``begins_next_relaxed`` in addition to the second condition.

    Returns:
        Where to truncate. None: do not truncate.
    """
    if is_silence(texts):
        return Truncation(chunk=-1, transcript=-1, reason="silence")

    for index in (-2, -3):
        if -index > len(texts):
            break
        newer, older = texts[-1], texts[index]
        if detector.begins_next(newer, older) or (
            relaxed and detector.begins_next_relaxed(newer, older)
        ):
            return Truncation(chunk=index, transcript=index)
    return None


def released_truncation(texts: Sequence[str]) -> Truncation | None:
    """Apply the truncation conditions of the released code, with the chunks that it cuts after.

    The last three transcripts that are not empty are compared in lower case. The newest chunk is
    kept in case of silence. If another sentence begins between the first two transcripts, the
    newest chunk is kept, too, and the second transcript is finished, with the first words of the
    other sentence. If it begins between the last two, two chunks are kept and the first transcript
    is finished.

    Args:
        texts: Transcripts of the segment, one per chunk, the newest one last.

    Returns:
        Where to truncate. None: do not truncate.
    """
    queue = [index for index in range(-len(texts), 0) if texts[index]][-3:]
    if len(queue) < 3 or not texts[-1]:
        return None

    first, second, third = (texts[index].lower() for index in queue)
    silent = is_silence([first, second, third])
    if silent or _another_begins(first, second):
        num_kept = 1
    elif _another_begins(second, third):
        num_kept = 2
    else:
        return None
    reason: Reason = "silence" if silent else "sentence"
    return Truncation(chunk=-1 - num_kept, transcript=queue[-1 - num_kept], reason=reason)


def _another_begins(older: str, newer: str) -> bool:
    """Return whether ``newer`` contains ``older`` and only ``newer`` has begun another sentence."""
    return older in newer and _goes_on(newer) and not _goes_on(older)


def _goes_on(text: str) -> bool:
    """Return whether text follows the first mark; the released code knows no abbreviations."""
    match = RELEASED_MARK.search(text)
    return match is not None and re.sub(r"[ .?!;:]", "", text[match.end() :]) != ""
