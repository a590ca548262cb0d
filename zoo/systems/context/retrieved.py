"""Terms of a large glossary that resemble the newest transcript (after RASST, arXiv:2601.22777)."""

import re
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from rapidfuzz import fuzz, process

from zoo.base.errors import check_numbers
from zoo.base.types import NO_CONTEXT, Capability, Context, Hypothesis, Request, Task, Term
from zoo.formats.glossary import GLOSSARIES, read_glossary
from zoo.streaming.session import Session
from zoo.systems.context.base import ContextSource

_WORD = re.compile(r"\w+(?:['’-]\w+)*")
CACHED = 20_000  # passages whose terms are kept


class Retrieved(ContextSource):
    """The terms of a glossary that resemble words of the newest transcript.

    Before each decision, the backbone transcribes the kept audio, and passages of the last words
    are compared with all source terms, letter by letter: a recogniser spells a name that it does
    not know by its sound. If other terms are found than before, the prompt changes, and the
    backbone transcribes again. RASST compares embeddings of speech instead, by a trained retriever
    (10 terms of a similarity of at least 0.78), and needs no transcript.

    Args:
        path: Text file (UTF-8) with a term per line: the source term, a tab and its translation, or
            one text for both. Or a folder with ``<talk>.txt`` or ``<talk>.tsv``.
        most: Most terms in a prompt, those with the greatest similarity.
        threshold: Least similarity, from 0 to 1: twice the number of letters in common, in order,
            divided by the number of letters of both texts.
        window_words: Number of the last words of the transcript that are compared.

    Raises:
        ZooError: A number is out of range.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CONTEXT, Capability.TRANSCRIPT})
    suffixes = GLOSSARIES

    def __init__(
        self, *, path: str, most: int = 10, threshold: float = 0.65, window_words: int = 30
    ) -> None:
        super().__init__(path)
        check_numbers("Retrieved terms", least=1, most_terms=most, window_words=window_words)
        check_numbers("Retrieved terms", least=0, most=1, threshold=threshold)
        self.most = most
        self.threshold = threshold
        self.window_words = window_words
        self._indices: dict[Path, TermIndex] = {}

    def read(self, path: Path) -> Context:
        """Read the whole glossary, and return no terms: nothing is said yet."""
        self._indices[path] = TermIndex(read_glossary(path), self.most, self.threshold)
        return NO_CONTEXT

    def retrieve(self, session: Session) -> Generator[Request, Hypothesis, Context]:
        """Request a transcript and return the terms that resemble its last words."""
        transcript = yield Request(task=Task.TRANSCRIPTION)
        words = _WORD.findall((transcript.transcript or "").lower())[-self.window_words :]
        index = self._indices[self.path_of(session.talk)]
        similarities: dict[int, float] = {}
        for passage in passages(words, longest=index.longest + 1):
            for term, similarity in index.similar(passage):
                similarities[term] = max(similarities.get(term, 0.0), similarity)
        best = sorted(similarities, key=lambda term: -similarities[term])[: self.most]
        return Context(terms=tuple(index.terms[term] for term in sorted(best)))


class TermIndex:
    """Source terms, compared with passages of transcripts.

    Args:
        terms: The terms.
        most: Most terms that are found for a passage.
        threshold: Least similarity, from 0 to 1.

    Attributes:
        terms: The terms.
        longest: Number of words of the longest source term.
    """

    def __init__(self, terms: Sequence[Term], most: int, threshold: float) -> None:
        self.terms = terms
        self._words = [len(term.source.split()) for term in terms]
        self._letters = ["".join(term.source.lower().split()) for term in terms]
        self.longest = max(self._words)
        self._most, self._cutoff = most, 100 * threshold
        self._known: dict[tuple[str, ...], list[tuple[int, float]]] = {}

    def similar(self, passage: tuple[str, ...]) -> list[tuple[int, float]]:
        """Return the terms that resemble a passage, as indices with their similarity."""
        if passage not in self._known:  # the next transcript repeats most passages of the last one
            if len(self._known) >= CACHED:
                self._known.clear()
            self._known[passage] = self._compare(passage)
        return self._known[passage]

    def _compare(self, passage: tuple[str, ...]) -> list[tuple[int, float]]:
        """Compare a passage with all terms."""
        best = process.extract(
            "".join(passage),
            self._letters,
            scorer=fuzz.ratio,
            score_cutoff=self._cutoff,
            limit=self._most,
        )
        return [
            (term, score / 100)
            for _, score, term in best
            if abs(self._words[term] - len(passage)) <= 1
        ]


def passages(words: list[str], longest: int) -> Iterator[tuple[str, ...]]:
    """Yield the passages of up to ``longest`` words; a recogniser may divide a name."""
    for size in range(1, longest + 1):
        for begin in range(len(words) - size + 1):
            yield tuple(words[begin : begin + size])
