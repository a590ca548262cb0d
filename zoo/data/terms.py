"""Terms of training examples: those that are spoken, and others that are not.

RASST (arXiv:2601.22777) fine-tunes with hints that are partly wrong, because a retriever errs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zoo.errors import check_numbers
from zoo.formats.glossary import read_glossary
from zoo.types import Context, Term

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class TermSampling:
    """How many terms a training example has in its prompt.

    Attributes:
        glossary: Path of the glossary (``zoo.formats.glossary``) from which all terms come.
        share: Share of the examples with terms; the others have a prompt without any.
        most: Largest number of terms. An example has 1 to ``most`` terms in random order: those
            that are spoken, all of them, and others of the glossary.
    """

    glossary: str
    share: float = 0.75
    most: int = 12

    def __post_init__(self) -> None:
        """Raise ZooError for numbers out of range."""
        check_numbers("Terms of training", least=0, most=1, share=self.share)
        check_numbers("Terms of training", least=1, most=1000, most_terms=self.most)


class TermSampler:
    """Draws the context of training examples.

    Args:
        config: Settings.

    Raises:
        ZooError: The glossary cannot be read.
    """

    def __init__(self, config: TermSampling) -> None:
        self.config = config
        self.terms = read_glossary(Path(config.glossary).expanduser())
        self._by_first_word: dict[str, list[tuple[tuple[str, ...], Term]]] = {}
        for term in self.terms:
            if words := _words(term.source):
                self._by_first_word.setdefault(words[0], []).append((words, term))

    def context(self, transcript: str, random: np.random.Generator) -> Context:
        """Draw the terms of an example.

        Args:
            transcript: Source text of the example.
            random: Source of randomness.
        """
        if random.random() >= self.config.share:
            return Context()
        spoken = list(dict.fromkeys(self._spoken(transcript)))
        others = int(random.integers(1, self.config.most, endpoint=True)) - len(spoken)
        drawn = random.integers(len(self.terms), size=max(others, 0))
        terms = list(dict.fromkeys([*spoken, *(self.terms[index] for index in drawn)]))
        return Context(terms=tuple(terms[index] for index in random.permutation(len(terms))))

    def _spoken(self, transcript: str) -> Iterator[Term]:
        """Yield the terms whose words follow each other in a transcript."""
        words = _words(transcript)
        for position, word in enumerate(words):
            for sought, term in self._by_first_word.get(word, ()):
                if words[position : position + len(sought)] == sought:
                    yield term


def _words(text: str) -> tuple[str, ...]:
    """Return the words of a text in small letters, without punctuation."""
    return tuple(_WORD.findall(text.lower()))
