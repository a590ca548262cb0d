"""Collation of excerpts of talks into training batches of Wav2Text, in a data worker process."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from zoo.backbones.architectures.encoder_decoder.data import decoder_rows
from zoo.backbones.decoding.teacher_forcing import IGNORED, pad_ids
from zoo.backbones.encoders.wav2vec2.adapter import MERGED, pad_to_multiple
from zoo.backbones.excerpt import TrainingExcerpt
from zoo.backbones.wav2text.transcript import SourceWords
from zoo.base.types import Samples


@dataclass(slots=True)
class OfflineBatch:
    """Padded batch of audio, decoder inputs, target labels and source words.

    A memory frame is an output of the adapter, which the decoder's cross-attention attends to. One
    memory frame stands for 80 ms.

    Attributes:
        audio: (B, n) samples, or (B, n, hidden) frames of a frozen encoder. Shorter audio is padded
            with zeros.
        lengths: (B,) number of memory frames of each row, without padding.
        inputs: (B, T) decoder input ids.
        labels: (B, T) next id at each decoder position. ``IGNORED`` marks positions without loss.
        words: (sum of word_counts,) concatenated CTC labels of the source words of all rows.
        word_counts: (B,) number of source words of each row.
    """

    audio: Tensor
    lengths: Tensor
    inputs: Tensor
    labels: Tensor
    words: Tensor
    word_counts: Tensor


@dataclass(frozen=True, slots=True)
class Wav2TextCollator:
    """Collates excerpts of talks into a padded batch.

    Attributes:
        tokenizer: Tokenizer of the translations.
        source_words: Vocabulary of the CTC head.
        opening: Decoder ids before the translation.
        end: Id after the translation.
        padding: Id that pads shorter decoder inputs.
        frame_samples: Number of audio samples per memory frame.
    """

    tokenizer: PreTrainedTokenizerBase
    source_words: SourceWords
    opening: tuple[int, ...]
    end: int
    padding: int
    frame_samples: Samples

    def __call__(self, excerpts: Sequence[TrainingExcerpt]) -> OfflineBatch:
        """Build a batch.

        Args:
            excerpts: Excerpts that all have audio or all have frames of a frozen encoder.
        """
        # length of one memory frame: in samples, or in frames of the frozen encoder
        size = self.frame_samples if excerpts[0].frames is None else MERGED
        audio = [
            pad_to_multiple(excerpt.samples() if excerpt.frames is None else excerpt.frames, size)
            for excerpt in excerpts
        ]

        rows = [
            decoder_rows(self.tokenizer, excerpt, opening=self.opening, end=self.end)
            for excerpt in excerpts
        ]
        words = [self.source_words.ids(excerpt.source) for excerpt in excerpts]
        return OfflineBatch(
            audio=pad_sequence(audio, batch_first=True),
            lengths=torch.tensor([len(signal) // size for signal in audio]),
            inputs=pad_ids([inputs for inputs, _ in rows], self.padding),
            labels=pad_ids([labels for _, labels in rows], IGNORED),
            words=torch.tensor([word for row in words for word in row], dtype=torch.long),
            word_counts=torch.tensor([len(row) for row in words]),
        )
