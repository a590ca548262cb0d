"""Labels of a CTC model with a character vocabulary for the words of a transcript.

The corpus has digits, signs and accents that the vocabulary may lack; each word is normalised to
the letters of the vocabulary, and a word that cannot be spelled completely gets a wildcard.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

APOSTROPHES = str.maketrans("\u2019\u2018\u02bc\u0060\u00b4", "'''''")


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of a transcript.

    Attributes:
        tokens: tokens in the order in which the path emits them.
        owners: for each token, the index of its word; None for a delimiter between words.
    """

    tokens: tuple[int, ...]
    owners: tuple[int | None, ...]


@dataclass(frozen=True)
class Letters:
    """The characters that a CTC model emits.

    Attributes:
        vocabulary: token of each character, without delimiter, blank and control tokens.
        delimiter: token between two words; None if the model has none.
        wildcard: token that stands for a word with letters or digits that the vocabulary lacks.
    """

    vocabulary: Mapping[str, int]
    delimiter: int | None
    wildcard: int

    def labels(self, words: Sequence[str]) -> Labels:
        """Return the labels of a transcript; words without letters and digits have none."""
        tokens: list[int] = []
        owners: list[int | None] = []
        for index, word in enumerate(words):
            if not any(map(str.isalnum, word)):
                continue
            if tokens and self.delimiter is not None:
                tokens.append(self.delimiter)
                owners.append(None)
            spelled = self.spelled(word) or [self.wildcard]
            tokens += spelled
            owners += [index] * len(spelled)
        return Labels(tuple(tokens), tuple(owners))

    def spelled(self, word: str) -> list[int]:
        """Return the tokens of a word; empty if the vocabulary lacks one of its letters or digits.

        Punctuation that the vocabulary lacks is left out.
        """
        tokens: list[int] = []
        for character in word.translate(APOSTROPHES):
            character_tokens = self._character(character)
            if not character_tokens and character.isalnum():
                return []
            tokens += character_tokens
        return tokens

    def _character(self, character: str) -> list[int]:
        """Return the tokens of a character: itself, or in another case, or without accents."""
        for form in (character, character.lower(), character.upper()):
            if form and all(letter in self.vocabulary for letter in form):
                return [self.vocabulary[letter] for letter in form]
        plain = "".join(
            letter
            for letter in unicodedata.normalize("NFKD", character)
            if not unicodedata.combining(letter)
        )
        return self._character(plain) if len(plain) == 1 and plain != character else []
