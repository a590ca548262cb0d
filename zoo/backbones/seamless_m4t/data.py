"""Collation of excerpts of talks into training batches of SeamlessM4T, in data workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from zoo.backbones.architectures.encoder_decoder.data import decoder_rows
from zoo.backbones.decoding.teacher_forcing import IGNORED, pad_ids
from zoo.backbones.encoders.audio.spectrogram import Spectrogram
from zoo.backbones.excerpt import TrainingExcerpt
from zoo.backbones.seamless_m4t.encoder import training_features


@dataclass(slots=True)
class SpeechBatch:
    """A batch of source speech and decoder ids.

    Attributes:
        features: (B, F, 2 x bins) stacked filterbank features, normalised per row and padded with
            zeros.
        lengths: (B,) number of feature frames of each row, without padding.
        inputs: (B, T) input ids of the text decoder.
        labels: (B, T) id that the decoder predicts at each input, or ``IGNORED``.
    """

    features: Tensor
    lengths: Tensor
    inputs: Tensor
    labels: Tensor


@dataclass(frozen=True, slots=True)
class SeamlessCollator:
    """A function that converts excerpts into a batch.

    Attributes:
        tokenizer: Tokenizer of the text decoder.
        spectrogram: Filterbank of the encoder.
        opening: Decoder ids before a text (start and language), by the zoo's language code.
        end: Id of the token that ends a text.
        padding: Id that pads shorter inputs.
        stride: Number of filterbank frames stacked into a feature frame.
    """

    tokenizer: PreTrainedTokenizerBase
    spectrogram: Spectrogram
    opening: Mapping[str, Sequence[int]]
    end: int
    padding: int
    stride: int

    def __call__(self, excerpts: Sequence[TrainingExcerpt]) -> SpeechBatch:
        """Collate excerpts.

        The given prefix of an excerpt (``excerpt.prefix``) is fed to the decoder, but has no loss.
        """
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
            lengths=torch.tensor([len(row) for row in features]),
            inputs=pad_ids([inputs for inputs, _ in rows], self.padding),
            labels=pad_ids([labels for _, labels in rows], IGNORED),
        )
