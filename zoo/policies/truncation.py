"""Where StreamUni truncates: rules over the transcripts of a segment (paper, section 3.1 and appendix A).

Pure functions of texts, the newest one last. Knows no audio, no token and no session. An answer is an index into
the texts: -1 cuts after the newest look (n of the paper), -2 and -3 after the one or two before it (l = n-1, n-2).
"""

import re
from collections.abc import Iterable, Sequence

from zoo.languages import Language

STRONG = ".?!;。？！；؟؛"
CLOSING = re.escape("\"'”’»)]}）」』】")
LETTER = r"[^\W\d_]"
ACRONYM = re.compile(rf"(?:{LETTER}\.)+{LETTER}")  # "e.g", "U.S", "z.B"
ORDINAL = re.compile(r"\d{1,2}")
LAST_WORD = re.compile(r"[\w.]*$")
CJK = "\u2e80"  # scripts from here on need no space after a full stop
ORDINAL_DOTS = ("cs", "de", "tr")  # "am 3. Mai"

# what is followed by a full stop within a sentence, lower-case, by language; single capitals and "e.g" go by rule
ABBREVIATIONS: dict[str, str] = {
    "ca": "av dr dra etc prof pàg sr sra",
    "cs": "apod atd bc dr ing mgr mudr např prof resp tzv",
    "de": "bspw bzw ca dipl dr evtl fr geb ggf hr ing inkl mio mrd nr prof sog st str tel usw vgl zzgl",
    "en": "al approx ave blvd capt cf col dept dr etc gen gov hon inc jr lt ltd mr mrs ms prof rev sen sgt sr st vs",
    "es": "av dr dra etc ing lic núm prof pág sr sra srta ud uds",
    "fr": "av cf dr env etc mlle mm mme pr prof st ste",
    "it": "arch avv dott ecc ing pag prof sig",
    "nl": "bijv ca dhr dr drs enz ing ir jr mevr mw prof",
    "pt": "av dr dra eng etc prof pág sr sra",
    "ro": "dl dna dr etc nr prof str",
    "ru": "др млн млрд пр см стр ул",
    "tr": "av doç dr prof sn vb vs",
}


class Sentences:
    """Finds where the sentences of a language end.

    A full stop does not end one within "3.5" or "example.com", nor after an abbreviation ("Mr.", "e.g."), an initial
    ("J. Smith"; "I" is a word) or, where they are written so, an ordinal ("am 3. Mai"). A sentence that does end like
    this goes unnoticed and joins the next one: cutting too late costs less than cutting within a sentence.
    """

    def __init__(
        self, language: Language, abbreviations: Iterable[str] = (), colon: bool = False
    ) -> None:
        """abbreviations: beside those of ``language``. colon: it ends a sentence too (released code)."""
        known = [*ABBREVIATIONS.get(language.code, "").split(), *abbreviations]
        self._abbreviations = {word.removesuffix(".").casefold() for word in known}
        self._ordinals = language.code in ORDINAL_DOTS
        self._marks = re.compile(rf"[{STRONG}{':：' if colon else ''}]+[{CLOSING}]*")

    def ends(self, text: str) -> list[int]:
        """Positions behind each sentence of ``text``."""
        return [mark.end() for mark in self._marks.finditer(text) if not self._within(text, mark)]

    def complete(self, text: str) -> bool:
        """Something was said, and its last sentence has ended."""
        return any(letters(text[:end]) and not letters(text[end:]) for end in self.ends(text))

    def goes_on(self, text: str) -> bool:
        """A sentence has ended and another one begun."""
        return any(letters(text[:end]) and letters(text[end:]) for end in self.ends(text))

    def begins_another(self, newer: str, older: str) -> bool:
        """``older`` is complete; ``newer`` says the same, ends a sentence there, and begins another one.

        The same: up to case and to punctuation within, which a model may revise as it hears more.
        """
        said = letters(older)
        return self.complete(older) and any(
            letters(newer[:end]) == said and letters(newer[end:]) for end in self.ends(newer)
        )

    def begins_another_relaxed(self, newer: str, older: str) -> bool:
        """``older`` is complete; ``newer`` has at least as many sentence ends and is not. Its words may be others."""
        return (
            self.complete(older)
            and len(self.ends(newer)) >= len(self.ends(older))
            and not self.complete(newer)
        )

    def _within(self, text: str, mark: re.Match[str]) -> bool:
        """Is this a full stop within a sentence?"""
        if mark[0] != ".":
            return False
        following = text[mark.end() : mark.end() + 1]
        if following.isalnum() and following < CJK:
            return True
        found = LAST_WORD.search(text[: mark.start()])
        word = found[0] if found else ""
        initial = len(word) == 1 and word.isupper() and word != "I"
        ordinal = self._ordinals and ORDINAL.fullmatch(word) is not None
        return (
            initial
            or ordinal
            or word.casefold() in self._abbreviations
            or ACRONYM.fullmatch(word) is not None
        )


def letters(text: str) -> str:
    """The letters and digits of ``text`` without their case."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def silence(texts: Sequence[str]) -> bool:
    """Nothing new in the last three looks (first condition)."""
    return len(texts) > 2 and len(set(texts[-3:])) == 1


def paper_truncation(texts: Sequence[str], sentences: Sentences, *, relaxed: bool) -> int | None:
    """The conditions of the paper. relaxed: the second one also as ``begins_another_relaxed`` has it (not theirs)."""
    if silence(texts):
        return -1
    tests = [sentences.begins_another, *([sentences.begins_another_relaxed] if relaxed else [])]
    looks = [look for look in (-2, -3) if -look <= len(texts)]
    return next(
        (look for look in looks if any(test(texts[-1], texts[look]) for test in tests)), None
    )


def released_truncation(texts: Sequence[str], sentences: Sentences) -> int | None:
    """The conditions of the released code, over what was not empty, in lower case.

    Silence keeps the newest chunk. Else the cut is after the last look before another sentence began, whether or not
    that look ended one; its text must stand somewhere in the next look's.
    """
    queue = [text.lower() for text in texts[-3:]]
    if len(queue) < 3:
        return None
    if silence(queue):
        return -2
    for look in (-2, -3):
        older, newer = queue[look], queue[look + 1]
        if older in newer and sentences.goes_on(newer) and not sentences.goes_on(older):
            return look
    return None
