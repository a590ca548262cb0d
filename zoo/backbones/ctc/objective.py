"""Training objective of CTC recognisers: CTC on letters, cross-entropy on frame phonemes.

CTC is described by Graves et al. (2006).
"""

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
from zoo.backbones.ctc.augmentation import Augmentation
from zoo.backbones.ctc.ctc import CTC
from zoo.backbones.ctc.spelling import Spelling
from zoo.backbones.decoding.teacher_forcing import IGNORED
from zoo.backbones.objective import Objective
from zoo.base.errors import ZooError
from zoo.base.talks import Talk, Word
from zoo.base.types import SAMPLE_RATE, Samples
from zoo.data.clips import Clip, ClipConfig
from zoo.data.sampling import Sampler

# Phonemes are hashed into classes: the set of phonemes is unknown before all clips are synthesised
PHONEMES = 1024


@dataclass
class RecognitionBatch:
    """A batch of augmented speech with letter labels and phoneme labels.

    Attributes:
        values: (batch, frames, bands) filterbank features.
        mask: (batch, frames) 1 for frames, 0 for padding.
        letters: (letters of all rows,) concatenated letter ids of the rows.
        counts: (batch,) number of letters of each row.
        phonemes: (batch, frames) phoneme class of each frame: 0 for no phoneme, IGNORED for
            padding.
    """

    values: Tensor
    mask: Tensor
    letters: Tensor
    counts: Tensor
    phonemes: Tensor


class Recognition(Objective):
    """The objective that trains a CTC recogniser on synthesised speech.

    The loss is a weighted sum of two terms. The CTC loss of the letters applies to the top layer.
    The cross-entropy of the phonemes applies to a middle layer, frame by frame, with phoneme times
    from the speech synthesiser. With the CTC loss alone, the model predicts only blanks for the
    first minutes of training.

    Args:
        letters: Weight of the CTC loss.
        phonemes: Weight of the cross-entropy of the phonemes.
        phoneme_layer: Layer whose output predicts the phonemes, counted from 1.
        augmentation: Random augmentation of the speech.
        seed: Seed of the augmentation.
        sampling: Configuration of the clips to train on.
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
        """Take spelling and feature extractor from the backbone; create the phoneme classifier.

        Args:
            talks: Ignored; the talks of the training set.
            backbone: Loaded CTC recogniser.
            samplers: Ignored; the samplers of the training clips.

        Raises:
            ZooError: If the backbone is no CTC recogniser, has no layer ``phoneme_layer``, or skips
                layers at random (layerdrop).
        """
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
        """Augment clips and collate them; shorter clips are zero-padded."""
        assert self._spelling is not None, "call prepare first"

        # The same clips are augmented in the same way in every run and in every data worker
        text_hashes = [crc32(clip.excerpt.text.encode()) for clip in examples]
        generator = np.random.default_rng([self.seed, *text_hashes])
        waves = [self.augmentation(clip.samples, generator).numpy() for clip in examples]
        features = self._extractor(
            waves,
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

    def tokens(self, batch: RecognitionBatch) -> int:
        """Return the number of letters."""
        return len(batch.letters)

    def losses(self, backbone: Backbone, batch: RecognitionBatch) -> dict[str, Tensor]:
        """Compute the losses of a batch.

        Args:
            backbone: CTC recogniser that is trained.
            batch: Collated clips.

        Returns:
            ``loss``, the weighted sum; ``letters``, the CTC loss in nats per letter; ``phonemes``,
            the cross-entropy in nats per frame; and ``phoneme_accuracy``, the share of frames whose
            phoneme is predicted.
        """
        assert isinstance(backbone, CTC), "prepare checks the class"
        output = backbone(batch.values, batch.mask)
        letters = backbone.loss(output, batch.letters, batch.counts)

        is_labelled = batch.phonemes != IGNORED  # (batch, frames)
        labels = batch.phonemes[is_labelled]  # (labelled frames,)
        logits = self.head(output.hidden[self.phoneme_layer])[is_labelled].float()
        phonemes = F.cross_entropy(logits, labels)

        letter_weight, phoneme_weight = self.weights
        return {
            "loss": letter_weight * letters + phoneme_weight * phonemes,
            "letters": letters,
            "phonemes": phonemes,
            "phoneme_accuracy": (logits.argmax(-1) == labels).float().mean(),
        }


def frame_phonemes(
    phonemes: Sequence[Word], samples: Samples, span: tuple[Samples, Samples]
) -> Tensor:
    """Return the class of the phoneme in the middle of each frame.

    Args:
        phonemes: Phonemes with start and end in seconds from the first sample.
        samples: Number of samples of the wave.
        span: Width of a frame, and distance from one frame to the next, in samples.

    Returns:
        (frames,) int64 classes; 0 for frames without a phoneme.
    """
    width, hop = span
    labels = torch.zeros((samples - width) // hop + 1, dtype=torch.long)
    for phoneme in phonemes:
        # Frame i has its middle at sample i * hop + width / 2
        first_frame = math.ceil((phoneme.start * SAMPLE_RATE - width / 2) / hop)
        end_frame = math.ceil((phoneme.end * SAMPLE_RATE - width / 2) / hop)
        phoneme_class = 1 + crc32(phoneme.text.encode()) % (PHONEMES - 1)
        labels[max(0, first_frame) : max(0, end_frame)] = phoneme_class
    return labels
