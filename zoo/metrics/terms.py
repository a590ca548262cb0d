"""Terms of a glossary: which of them translations have, and BLEU without them.

RASST (arXiv:2601.22777) and the track with context of IWSLT 2026 report term accuracy.
"""

import re
from collections.abc import Sequence
from math import nan
from pathlib import Path

from zoo.base.languages import Language
from zoo.formats.glossary import read_glossary
from zoo.metrics.quality import BLEU, CorpusQuality


class Glossary:
    """Target terms, which match without regard to case, and words as a whole.

    Args:
        path: Text file that ``zoo.formats.glossary`` reads. A target term counts once.
        language: Target language; without spaces between words, terms match anywhere.

    Raises:
        ZooError: The file cannot be read, or has no terms.
    """

    def __init__(self, path: str, language: Language) -> None:
        terms = read_glossary(Path(path).expanduser())
        self.terms = list(dict.fromkeys(term.target.lower() for term in terms))
        edge = r"\b" if language.unit == "word" else ""
        self._patterns = [
            re.compile(
                rf"{_at(edge, term[0])}{re.escape(term)}{_at(edge, term[-1])}", re.IGNORECASE
            )
            for term in self.terms
        ]
        pairs = sorted(zip(self.terms, self._patterns, strict=True), key=lambda pair: -len(pair[0]))
        self._longest_first = [pattern for _, pattern in pairs]

    def terms_in(self, text: str) -> set[int]:
        """Return the indices of the terms that a text has."""
        lower = " ".join(text.lower().split())
        return {index for index, one in enumerate(self._patterns) if one.search(lower)}

    def without_terms(self, text: str) -> str:
        """Return a text without its terms, the longest first."""
        rest = " ".join(text.split())
        for pattern in self._longest_first:
            rest = pattern.sub(" ", rest)
        return " ".join(rest.split())


class TermAccuracy(CorpusQuality):
    """Share of the terms in the references that the translations have, in percent (TERM_ACC).

    A term counts once per segment.

    Args:
        glossary: Path of a ``Glossary``.
        language: Target language.

    Raises:
        ZooError: The glossary cannot be read.
    """

    def __init__(self, glossary: str, language: Language) -> None:
        self.glossary = Glossary(glossary, language)
        self.sums = [0.0, 0.0]  # translated terms, terms

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> list[list[int]]:
        """Return the numbers of translated terms and of terms of each segment."""
        terms_in = self.glossary.terms_in
        counts: list[list[int]] = []
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            wanted = terms_in(reference)
            counts.append([len(wanted & terms_in(hypothesis)) if wanted else 0, len(wanted)])
        return counts

    def score_of(self, sums: Sequence[float]) -> float:
        """Return the share of summed statistics; NaN without terms."""
        translated, terms = sums
        return 100.0 * translated / terms if terms else nan

    def sentence(self, hypothesis: str, reference: str) -> float:
        """Return the share of one segment; NaN without terms."""
        return self.score_of(self.statistics([hypothesis], [reference])[0])

    def signature(self) -> str:
        """Return the number of terms and how they match."""
        return f"terms:{len(self.glossary.terms)}|case:lower"


class MaskedBLEU(BLEU):
    """BLEU of texts without the terms of a glossary: whether terms cost other words.

    Args:
        glossary: Path of a ``Glossary``.
        language: Target language.

    Raises:
        ZooError: The glossary cannot be read, or the tokenizer is not installed.
    """

    def __init__(self, glossary: str, language: Language) -> None:
        self.glossary = Glossary(glossary, language)  # the base class calls ``statistics``
        super().__init__(language)

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> list[list[int]]:
        """Return sacreBLEU's sufficient statistics of each segment without its terms."""
        without_terms = self.glossary.without_terms
        return super().statistics(
            [*map(without_terms, hypotheses)], [*map(without_terms, references)]
        )

    def signature(self) -> str:
        """Return sacreBLEU's signature and the number of terms."""
        return f"{super().signature()}|masked:{len(self.glossary.terms)}"


def _at(edge: str, character: str) -> str:
    """Return the pattern of the edge of a term; only a letter or digit has an edge of a word."""
    return edge if character.isalnum() else ""
