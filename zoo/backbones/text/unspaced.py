"""Word boundaries of languages that are written without spaces."""

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from zoo.backbones.text.vocabulary import BYTE, BYTES, SPACES, Vocabulary
from zoo.base.languages import Language


class UnspacedWords(Vocabulary):
    """Word boundaries of a language that is written without spaces.

    ``language.words`` segments the text of all tokens into words. A token begins a word if a word
    begins at the first byte of the token that is no white space. A word that begins within a token
    counts as part of the previous word, as does punctuation.

    Example:
        The tokens "今", "天天", "气" are the text "今天天气" with the words "今天" and "天气". The
        first token begins a word. The second token does not: its first character is the end of
        "今天". "天气" begins within the second token, so the third token does not begin a word.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, language: Language) -> None:
        super().__init__(tokenizer, "char")
        self.language = language
        self._tokenizer = tokenizer
        self._added = frozenset(tokenizer.added_tokens_decoder)

    def word_starts(self, token_ids: Tensor) -> Tensor:
        """Return (n,) bool for ids (n,), True where a token begins a word.

        The first token always begins a word.
        """
        spellings = [self._spell(token) for token in token_ids.tolist()]
        word_offsets = self._word_offsets(b"".join(spellings))
        starts = torch.zeros(len(spellings), dtype=torch.bool)
        token_offset = 0
        for index, spelling in enumerate(spellings):
            letters = spelling.lstrip()
            letter_offset = token_offset + len(spelling) - len(letters)
            starts[index] = bool(letters) and letter_offset in word_offsets
            token_offset += len(spelling)
        starts[:1] = True
        return starts

    def _word_offsets(self, text_bytes: bytes) -> set[int]:
        """Return the offsets of the bytes of a text at which its words begin."""
        # surrogateescape: the last character may be incomplete, and its bytes count as well.
        text = text_bytes.decode(errors="surrogateescape")
        offsets: set[int] = set()
        word_end = 0  # in characters
        byte_offset = 0  # of that character
        for word in self.language.words(text):
            word_start = text.index(word, word_end)
            byte_offset += _count_bytes(text[word_end:word_start])
            offsets.add(byte_offset)
            byte_offset += _count_bytes(word)
            word_end = word_start + len(word)
        return offsets

    def _spell(self, token: int) -> bytes:
        """Return the UTF-8 bytes of a token; empty for special and unknown ids."""
        piece = self._tokenizer.convert_ids_to_tokens(token)
        # A model may score more ids than the tokenizer has; these have no piece.
        if token in self._added or not isinstance(piece, str):
            return b""
        if self.byte_level:
            return bytes(BYTES[character] for character in piece)
        byte = BYTE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace(SPACES[1], " ").encode()


def _count_bytes(text: str) -> int:
    """Return the number of bytes of a text, with the bytes of incomplete characters."""
    return len(text.encode(errors="surrogateescape"))
