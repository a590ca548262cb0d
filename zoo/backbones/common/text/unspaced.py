"""Word boundaries by language, also where a language writes no spaces."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from zoo.backbones.common.text.vocabulary import BYTE, BYTES, SPACES, Vocabulary
from zoo.errors import unknown_choice
from zoo.languages import Language

WORDS = ("jieba", "characters")


class UnspacedWords(Vocabulary):
    """Word boundaries of a language without spaces.

    A token begins a word where one of ``language.words`` begins with its first letter. A word that
    begins within a token counts as part of the word before, as punctuation does.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, language: Language) -> None:
        super().__init__(tokenizer, "char")
        self.language = language
        self._tokenizer = tokenizer
        self._added = frozenset(tokenizer.added_tokens_decoder)
        self._byte_level = not any(piece.startswith(SPACES[1]) for piece in tokenizer.get_vocab())

    def word_starts(self, token_ids: Tensor) -> Tensor:
        """(n,) bool for ids (n,): true where a token begins a word; the first token always does."""
        spelled = [self._spelled(token) for token in token_ids.tolist()]
        text = b"".join(spelled).decode(
            errors="surrogateescape"
        )  # half a character keeps its bytes
        begins, behind = set(), 0
        for word in self.language.words(text):
            place = text.index(word, behind)
            behind = place + len(word)
            begins.add(len(text[:place].encode(errors="surrogateescape")))
        starts, place = torch.zeros(len(spelled), dtype=torch.bool), 0
        for index, piece in enumerate(spelled):
            starts[index] = index == 0 or (bool(piece.strip()) and place + _indent(piece) in begins)
            place += len(piece)
        return starts

    def words(self, token_ids: Sequence[int]) -> int:
        """Number of complete words in ``token_ids``: those that another word follows."""
        return int(self.word_starts(torch.tensor(token_ids, dtype=torch.long))[1:].sum())

    def _spelled(self, token: int) -> bytes:
        piece = self._tokenizer.convert_ids_to_tokens(token)
        if token in self._added or not isinstance(
            piece, str
        ):  # the model may have more ids than the tokenizer
            return b""
        if self._byte_level:
            return bytes(BYTES[sign] for sign in piece)
        byte = BYTE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace(SPACES[1], " ").encode()


def _indent(piece: bytes) -> int:
    return len(piece) - len(piece.lstrip())


class Vocabularies:
    """``Vocabulary`` objects by language; languages that write spaces share one."""

    def __init__(self, words: str) -> None:
        """``words``: of a language without spaces. jieba: as it finds them. characters: each one.

        Raises ZooError for another name.
        """
        if words not in WORDS:
            raise unknown_choice("kind of words", words, WORDS)
        self.words = words
        self._known: dict[str, Vocabulary] = {}

    def of(self, tokenizer: PreTrainedTokenizerBase, language: Language) -> Vocabulary:
        """The boundaries of a language's words; ``tokenizer`` is the same in every call."""
        unspaced = language.unit == "char" and self.words == "jieba"
        key = language.code if unspaced else language.unit
        if key not in self._known:
            self._known[key] = (
                UnspacedWords(tokenizer, language)
                if unspaced
                else Vocabulary(tokenizer, language.unit)
            )
        return self._known[key]
