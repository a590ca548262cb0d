"""Vocabulary of source words for a CTC head, and greedy CTC decoding (Graves et al., 2006)."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import read_json
from zoo.base.errors import ZooError
from zoo.base.languages import spelling

FILE = "source_words.json"
BLANK = 0


@dataclass(frozen=True, slots=True)
class SourceWords:
    """Vocabulary of source words for the CTC head.

    Words have no upper case and no punctuation. Label 0 is the CTC blank; the labels of words begin
    at 1.

    Attributes:
        words: Words in the order of their labels.
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, spoken: Iterable[str]) -> "SourceWords":
        """Build the vocabulary of transcript words; labels follow the alphabetical order."""
        spellings = {spelling(text) for text in spoken}
        return cls(tuple(sorted(word for word in spellings if word)))

    @classmethod
    def read(cls, folder: Path) -> "SourceWords":
        """Read the vocabulary that ``write`` saved in ``folder``.

        Raises ZooError if the file is missing or is not a JSON list of strings.
        """
        path = folder / FILE
        try:
            words = read_json(path)
        except (OSError, ValueError) as error:
            raise ZooError(
                f"{path} is missing or damaged; it lists the source words a transcript can have."
            ) from error
        if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            raise ZooError(f"{path} is damaged: it must be a list of words.")
        return cls(tuple(words))

    def write(self, folder: Path) -> None:
        """Write the vocabulary to ``source_words.json`` in ``folder``."""
        text = json.dumps(self.words, ensure_ascii=False, indent=0)
        write_text(folder / FILE, text + "\n")

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, spoken: Sequence[str]) -> list[int]:
        """Return the CTC labels of transcript words; words outside the vocabulary are skipped."""
        labels = {word: label for label, word in enumerate(self.words, start=1)}
        spellings = [spelling(text) for text in spoken]
        return [labels[word] for word in spellings if word in labels]

    def text(self, labels: Sequence[int]) -> str:
        """Return the words of CTC labels (blanks excluded), joined by spaces."""
        return " ".join(self.words[label - 1] for label in labels)


def best_path(logits: Tensor) -> list[int]:
    """Decode CTC logits greedily: merge repeated labels, then remove blanks.

    Args:
        logits: (frames, 1 + words) logits of the CTC head.

    Returns:
        Labels of the words, in the order of the audio.
    """
    path = torch.unique_consecutive(logits.argmax(dim=-1))
    return [label for label in path.tolist() if label != BLANK]


def label_frames(logits: Tensor, merged: int) -> Tensor:
    """Align the labels of ``best_path`` with frames.

    The weight of a label at a frame is its probability where the best path has it, and 0 elsewhere.

    Args:
        logits: (frames, 1 + words) logits of the CTC head.
        merged: Number of frames whose weights are summed to one; the number of frames is a multiple
            of it.

    Returns:
        (labels, frames / merged) weights.
    """
    path = logits.argmax(dim=-1)  # (frames,)
    probability = logits.softmax(dim=-1).gather(1, path[:, None])[:, 0]
    labels, run = torch.unique_consecutive(path, return_inverse=True)
    in_run = run == torch.arange(len(labels), device=run.device)[:, None]  # (runs, frames)
    weights = torch.where(in_run, probability, 0)[labels != BLANK]
    return weights.reshape(len(weights), len(path) // merged, merged).sum(dim=2)
