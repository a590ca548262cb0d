"""Texts as characters of a CTC head."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Wav2Vec2CTCTokenizer

BLANK, UNKNOWN, SPACE = "<pad>", "<unk>", "|"  # as wav2vec 2.0 has them


def character_tokenizer(letters: str) -> Wav2Vec2CTCTokenizer:
    """A tokenizer with blank (0), unknown token, space between words and ``letters``."""
    vocabulary = {token: number for number, token in enumerate([BLANK, UNKNOWN, SPACE, *letters])}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.json"
        path.write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
        return Wav2Vec2CTCTokenizer(
            str(path),
            pad_token=BLANK,
            unk_token=UNKNOWN,
            bos_token=None,
            eos_token=None,
            word_delimiter_token=SPACE,
        )


@dataclass(frozen=True)
class Spelling:
    """Ids of letters.

    Attributes:
        tokenizer: Of a wav2vec 2.0.
        blank: Id of a frame that begins no letter.
        space: Id between two words.
    """

    tokenizer: Any

    @property
    def blank(self) -> int:
        """Id of a frame that begins no letter."""
        return int(self.tokenizer.pad_token_id)

    @property
    def space(self) -> int:
        """The id between two words."""
        return int(self.tokenizer.word_delimiter_token_id)

    def plain(self, text: str) -> str:
        """The text in lower case; characters without an id end a word."""
        known = self.tokenizer.get_vocab()
        return " ".join("".join(sign if sign in known else " " for sign in text.lower()).split())

    def ids(self, text: str) -> Tensor:
        """(n,) int64 of its letters, with spaces between words."""
        return torch.tensor(self.tokenizer(self.plain(text)).input_ids, dtype=torch.long)

    def collapsed(self, path: Tensor) -> Tensor:
        """(n,) letters and single spaces between words of a path (frames,)."""
        labels = [label for label in torch.unique_consecutive(path).tolist() if label != self.blank]
        words = [
            list(word)
            for is_space, word in groupby(labels, key=lambda label: label == self.space)
            if not is_space
        ]
        spaced = [label for word in words for label in (self.space, *word)]
        return torch.tensor(spaced[1:], dtype=torch.long)

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        pieces = self.tokenizer.convert_ids_to_tokens(list(ids))
        control = (BLANK, UNKNOWN, self.tokenizer.pad_token, self.tokenizer.unk_token)
        space = self.tokenizer.word_delimiter_token
        return "".join(" " if piece == space else piece for piece in pieces if piece not in control)
