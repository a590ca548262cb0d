"""Terms of training examples: those that are spoken, and others that are not.

RASST (arXiv:2601.22777) fine-tunes with hints that are partly wrong, because a retriever errs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zoo.base.errors import check_numbers
from zoo.base.types import NO_CONTEXT, Context, Term
from zoo.formats.glossary import read_glossary

_WORD = re.compile(r"\w+")
# Spellings in place of a letter: those of a similar sound, and some of another.
SIMILAR = {
    "a": ("ah", "aa", "o", "e"),
    "e": ("eh", "ee", "i", "a"),
    "i": ("ih", "y", "ie", "e"),
    "o": ("oh", "oo", "u", "a"),
    "u": ("uh", "ou", "oo", "o"),
    "b": ("bb", "p"),
    "d": ("dd", "t"),
    "f": ("ff", "ph", "v"),
    "g": ("gg", "k"),
    "k": ("ck", "c", "g"),
    "l": ("ll", "r"),
    "m": ("mm", "n"),
    "n": ("nn", "m"),
    "p": ("pp", "b"),
    "r": ("rr", "rh", "l"),
    "s": ("ss", "z"),
    "t": ("tt", "th", "d"),
    "v": ("vv", "w", "f"),
    "z": ("zz", "s"),
}


@dataclass(frozen=True, kw_only=True)
class TermSampling:
    """How many terms a training example has in its prompt.

    Attributes:
        glossary: Path of the glossary (``zoo.formats.glossary``) from which all terms come.
        share: Share of the examples with terms; the others have a prompt without any.
        most: Largest number of terms. An example has 1 to ``most`` terms in random order: those
            that are spoken, all of them, and others of the glossary.
        respelled: Share of the spoken terms that get another spelling, in the prompt and in the
            texts (ours): a network that writes by ear then errs, and one that copies does not.
    """

    glossary: str
    share: float = 0.75
    most: int = 12
    respelled: float = 0.0

    def __post_init__(self) -> None:
        """Raise ZooError for numbers out of range."""
        check_numbers("Terms of training", least=0, most=1, share=self.share)
        check_numbers("Terms of training", least=0, most=1, respelled=self.respelled)
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

    def draw(
        self, transcript: str, translation: str, random: np.random.Generator
    ) -> tuple[str, str, Context]:
        """Draw the terms of an example, and respell some that are spoken.

        Args:
            transcript: Source text of the example.
            translation: Target text of the example.
            random: Source of randomness.

        Returns:
            The texts with the new spellings, and the terms.
        """
        if random.random() >= self.config.share:
            return transcript, translation, NO_CONTEXT
        spoken = list(dict.fromkeys(self._spoken(transcript)))
        for index, term in enumerate(spoken):
            if random.random() < self.config.respelled:
                spoken[index] = new = respelled(term, random)
                transcript = _replaced(transcript, term.source, new.source)
                translation = _replaced(translation, term.target, new.target)
        return transcript, translation, self._among_others(spoken, random)

    def _among_others(self, spoken: list[Term], random: np.random.Generator) -> Context:
        """Return spoken terms and others in random order."""
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


def respelled(term: Term, random: np.random.Generator) -> Term:
    """Return a term with one or two letters changed; equal texts stay equal."""
    source = term.source
    for _ in range(int(random.integers(1, 3))):
        places = [place for place, letter in enumerate(source) if letter in SIMILAR]
        if not places:
            return term
        place = places[int(random.integers(len(places)))]
        choices = SIMILAR[source[place]]
        source = source[:place] + choices[int(random.integers(len(choices)))] + source[place + 1 :]
    return Term(source, source if term.source == term.target else term.target)


def _replaced(text: str, old: str, new: str) -> str:
    """Return a text with other words in place of some words."""
    return re.sub(rf"\b{re.escape(old)}\b", lambda _: new, text)


def _words(text: str) -> tuple[str, ...]:
    """Return the words of a text in small letters, without punctuation."""
    return tuple(_WORD.findall(text.lower()))
