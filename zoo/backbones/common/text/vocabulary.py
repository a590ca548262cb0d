"""Word and sentence boundaries by token id, detokenisation, and tokens that contain a text.

Pieces are byte-level (GPT-2, Whisper: "\u0120" is a space, each character a byte) or
sentencepiece's ("\u2581" is a space, "<0xE4>" a byte).
"""

import re
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from zoo.errors import ZooError
from zoo.types import UnitKind

SPACES = ("\u0120", "\u2581")  # a space in pieces of either kind
STRONG = re.compile("[.!?:;。！？：；]")
BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def _byte_characters() -> dict[str, int]:
    """The byte of each character of a byte-level piece: printable bytes themselves, others from 256
    on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + place): byte for place, byte in enumerate(rest)
    }


BYTES = _byte_characters()


class Vocabulary:
    """Boundaries by token id; none at special (added) tokens and at ids beyond the tokenizer's.

    Attributes:
        starts: (vocabulary,) bool: the token begins a word, that is, with a space, which may be all
            of it. With unit "char": it begins a character; a space alone and a byte within a
            character do not.
        ends: (vocabulary,) bool: the token contains strong punctuation.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, unit: UnitKind) -> None:
        pieces = plain_pieces(tokenizer)
        size = max([*pieces, *tokenizer.added_tokens_decoder]) + 1
        byte_level = not any(piece.startswith(SPACES[1]) for piece in pieces.values())
        starts, ends = [False] * (size + 1), [False] * (size + 1)  # the last: all ids beyond
        for token, piece in pieces.items():
            starts[token] = (
                piece.startswith(SPACES) if unit == "word" else _begins_character(piece, byte_level)
            )
            ends[token] = STRONG.search(_spelled(piece) if byte_level else piece) is not None
        self._starts, self._ends = torch.tensor(starts), torch.tensor(ends)
        self.starts, self.ends = self._starts[:-1], self._ends[:-1]

    def word_starts(self, token_ids: Tensor) -> Tensor:
        """(n,) bool for ids (n,): true where a token begins a word (or character); the first token
        always does.
        """
        starts = self._starts[self._known(token_ids)]
        starts[:1] = True
        return starts

    def sentence_ends(self, token_ids: Tensor) -> Tensor:
        """(n,) bool for ids (n,): true where a token ends a sentence."""
        return self._ends[self._known(token_ids)]

    def words(self, token_ids: Sequence[int]) -> int:
        """Number of complete words (or characters) in ``token_ids``: those that another one
        follows.
        """
        return int(self._starts[self._known(torch.tensor(token_ids[1:], dtype=torch.long))].sum())

    def _known(self, token_ids: Tensor) -> Tensor:
        return token_ids.clamp(max=len(self._starts) - 1)


def plain_pieces(tokenizer: PreTrainedTokenizerBase) -> dict[int, str]:
    """Pieces by id, special (added) tokens left out."""
    special = tokenizer.added_tokens_decoder
    return {token: piece for piece, token in tokenizer.get_vocab().items() if token not in special}


def detokenise(tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int]) -> str:
    """The text of ids as it is, special tokens left out."""
    return str(
        tokenizer.decode(
            list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
    )


def token_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Ids of a text, no special token added."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []


def containing(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[int]:
    """Ids of all tokens but special ones whose text contains one of ``texts``.

    Raises:
        ZooError: For a text that no single token contains: its parts may occur in any other word.
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
    if piece in SPACES:
        return False
    byte = BYTE.fullmatch(piece)
    first = int(byte[1], 16) if byte else BYTES.get(piece[:1], 0) if byte_level else 0
    return not 0x80 <= first < 0xC0  # bytes within a character


def _spelled(piece: str) -> str:
    """The text of a byte-level piece, without incomplete characters."""
    return bytes(BYTES[sign] for sign in piece if sign in BYTES).decode(errors="ignore")
