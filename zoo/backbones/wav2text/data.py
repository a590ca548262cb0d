"""Training batches of the small offline model from excerpts of talks; runs in a data worker."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from zoo.backbones.common.encoder_decoder.data import decoder_rows
from zoo.backbones.common.teacher_forcing import IGNORED, TensorBatch, pad_ids
from zoo.backbones.common.wav2vec2.adapter import MERGED, pad_to_multiple
from zoo.backbones.wav2text.transcript import SourceWords
from zoo.data.excerpts import Excerpt
from zoo.types import Samples


@dataclass(slots=True)
class OfflineBatch(TensorBatch):
    """Audio, decoder rows and source words.

    Attributes:
        audio: (B, n) samples or (B, n, hidden) frames of the encoder, zeros after the end.
        lengths: (B,) frames of the memory that are no padding.
        inputs: (B, T) decoder ids.
        labels: (B, T), the id that each input predicts, or ``IGNORED``.
        words: Source words of all rows, one after the other.
        word_counts: (B,) source words of each row.
    """

    audio: Tensor
    lengths: Tensor
    inputs: Tensor
    labels: Tensor
    words: Tensor
    word_counts: Tensor


@dataclass(frozen=True, slots=True)
class Collator:
    """Excerpts to a batch.

    Attributes:
        tokenizer: Of the decoder.
        source_words: Labels of the transcript.
        opening: Decoder ids before the text.
        end: Id that ends a text.
        padding: Id after the end of shorter inputs.
        frame_samples: Samples per frame of the memory.
    """

    tokenizer: PreTrainedTokenizerBase
    source_words: SourceWords
    opening: tuple[int, ...]
    end: int
    padding: int
    frame_samples: Samples

    def __call__(self, excerpts: Sequence[Excerpt]) -> OfflineBatch:
        """Shorter audio, or frames of a frozen encoder, are padded with zeros."""
        size = self.frame_samples if excerpts[0].frames is None else MERGED
        audio = [e.samples() if e.frames is None else e.frames for e in excerpts]
        audio = [pad_to_multiple(one, size) for one in audio]
        rows = [
            decoder_rows(self.tokenizer, excerpt, opening=self.opening, end=self.end)
            for excerpt in excerpts
        ]
        words = [self.source_words.ids(excerpt.source) for excerpt in excerpts]
        return OfflineBatch(
            audio=pad_sequence(audio, batch_first=True),
            lengths=torch.tensor([len(one) // size for one in audio]),
            inputs=pad_ids([inputs for inputs, _ in rows], self.padding),
            labels=pad_ids([labels for _, labels in rows], IGNORED),
            words=torch.tensor([word for row in words for word in row], dtype=torch.long),
            word_counts=torch.tensor([len(row) for row in words]),
        )
