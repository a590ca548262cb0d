"""Frame-wise phonemes and words: teaches an encoder to hear before anything is translated.

It stands where a small model has no pre-trained wav2vec 2.0. The labels are the synthesiser's own time stamps.
An encoder whose decoder reads no positions may learn them here, too: where in its audio a frame is.
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
from zoo.data.robust_segments import Stretch
from zoo.data.spelling import spelling
from zoo.data.talks import Talk, Word
from zoo.errors import ZooError
from zoo.objectives.base import Objective
from zoo.types import SAMPLE_RATE, Samples, Seconds


@dataclass(slots=True)
class FrameBatch:
    """samples: (B, n). phonemes, words: (B, frames) class per frame, 0 is none. multiplier: m of the batch."""

    samples: Tensor
    phonemes: Tensor
    words: Tensor
    multiplier: int

    def to(self, device: torch.device) -> "FrameBatch":
        """The same batch on ``device``."""
        return FrameBatch(
            self.samples.to(device),
            self.phonemes.to(device),
            self.words.to(device),
            self.multiplier,
        )


class FrameLabels(Objective):
    """Cross-entropy of phonemes on a middle layer and of words on the top layer.

    hidden_size: width of the encoder. frame_samples: samples per label. labels_per_frame: of the encoder.
    places: wavelengths of sines and cosines of the time that the top layer is to tell; none by default. place_weight:
    of their mean squared error.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        frame_samples: Samples = 320,
        labels_per_frame: int = 1,
        places: Sequence[Seconds] = (),
        place_weight: float = 2.0,
    ) -> None:
        super().__init__()
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

    def prepare(self, talks: Sequence[Talk], backbone: Backbone) -> None:
        """Collect the label sets of the training talks. Raises ZooError when they carry no phonemes."""
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
            self.heads[name] = nn.Linear(
                self.hidden_size, self.labels_per_frame * (len(labels) + 1)
            )
        if self.places:
            self.heads["places"] = nn.Linear(self.hidden_size, 2 * len(self.places))

    def batch(
        self, stretches: Sequence[Stretch], multiplier: int, frames: Sequence[Tensor] | None = None
    ) -> FrameBatch:
        """Labels of every frame of every stretch. They train the encoder, so it cannot have been run."""
        assert frames is None, "run.fit has checked it"
        phonemes = [
            self._frames(stretch, "phonemes", stretch.talk.labels["phonemes"])
            for stretch in stretches
        ]
        words = [
            self._frames(
                stretch, "words", [word for segment in stretch.segments for word in segment.words]
            )
            for stretch in stretches
        ]
        samples = pad_sequence([stretch.samples() for stretch in stretches], batch_first=True)
        padded = [pad_sequence(kind, batch_first=True) for kind in (phonemes, words)]
        return FrameBatch(samples, padded[0], padded[1], multiplier)

    def losses(self, backbone: Backbone, batch: FrameBatch) -> dict[str, Tensor]:
        """``loss`` of ``phonemes``, ``words`` and perhaps ``places``; ``word_accuracy`` over frames with a word."""
        assert isinstance(backbone, FrameEncoder), "prepare has checked it"
        hidden, middle = backbone.encode_training(batch.samples, batch.multiplier)
        phonemes = functional.cross_entropy(
            self._logits("phonemes", middle).flatten(0, 1), batch.phonemes.flatten()
        )
        logits = self._logits("words", hidden)
        words = functional.cross_entropy(logits.flatten(0, 1), batch.words.flatten())
        spoken = batch.words > 0
        accuracy = (logits.argmax(-1) == batch.words)[spoken].float().mean()
        losses = {
            "loss": phonemes + words,
            "phonemes": phonemes,
            "words": words,
            "word_accuracy": accuracy,
        }
        if self.places:
            told = self.heads["places"](hidden).float()
            seconds = (
                torch.arange(told.shape[1], device=told.device)
                * self.labels_per_frame
                * self.frame_seconds
            )
            places = functional.mse_loss(told, waves(seconds, self.places).expand_as(told))
            losses |= {"loss": losses["loss"] + self.place_weight * places, "places": places}
        return losses

    @property
    def frame_seconds(self) -> Seconds:
        """Of a label."""
        return self.frame_samples / SAMPLE_RATE

    def _logits(self, kind: str, hidden: Tensor) -> Tensor:
        """(B, T, hidden) to (B, T x labels_per_frame, classes)."""
        return (
            self.heads[kind](hidden)
            .float()
            .unflatten(-1, (self.labels_per_frame, -1))
            .flatten(1, 2)
        )

    def _frames(self, stretch: Stretch, kind: str, labels: Iterable[Word]) -> Tensor:
        frames = np.zeros(
            stretch.chunks * stretch.chunk_samples // self.frame_samples, dtype=np.int64
        )
        rate = SAMPLE_RATE / self.frame_samples
        for word in labels:
            first = max(0, round((word.start - stretch.start) * rate))
            last = round((word.end - stretch.start) * rate)
            if last > 0 and first < len(frames):
                label = word.text if kind == "phonemes" else spelling(word.text)
                frames[first:last] = self.classes[kind].get(label, 0)
        return torch.from_numpy(frames)


def waves(seconds: Tensor, lengths: Sequence[Seconds]) -> Tensor:
    """(n,) times to (n, 2 x lengths): sines, then cosines of these wavelengths."""
    turns = 2 * math.pi * seconds[:, None] / seconds.new_tensor(lengths)
    return torch.cat([turns.sin(), turns.cos()], dim=1)
