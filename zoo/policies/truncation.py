"""Truncation rules of StreamUni over the transcripts of a segment (section 3.1, appendix A).

The rules take transcripts with the newest one last. They return a negative index into the
transcripts: -1 truncates after the newest transcript (n in the paper), -2 and -3 after the one or
two before it (l = n-1, n-2).
"""

import re
from collections.abc import Iterable, Sequence

from zoo.abbreviations import SENTENCE_ABBREVIATIONS
from zoo.languages import Language

STRONG = ".?!;。？！；؟؛"
CLOSING = re.escape("\"'”’»)]}）」』】")
LETTER = r"[^\W\d_]"
ACRONYM = re.compile(rf"(?:{LETTER}\.)+{LETTER}")  # "e.g", "U.S", "z.B"
ORDINAL = re.compile(r"\d{1,2}")
LAST_WORD = re.compile(r"[\w.]*$")
CJK = "\u2e80"  # scripts from this code point on need no space after a full stop
ORDINAL_DOTS = ("cs", "de", "tr")  # languages that write "am 3. Mai"


class SentenceDetector:
    """Finds the ends of sentences in a text.

    A full stop does not end a sentence within "3.5" or "example.com", after an abbreviation
    ("Mr.", "e.g."), after an initial ("J. Smith"; "I" is a word) or, in some languages, after an
    ordinal ("am 3. Mai"). A sentence that does end in one of these ways is not detected and joins
    the next one: truncating too late costs less than truncating within a sentence.

    Args:
        language: Language of the text.
        abbreviations: Abbreviations in addition to those of ``language``.
        colon: Treat a colon as the end of a sentence (released code).
    """

    def __init__(
        self, language: Language, abbreviations: Iterable[str] = (), colon: bool = False
    ) -> None:
        listed = [*SENTENCE_ABBREVIATIONS.get(language.code, "").split(), *abbreviations]
        self._abbreviations = {word.removesuffix(".").casefold() for word in listed}
        self._has_ordinal_dots = language.code in ORDINAL_DOTS
        self._marks = re.compile(rf"[{STRONG}{':：' if colon else ''}]+[{CLOSING}]*")

    def ends(self, text: str) -> list[int]:
        """Return the position after each sentence of ``text``."""
        marks = self._marks.finditer(text)
        return [mark.end() for mark in marks if not self._is_within_sentence(text, mark)]

    def is_complete(self, text: str) -> bool:
        """Return whether ``text`` has words and its last sentence has ended."""
        return any(letters(text[:end]) and not letters(text[end:]) for end in self.ends(text))

    def has_next_sentence(self, text: str) -> bool:
        """Return whether a sentence of ``text`` has ended and another one has begun."""
        return any(letters(text[:end]) and letters(text[end:]) for end in self.ends(text))

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

    def _is_within_sentence(self, text: str, mark: re.Match[str]) -> bool:
        """Return whether a mark is a full stop that does not end a sentence."""
        if mark[0] != ".":
            return False
        following = text[mark.end() : mark.end() + 1]
        if following.isalnum() and following < CJK:
            return True

        match = LAST_WORD.search(text[: mark.start()])
        word = match[0] if match else ""
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
) -> int | None:
    """Apply the truncation conditions of the paper.

    Args:
        texts: Transcripts of the segment, the newest one last.
        detector: Detector for the source language.
        relaxed: Apply ``begins_next_relaxed`` in addition to the second condition.

    Returns:
        Index of the transcript after which to truncate. None: do not truncate.
    """
    if is_silence(texts):
        return -1

    for index in (-2, -3):
        if -index > len(texts):
            break
        newer, older = texts[-1], texts[index]
        if detector.begins_next(newer, older):
            return index
        if relaxed and detector.begins_next_relaxed(newer, older):
            return index
    return None


def released_truncation(texts: Sequence[str], detector: SentenceDetector) -> int | None:
    """Apply the truncation conditions of the released code.

    Transcripts are compared in lower case. Silence keeps the newest chunk. Otherwise the segment
    is truncated after the last transcript before another sentence began, even if that transcript
    does not end a sentence; it must be contained in the next transcript.

    Args:
        texts: Transcripts of the segment that are not empty, the newest one last.
        detector: Detector for the source language.

    Returns:
        Index of the transcript after which to truncate. None: do not truncate.
    """
    queue = [text.lower() for text in texts[-3:]]
    if len(queue) < 3:
        return None
    if is_silence(queue):
        return -2

    for index in (-2, -3):
        older, newer = queue[index], queue[index + 1]
        if (
            older in newer
            and detector.has_next_sentence(newer)
            and not detector.has_next_sentence(older)
        ):
            return index
    return None
