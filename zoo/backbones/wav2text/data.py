"""From excerpts to what the small offline model is trained on. Runs in a data worker; knows no network."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from zoo.backbones.common.wav2vec2.adapter import MERGED, filled
from zoo.backbones.wav2text.transcript import SourceWords
from zoo.data.excerpts import Excerpt
from zoo.types import Samples

IGNORED = -100


@dataclass(slots=True)
class OfflineBatch:
    """heard: samples (B, n) or the encoder's frames (B, n, hidden), zeros after the end.

    lengths: (B,) frames of the memory that are no padding.
    inputs, labels: (B, T) decoder ids and what each predicts. words: all rows' source words, one after the other;
    word_counts: (B,).
    """

    heard: Tensor
    lengths: Tensor
    inputs: Tensor
    labels: Tensor
    words: Tensor
    word_counts: Tensor

    def to(self, device: torch.device) -> "OfflineBatch":
        """The same batch on ``device``."""
        return OfflineBatch(*(getattr(self, name).to(device) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Collator:
    """Excerpts to a batch. opening: decoder ids before the text. frame_samples: per frame of the memory."""

    tokenizer: PreTrainedTokenizerBase
    source_words: SourceWords
    opening: tuple[int, ...]
    end: int
    padding: int
    frame_samples: Samples

    def __call__(
        self, excerpts: Sequence[Excerpt], frames: Sequence[Tensor] | None = None
    ) -> OfflineBatch:
        """Shorter excerpts are filled up with zeros, shorter texts with padding.

        frames: (frames, hidden) each, where the encoder has been run.
        """
        if frames is None:
            size, heard = self.frame_samples, [excerpt.samples() for excerpt in excerpts]
        else:
            size, heard = MERGED, list(frames)
        heard = [filled(one, size) for one in heard]
        texts = [self._ids(excerpt.text) for excerpt in excerpts]
        inputs = [torch.tensor([*self.opening, *ids]) for ids in texts]
        silent = [len(self.opening) - 1 + len(self._ids(excerpt.prefix)) for excerpt in excerpts]
        labels = [torch.cat([row[1:], torch.tensor([self.end])]) for row in inputs]
        for row, forced in zip(labels, silent, strict=True):
            row[:forced] = IGNORED
        words = [self.source_words.ids(excerpt.source) for excerpt in excerpts]
        return OfflineBatch(
            heard=pad_sequence(heard, batch_first=True),
            lengths=torch.tensor([len(one) // size for one in heard]),
            inputs=pad_sequence(inputs, batch_first=True, padding_value=self.padding),
            labels=pad_sequence(labels, batch_first=True, padding_value=IGNORED),
            words=torch.tensor([word for row in words for word in row], dtype=torch.long),
            word_counts=torch.tensor([len(row) for row in words]),
        )

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))
