"""Training batches of SeamlessM4T from excerpts of talks; runs in a data worker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from zoo.backbones.common.audio.spectrogram import Spectrogram
from zoo.backbones.common.encoder_decoder.data import decoder_rows
from zoo.backbones.common.teacher_forcing import IGNORED, TensorBatch, pad_ids
from zoo.backbones.seamless_m4t.encoder import training_features
from zoo.data.excerpts import Excerpt


@dataclass(slots=True)
class SpeechBatch(TensorBatch):
    """Features and decoder rows.

    Attributes:
        features: (B, F, 2 x bins), normalised over each row, zeros after its end.
        lengths: (B,) feature frames of each row.
        inputs: (B, T) decoder ids.
        labels: (B, T), the id that each input predicts, or ``IGNORED``.
    """

    features: Tensor
    lengths: Tensor
    inputs: Tensor
    labels: Tensor


@dataclass(frozen=True, slots=True)
class Collator:
    """Excerpts to a batch.

    Attributes:
        tokenizer: Of the text decoder.
        spectrogram: Of the encoder.
        opening: Decoder ids before a text, by language code.
        end: Id that ends a text.
        padding: Id after the end of shorter inputs.
        stride: Feature frames side by side.
    """

    tokenizer: PreTrainedTokenizerBase
    spectrogram: Spectrogram
    opening: Mapping[str, Sequence[int]]
    end: int
    padding: int
    stride: int

    def __call__(self, excerpts: Sequence[Excerpt]) -> SpeechBatch:
        """Given words are fed, but have no loss."""
        features = [
            training_features(self.spectrogram, excerpt.samples(), self.stride)
            for excerpt in excerpts
        ]
        rows = [
            decoder_rows(
                self.tokenizer,
                excerpt,
                opening=self.opening[excerpt.language.code],
                end=self.end,
            )
            for excerpt in excerpts
        ]
        return SpeechBatch(
            features=pad_sequence(features, batch_first=True),
            lengths=torch.tensor([len(one) for one in features]),
            inputs=pad_ids([inputs for inputs, _ in rows], self.padding),
            labels=pad_ids([labels for _, labels in rows], IGNORED),
        )
