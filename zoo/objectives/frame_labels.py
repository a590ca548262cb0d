"""Frame-wise phonemes and words: trains an encoder before any translation is trained.

This stage replaces the pre-training of wav2vec 2.0 in small models. The labels are the
synthesiser's own time stamps. An encoder under a decoder that reads no positions can learn the
position of a frame in its audio here, too.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.base import Backbone, FrameEncoder
from zoo.data.robust_segments import RobustSegment, RobustSegmentConfig
from zoo.data.sampling import Sampler
from zoo.data.spelling import spelling
from zoo.data.talks import Talk, Word
from zoo.errors import ZooError
from zoo.objectives.base import Objective
from zoo.types import SAMPLE_RATE, Samples, Seconds


@dataclass(slots=True)
class FrameBatch:
    """Audio with one label per frame.

    Attributes:
        samples: (batch, n) audio.
        phonemes: (batch, frames) class of the phoneme; 0: no phoneme.
        words: (batch, frames) class of the word; 0: no word.
        multiplier: Latency multiplier m of the batch.
    """

    samples: Tensor
    phonemes: Tensor
    words: Tensor
    multiplier: int

    def to(self, device: torch.device) -> "FrameBatch":
        """The same batch on ``device``."""
        samples, phonemes, words = (
            tensor.to(device) for tensor in (self.samples, self.phonemes, self.words)
        )
        return FrameBatch(samples, phonemes, words, self.multiplier)


class FrameLabels(Objective):
    """Cross-entropy of phonemes on a middle layer and of words on the top layer.

    Args:
        hidden_size: Width of the encoder.
        frame_samples: Samples per label.
        labels_per_frame: Labels per frame of the encoder.
        places: Wavelengths of the sines and cosines of time that the top layer predicts.
        place_weight: Weight of their mean squared error.
        sampling: The robust segments to train on.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        frame_samples: Samples = 320,
        labels_per_frame: int = 1,
        places: Sequence[Seconds] = (),
        place_weight: float = 2.0,
        sampling: RobustSegmentConfig = RobustSegmentConfig(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(sampling)
        if any(length <= 0 for length in places) or place_weight < 0:
            raise ZooError(
                "frame_labels needs places above 0 seconds and a place_weight of at least 0, "
                f"not {list(places)} and {place_weight}."
            )
        self.hidden_size = hidden_size
        self.frame_samples = frame_samples
        self.labels_per_frame = labels_per_frame
        self.places = tuple(places)
        self.place_weight = place_weight
        self.classes: dict[str, dict[str, int]] = {}
        self.heads = nn.ModuleDict()

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Collect the labels of the training talks; raises ZooError for talks without phonemes."""
        if not isinstance(backbone, FrameEncoder):
            raise ZooError(
                f"The encoder of {type(backbone).__name__} cannot be trained frame by frame."
            )
        phonemes = {word.text for talk in talks for word in talk.labels.get("phonemes", ())}
        if not phonemes:
            raise ZooError(
                "The training talks carry no phoneme times; the frame_labels objective needs them."
            )
        words = {
            spelling(word.text)
            for talk in talks
            for segment in talk.segments
            for word in segment.words
        }

        for name, labels in (("phonemes", phonemes), ("words", words)):
            self.classes[name] = {
                label: index for index, label in enumerate(sorted(labels), start=1)
            }
            outputs = self.labels_per_frame * (len(labels) + 1)
            self.heads[name] = nn.Linear(self.hidden_size, outputs)
        if self.places:
            self.heads["places"] = nn.Linear(self.hidden_size, 2 * len(self.places))

    def batch(self, examples: Sequence[RobustSegment]) -> FrameBatch:
        """Audio of the segments and the labels of every frame."""
        phonemes = [
            self._labels(segment, "phonemes", segment.talk.labels["phonemes"])
            for segment in examples
        ]
        words = [
            self._labels(segment, "words", [word for s in segment.segments for word in s.words])
            for segment in examples
        ]

        return FrameBatch(
            samples=pad_sequence([segment.samples() for segment in examples], batch_first=True),
            phonemes=pad_sequence(phonemes, batch_first=True),
            words=pad_sequence(words, batch_first=True),
            multiplier=examples[0].multiplier,
        )

    def losses(self, backbone: Backbone, batch: FrameBatch) -> dict[str, Tensor]:
        """``loss``, its terms ``phonemes``, ``words`` and ``places``, and ``word_accuracy``.

        The accuracy is that of the frames that have a word.
        """
        assert isinstance(backbone, FrameEncoder), "prepare has checked it"
        hidden, middle = backbone.encode_training(batch.samples, batch.multiplier)
        phoneme_logits = self._logits("phonemes", middle)
        phonemes = functional.cross_entropy(phoneme_logits.flatten(0, 1), batch.phonemes.flatten())
        logits = self._logits("words", hidden)
        words = functional.cross_entropy(logits.flatten(0, 1), batch.words.flatten())

        labelled = batch.words > 0
        accuracy = (logits.argmax(-1) == batch.words)[labelled].float().mean()
        losses = {
            "loss": phonemes + words,
            "phonemes": phonemes,
            "words": words,
            "word_accuracy": accuracy,
        }
        if self.places:
            places = self._place_error(hidden)
            losses |= {"loss": losses["loss"] + self.place_weight * places, "places": places}
        return losses

    def _place_error(self, hidden: Tensor) -> Tensor:
        """Mean squared error of the predicted time of each frame of (batch, T, hidden)."""
        predicted = self.heads["places"](hidden).float()
        frames = torch.arange(predicted.shape[1], device=predicted.device)
        seconds = frames * self.labels_per_frame * (self.frame_samples / SAMPLE_RATE)
        return functional.mse_loss(predicted, waves(seconds, self.places).expand_as(predicted))

    def _logits(self, kind: str, hidden: Tensor) -> Tensor:
        """(batch, T, hidden) to (batch, T x labels_per_frame, classes)."""
        logits: Tensor = self.heads[kind](hidden).float()
        return logits.reshape(len(logits), -1, logits.shape[-1] // self.labels_per_frame)

    def _labels(self, segment: RobustSegment, kind: str, timed: Iterable[Word]) -> Tensor:
        """(frames,) int64: the class of what is spoken in each frame."""
        labels = np.zeros(
            segment.chunks * segment.chunk_samples // self.frame_samples, dtype=np.int64
        )
        rate = SAMPLE_RATE / self.frame_samples
        for word in timed:
            first = max(0, round((word.start - segment.start) * rate))
            last = round((word.end - segment.start) * rate)
            if last > 0 and first < len(labels):
                label = word.text if kind == "phonemes" else spelling(word.text)
                labels[first:last] = self.classes[kind].get(label, 0)
        return torch.from_numpy(labels)


def waves(seconds: Tensor, wavelengths: Sequence[Seconds]) -> Tensor:
    """Sines, then cosines of times (n,): (n, 2 x wavelengths)."""
    phases = 2 * math.pi * seconds[:, None] / seconds.new_tensor(wavelengths)
    return torch.cat([phases.sin(), phases.cos()], dim=1)
