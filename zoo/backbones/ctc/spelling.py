"""Conversion between texts and the character ids of a CTC head."""

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

from zoo.base.disk.files import write_text

BLANK, UNKNOWN, SPACE = "<pad>", "<unk>", "|"  # tokens of wav2vec 2.0


def character_tokenizer(letters: str) -> Wav2Vec2CTCTokenizer:
    """Return a tokenizer of single characters.

    The ids are: 0 for the blank, 1 for the unknown token, 2 for the space between words, then
    ``letters``.
    """
    vocabulary = {token: number for number, token in enumerate([BLANK, UNKNOWN, SPACE, *letters])}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.json"
        write_text(path, json.dumps(vocabulary, ensure_ascii=False))
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
    """A converter between texts and letter ids.

    Attributes:
        tokenizer: Character tokenizer in the format of wav2vec 2.0.
        blank: Id of the CTC blank.
        space: Id of the space between two words.
    """

    tokenizer: Any

    @property
    def blank(self) -> int:
        """Id of the CTC blank, the label of frames that emit no letter."""
        return int(self.tokenizer.pad_token_id)

    @property
    def space(self) -> int:
        """Id of the space between two words."""
        return int(self.tokenizer.word_delimiter_token_id)

    def plain(self, text: str) -> str:
        """Normalise a text for recognition.

        The text is put in lower case. Each character without an id is replaced by a space, and
        words are separated by single spaces.
        """
        vocabulary = self.tokenizer.get_vocab()
        characters = [character if character in vocabulary else " " for character in text.lower()]
        words = "".join(characters).split()
        return " ".join(words)

    def ids(self, text: str) -> Tensor:
        """Convert a text into (n,) int64 ids of its letters, with spaces between words."""
        return torch.tensor(self.tokenizer(self.plain(text)).input_ids, dtype=torch.long)

    def collapsed(self, path: Tensor) -> Tensor:
        """Collapse a path to its letters (Graves et al., 2006, section 3.1).

        Repetitions are merged, then blanks are removed. Spaces at the ends are removed, and several
        spaces between two words become one space.

        Args:
            path: (frames,) label of each frame.

        Returns:
            (n,) int64 letters, with single spaces between words.
        """
        labels = [label for label in torch.unique_consecutive(path).tolist() if label != self.blank]
        words = [
            list(word)
            for is_space, word in groupby(labels, key=lambda label: label == self.space)
            if not is_space
        ]
        collapsed: list[int] = []
        for word in words:
            if collapsed:
                collapsed.append(self.space)
            collapsed += word
        return torch.tensor(collapsed, dtype=torch.long)

    def text(self, ids: Sequence[int]) -> str:
        """Convert letter ids into a text, without blanks and unknown tokens."""
        tokens = self.tokenizer.convert_ids_to_tokens(list(ids))
        control = (BLANK, UNKNOWN, self.tokenizer.pad_token, self.tokenizer.unk_token)
        space = self.tokenizer.word_delimiter_token
        return "".join(" " if token == space else token for token in tokens if token not in control)
