"""Words as policies count them that wait for a number of source words: without punctuation marks.

``Language.words`` counts the words of a transcript in the same way.
"""

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from zoo.backbones.text.unspaced import UnspacedWords
from zoo.backbones.text.vocabulary import SPACES, Vocabulary, has_letters, plain_pieces
from zoo.base.errors import check_choice
from zoo.base.languages import Language

WORDS = ("jieba", "characters")


class SpacedWords(Vocabulary):
    """Word boundaries of a language with spaces, where a free-standing mark is no word.

    Tokens between two spaces that have no letter or digit, such as the dash in "ja – nein", belong
    to the previous word.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(tokenizer, "word")
        self._letters, self._marks = (
            torch.zeros(len(self._starts), dtype=torch.bool) for _ in range(2)
        )
        for token, piece in plain_pieces(tokenizer).items():
            self._letters[token] = has_letters(piece, self.byte_level)
            self._marks[token] = piece.strip("".join(SPACES)) != ""

    def word_starts(self, token_ids: Tensor) -> Tensor:
        """Return (n,) bool for ids (n,), True where a token begins a word.

        The first token always begins a word.
        """
        starts = super().word_starts(token_ids)
        if not len(starts):
            return starts
        ids = self._clamp(token_ids)
        word_of_token = starts.cumsum(0) - 1
        counts = torch.zeros(2, int(word_of_token[-1]) + 1, dtype=torch.long)
        counts.index_add_(
            1, word_of_token, torch.stack([self._letters[ids], self._marks[ids]]).long()
        )
        num_letters, num_marks = counts[:, word_of_token]
        # A space alone may begin a word whose letters follow.
        starts &= (num_letters > 0) | (num_marks == 0)
        starts[0] = True
        return starts


class Vocabularies:
    """The vocabularies of one tokenizer, one per language; each is made at its first use.

    All languages that are written with spaces share one vocabulary.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, words: str) -> None:
        """Set the tokenizer and the words of languages that are written without spaces.

        Args:
            tokenizer: tokenizer whose ids the vocabularies receive.
            words: jieba: words are those of jieba's segmentation. characters: each character is a
                word.

        Raises:
            ZooError: If ``words`` has another value.
        """
        check_choice("kind of words", words, WORDS)
        self._tokenizer = tokenizer
        self._segments = words == "jieba"
        self._by_language: dict[str, Vocabulary] = {}

    def of(self, language: Language) -> Vocabulary:
        """Return the vocabulary of a language."""
        segments = self._segments and language.unit == "char"
        key = language.code if segments else language.unit
        if key not in self._by_language:
            self._by_language[key] = self._make(language)
        return self._by_language[key]

    def _make(self, language: Language) -> Vocabulary:
        """Return a new vocabulary of a language."""
        if language.unit == "word":
            return SpacedWords(self._tokenizer)
        if self._segments:
            return UnspacedWords(self._tokenizer, language)
        return Vocabulary(self._tokenizer, "char")
