"""CTC of the letters of target speech (Graves et al., 2006) and its phonemes frame by frame."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.base import Backbone
from zoo.backbones.common.teacher_forcing import IGNORED, TensorBatch
from zoo.backbones.ctc.augmentation import Augmentation
from zoo.backbones.ctc.ctc import CTC
from zoo.backbones.ctc.spelling import Spelling
from zoo.data.clips import Clip, ClipConfig
from zoo.data.sampling import Sampler
from zoo.data.talks import Talk, Word
from zoo.errors import ZooError
from zoo.objectives.base import Objective
from zoo.types import SAMPLE_RATE, Samples

PHONEMES = 1024  # classes of hashed phonemes: the set is unknown before all clips are synthesised


@dataclass
class RecognitionBatch(TensorBatch):
    """Augmented speech with its letters and phonemes.

    Attributes:
        values: (batch, frames, bands) filterbanks, see ``CTC.forward``.
        mask: (batch, frames) 1 inside, 0 in padding.
        letters: Labels of all rows, one row after the other.
        counts: (batch,) how many letters each row has.
        phonemes: (batch, frames) class of each frame, 0: no phoneme, IGNORED in padding.
    """

    values: Tensor
    mask: Tensor
    letters: Tensor
    counts: Tensor
    phonemes: Tensor


class Recognition(Objective):
    """CTC of the letters on the top layer plus cross-entropy of the phonemes on a middle layer.

    The times of the phonemes are the synthesiser's. With CTC alone, the model predicts only blanks
    for the first minutes of training.

    Args:
        letters: Weight of CTC.
        phonemes: Weight of the cross-entropy.
        phoneme_layer: Layer of the cross-entropy, from 1.
        augmentation: How the speech is augmented.
        seed: Of the augmentation.
        sampling: The clips to train on.
    """

    def __init__(
        self,
        *,
        letters: float = 1.0,
        phonemes: float = 1.0,
        phoneme_layer: int = 2,
        augmentation: Augmentation = Augmentation(),  # noqa: B008 (frozen)
        seed: int = 0,
        sampling: ClipConfig = ClipConfig(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(sampling)
        self.weights = (letters, phonemes)
        self.phoneme_layer = phoneme_layer
        self.augmentation = augmentation
        self.seed = seed
        self._spelling: Spelling | None = None
        self._extractor: Any = None
        self._span: tuple[Samples, Samples] = (0, 0)

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Take letters and features from the backbone; raises ZooError for another family."""
        if not isinstance(backbone, CTC):
            raise ZooError(
                f"The recognition objective trains CTC recognisers, not {type(backbone).__name__}."
            )
        config = backbone.network.config
        depth = config.num_hidden_layers
        if not 1 <= self.phoneme_layer <= depth:
            raise ZooError(f"phoneme_layer is one of 1 to {depth}, not {self.phoneme_layer}.")
        if config.layerdrop:
            raise ZooError(
                "The recognition objective needs backbone.config.layerdrop=0: it reads the output "
                "of a middle layer."
            )

        self._spelling = backbone.spelling
        self._extractor = backbone.extractor
        self._span = backbone.span
        self.head = nn.Linear(config.hidden_size, PHONEMES)

    def batch(self, examples: Sequence[Clip]) -> RecognitionBatch:
        """Augmented speech, its letters and its phonemes; shorter clips are zero-padded."""
        assert self._spelling is not None, "prepare comes first"
        random = np.random.default_rng(
            [self.seed, *(crc32(clip.excerpt.text.encode()) for clip in examples)]
        )
        features = self._extractor(
            [self.augmentation(clip.samples, random).numpy() for clip in examples],
            sampling_rate=SAMPLE_RATE,
            pad_to_multiple_of=None,
            return_tensors="pt",
        )

        letters = [self._spelling.ids(clip.excerpt.text) for clip in examples]
        phonemes = [
            frame_phonemes(clip.phonemes, len(clip.samples), self._span) for clip in examples
        ]
        return RecognitionBatch(
            values=features["input_features"],
            mask=features["attention_mask"],
            letters=torch.cat(letters),
            counts=torch.tensor([len(row) for row in letters]),
            phonemes=pad_sequence(phonemes, batch_first=True, padding_value=IGNORED),
        )

    def losses(self, backbone: Backbone, batch: RecognitionBatch) -> dict[str, Tensor]:
        """``loss``, its terms ``letters`` and ``phonemes``, and ``phoneme_accuracy``.

        Letters: CTC in nats per letter; phonemes and their accuracy: per frame.
        """
        assert isinstance(backbone, CTC), "prepare has checked it"
        output = backbone(batch.values, batch.mask)
        letters = backbone.loss(output, batch.letters, batch.counts)

        labelled = batch.phonemes != IGNORED
        labels = batch.phonemes[labelled]
        logits = self.head(output.hidden[self.phoneme_layer])[labelled].float()
        phonemes = F.cross_entropy(logits, labels)

        return {
            "loss": self.weights[0] * letters + self.weights[1] * phonemes,
            "letters": letters,
            "phonemes": phonemes,
            "phoneme_accuracy": (logits.argmax(-1) == labels).float().mean(),
        }


def frame_phonemes(
    phonemes: Sequence[Word], samples: Samples, span: tuple[Samples, Samples]
) -> Tensor:
    """The phoneme in the middle of each frame.

    Args:
        phonemes: With seconds from the first sample.
        samples: Length of the wave.
        span: Width and hop of a frame, see ``CTC.span``.

    Returns:
        (frames,) int64 classes; 0 where there is no phoneme.
    """
    width, hop = span
    labels = torch.zeros((samples - width) // hop + 1, dtype=torch.long)
    for phoneme in phonemes:
        times = (phoneme.start * SAMPLE_RATE, phoneme.end * SAMPLE_RATE)
        first, last = (max(0, math.ceil((time - width / 2) / hop)) for time in times)
        labels[first:last] = 1 + crc32(phoneme.text.encode()) % (PHONEMES - 1)
    return labels
