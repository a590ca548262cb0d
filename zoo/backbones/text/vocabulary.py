"""Word and sentence boundaries by token id, detokenisation, and search for tokens by text.

A piece is the string of a token in the tokenizer's vocabulary. Byte-level tokenizers (GPT-2,
Whisper) write each byte as one character, and a space as "\u0120". SentencePiece tokenizers write a
space as "\u2581", and a single byte as in "<0xE4>".
"""

import re
from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from zoo.base.errors import ZooError
from zoo.base.types import UnitKind

SPACES = ("\u0120", "\u2581")  # a space in byte-level pieces and in SentencePiece pieces
STRONG = re.compile("[.!?:;。！？：；]")
CLOSING = ".,;:!?%)]}\u2019\u201d\u2026"  # punctuation marks that follow a word without a space
BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def _byte_characters() -> dict[str, int]:
    """Map each character of byte-level pieces to its byte, as in GPT-2.

    Printable bytes are represented by their own characters. All other bytes are represented by the
    characters from code point 256 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + offset): byte for offset, byte in enumerate(unprintable)
    }


BYTES = _byte_characters()


class Vocabulary:
    """Word and sentence boundaries by token id.

    Special (added) tokens, and ids that the tokenizer lacks, have no boundary.

    Attributes:
        unit: Unit in which the language is counted.
        byte_level: Whether pieces represent bytes by characters.
        starts: (vocabulary,) bool, True if the token begins a word. With unit "word", tokens that
            begin with a space, or consist of a space only, begin a word. With unit "char", every
            character is a word. Tokens that consist of a space only, or that begin with a
            continuation byte of a character, begin no word.
        ends: (vocabulary,) bool, True if the token contains punctuation that ends a sentence.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, unit: UnitKind) -> None:
        pieces = plain_pieces(tokenizer)
        size = max([*pieces, *tokenizer.added_tokens_decoder]) + 1
        byte_level = not any(piece.startswith(SPACES[1]) for piece in pieces.values())
        self.unit = unit
        self.byte_level = byte_level
        # The last entry represents all ids that the tokenizer lacks.
        starts = [False] * (size + 1)
        ends = [False] * (size + 1)
        for token, piece in pieces.items():
            starts[token] = (
                piece.startswith(SPACES) if unit == "word" else _begins_character(piece, byte_level)
            )
            ends[token] = STRONG.search(_spelled(piece) if byte_level else piece) is not None
        self._starts = torch.tensor(starts)
        self._ends = torch.tensor(ends)
        self.starts = self._starts[:-1]
        self.ends = self._ends[:-1]

    def word_starts(self, token_ids: Tensor) -> Tensor:
        """Return (n,) bool for ids (n,), True where a token begins a word.

        The first token always begins a word.
        """
        starts = self._starts[self._clamp(token_ids)]
        starts[:1] = True
        return starts

    def sentence_ends(self, token_ids: Tensor) -> Tensor:
        """Return (n,) bool for ids (n,), True where a token ends a sentence."""
        return self._ends[self._clamp(token_ids)]

    def words(self, token_ids: Sequence[int]) -> int:
        """Return the number of complete words: words that are followed by another word."""
        return int(self.word_starts(torch.tensor(token_ids, dtype=torch.long))[1:].sum())

    def _clamp(self, token_ids: Tensor) -> Tensor:
        """Map ids that the tokenizer lacks to the last entry of ``_starts`` and ``_ends``."""
        return token_ids.clamp(max=len(self._starts) - 1)


def vocabularies(tokenizer: PreTrainedTokenizerBase) -> dict[UnitKind, Vocabulary]:
    """Return the vocabulary of a tokenizer for each kind of unit."""
    return {unit: Vocabulary(tokenizer, unit) for unit in get_args(UnitKind)}


def plain_pieces(tokenizer: PreTrainedTokenizerBase) -> dict[int, str]:
    """Return the pieces of all tokens by id, without special (added) tokens."""
    special = tokenizer.added_tokens_decoder
    return {token: piece for piece, token in tokenizer.get_vocab().items() if token not in special}


def detokenise(tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int]) -> str:
    """Detokenise ids. Special tokens are skipped, and spaces are kept unchanged."""
    return str(
        tokenizer.decode(
            list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
    )


def token_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Tokenise a text without adding special tokens."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []


def control_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Return the ids of all tokens ``<|...|>``, which are no text; timestamps are among them."""
    return {
        token: number
        for token, number in tokenizer.get_vocab().items()
        if token.startswith("<|") and token.endswith("|>")
    }


def containing(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[int]:
    """Return the ids of all tokens whose text contains one of ``texts``, without special tokens.

    Raises:
        ZooError: If no single token contains a text. Such a text cannot be suppressed, because the
            tokens of its parts also occur in other words.
    """
    if not texts:
        return []
    ids = sorted(plain_pieces(tokenizer))
    pieces = dict(zip(ids, tokenizer.batch_decode([[token] for token in ids]), strict=True))
    for text in texts:
        if not any(text in piece for piece in pieces.values()):
            raise ZooError(
                f"No token contains {text!r}, so it cannot be suppressed; name a part of it, such "
                "as '('."
            )
    return [token for token, piece in pieces.items() if any(text in piece for text in texts)]


def _begins_character(piece: str, byte_level: bool) -> bool:
    """Whether a piece begins a UTF-8 character other than a single space."""
    if piece in SPACES:
        return False
    first_byte = 0
    if byte := BYTE.fullmatch(piece):
        first_byte = int(byte[1], 16)
    elif byte_level:
        first_byte = BYTES.get(piece[:1], 0)
    return not 0x80 <= first_byte < 0xC0  # these are the continuation bytes of UTF-8


def has_letters(piece: str, byte_level: bool) -> bool:
    """Return whether a piece has a letter or a digit, or a part of a character that may be one."""
    if byte_level:
        spelled = bytes(BYTES[sign] for sign in piece if sign in BYTES)
    else:
        byte = BYTE.fullmatch(piece)
        spelled = bytes([int(byte[1], 16)]) if byte else piece.encode()
    text = spelled.decode(errors="replace")
    return any(character.isalnum() or character == "\ufffd" for character in text)


def _spelled(piece: str) -> str:
    """The text of a byte-level piece, without incomplete characters."""
    return bytes(BYTES[sign] for sign in piece if sign in BYTES).decode(errors="ignore")
