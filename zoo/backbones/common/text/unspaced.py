"""Word boundaries by language, including languages that are written without spaces."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from zoo.backbones.common.text.vocabulary import BYTE, BYTES, SPACES, Vocabulary
from zoo.errors import check_choice
from zoo.languages import Language

WORDS = ("jieba", "characters")


class UnspacedWords(Vocabulary):
    """Word boundaries of a language that is written without spaces.

    ``language.words`` segments the text into words. A token begins a word if a word begins at the
    first letter of the token. If a word begins within a token, the word counts as part of the
    previous word. Punctuation also counts as part of the previous word.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, language: Language) -> None:
        super().__init__(tokenizer, "char")
        self.language = language
        self._tokenizer = tokenizer
        self._added = frozenset(tokenizer.added_tokens_decoder)
        self._byte_level = not any(piece.startswith(SPACES[1]) for piece in tokenizer.get_vocab())

    def word_starts(self, token_ids: Tensor) -> Tensor:
        """Return (n,) bool for ids (n,), True where a token begins a word.

        The first token always begins a word.
        """
        token_bytes = [self._spelled(token) for token in token_ids.tolist()]
        # surrogateescape keeps the bytes of incomplete characters
        text = b"".join(token_bytes).decode(errors="surrogateescape")

        # Byte offsets at which the words of the text begin.
        word_offsets = set()
        search_start = 0
        for word in self.language.words(text):
            word_start = text.index(word, search_start)
            search_start = word_start + len(word)
            word_offsets.add(len(text[:word_start].encode(errors="surrogateescape")))

        starts = torch.zeros(len(token_bytes), dtype=torch.bool)
        offset = 0
        for index, piece in enumerate(token_bytes):
            begins_word = bool(piece.strip()) and offset + _indent(piece) in word_offsets
            starts[index] = index == 0 or begins_word
            offset += len(piece)
        return starts

    def words(self, token_ids: Sequence[int]) -> int:
        """Return the number of complete words: words that are followed by another word."""
        return int(self.word_starts(torch.tensor(token_ids, dtype=torch.long))[1:].sum())

    def _spelled(self, token: int) -> bytes:
        """Return the UTF-8 bytes of a token; empty for special and unknown ids."""
        piece = self._tokenizer.convert_ids_to_tokens(token)
        # the model may have more ids than the tokenizer, which then returns no string
        if token in self._added or not isinstance(piece, str):
            return b""
        if self._byte_level:
            return bytes(BYTES[sign] for sign in piece)
        byte = BYTE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace(SPACES[1], " ").encode()


def _indent(piece: bytes) -> int:
    """Return the number of leading white-space bytes."""
    return len(piece) - len(piece.lstrip())


class Vocabularies:
    """Cache of ``Vocabulary`` objects by language.

    All languages that are written with spaces share one object.
    """

    def __init__(self, words: str) -> None:
        """Set the word definition for languages that are written without spaces.

        Args:
            words: jieba: words are those of jieba's segmentation. characters: each character is a
                word.

        Raises:
            ZooError: If ``words`` has another value.
        """
        check_choice("kind of words", words, WORDS)
        self.words = words
        self._known: dict[str, Vocabulary] = {}

    def of(self, tokenizer: PreTrainedTokenizerBase, language: Language) -> Vocabulary:
        """Return the vocabulary of a language; every call must pass the same ``tokenizer``."""
        unspaced = language.unit == "char" and self.words == "jieba"
        key = language.code if unspaced else language.unit
        if key not in self._known:
            self._known[key] = (
                UnspacedWords(tokenizer, language)
                if unspaced
                else Vocabulary(tokenizer, language.unit)
            )
        return self._known[key]
