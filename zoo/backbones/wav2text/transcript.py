"""Source words as labels of a CTC head (Graves et al., 2006)."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from zoo.data.spelling import spelling
from zoo.errors import ZooError

FILE = "source_words.json"
BLANK = 0


@dataclass(frozen=True, slots=True)
class SourceWords:
    """The words of transcripts, without case and punctuation; ids begin at 1, after the blank."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, spoken: Iterable[str]) -> "SourceWords":
        """All words of ``spoken``, in alphabetical order."""
        return cls(tuple(sorted({word for text in spoken if (word := spelling(text))})))

    @classmethod
    def read(cls, folder: Path) -> "SourceWords":
        """Read what ``write`` wrote to ``folder``.

        Raises ZooError when it is missing or damaged.
        """
        path = folder / FILE
        try:
            words = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ZooError(
                f"{path} is missing or damaged; it lists the source words a transcript can have."
            ) from error
        if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            raise ZooError(f"{path} is damaged: it must be a list of words.")
        return cls(tuple(words))

    def write(self, folder: Path) -> None:
        """Write the list to ``folder``."""
        text = json.dumps(self.words, ensure_ascii=False, indent=0)
        (folder / FILE).write_text(text + "\n", encoding="utf-8")

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, spoken: Sequence[str]) -> list[int]:
        """Labels of spoken words; words that are not in the list are left out."""
        known = {word: label for label, word in enumerate(self.words, start=1)}
        return [known[word] for text in spoken if (word := spelling(text)) in known]

    def text(self, labels: Sequence[int]) -> str:
        """Words, joined by spaces."""
        return " ".join(self.words[label - 1] for label in labels)


def best_path(logits: Tensor) -> list[int]:
    """Labels of the best path of (frames, 1 + words) logits, without repetitions and blanks."""
    path = torch.unique_consecutive(logits.argmax(dim=-1))
    return [label for label in path.tolist() if label != BLANK]
