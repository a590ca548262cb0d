"""Objective that trains an encoder to classify the phoneme and the word of each audio frame.

In small models, a stage with this objective replaces the pre-training of wav2vec 2.0. The labels
are the phoneme and word times of synthesised speech. The encoder can also learn the time of each
frame, which a decoder without position embeddings needs.
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
from zoo.backbones.objective import Objective
from zoo.base.errors import ZooError
from zoo.base.languages import spelling
from zoo.base.talks import Talk, Word
from zoo.base.types import SAMPLE_RATE, Samples, Seconds
from zoo.data.robust_segments import RobustSegment, RobustSegmentConfig
from zoo.data.sampling import Sampler


@dataclass(slots=True)
class FrameBatch:
    """Padded batch of audio with a phoneme class and a word class per label frame.

    Attributes:
        samples: (B, n) audio samples, zero-padded.
        phonemes: (B, frames) class of the phoneme in each frame; 0 means no phoneme.
        words: (B, frames) class of the word in each frame; 0 means no word.
        multiplier: Latency multiplier m of the batch.
    """

    samples: Tensor
    phonemes: Tensor
    words: Tensor
    multiplier: int


class FrameLabels(Objective):
    """Objective with cross-entropy of phonemes on a middle layer and of words on the top layer.

    An example is a robust segment: consecutive audio chunks of a whole talk, silence included
    (InfiniSST, section 3.3).

    Args:
        hidden_size: Width of the encoder.
        frame_samples: Number of audio samples per label.
        labels_per_frame: Number of labels per encoder frame.
        places: Wavelengths in seconds. The top layer predicts a sine and a cosine of the frame's
            time for each wavelength. An empty sequence adds no prediction of time.
        place_weight: Weight of the mean squared error of the predicted sines and cosines.
        sampling: Options of the robust segments to train on.

    Raises:
        ZooError: A wavelength is not positive, or ``place_weight`` is negative.
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
        """Collect the labels of the training talks and create the classification heads.

        Args:
            talks: Training talks.
            backbone: Loaded backbone.
            samplers: Samplers of the stages that have this objective; not used.

        Raises:
            ZooError: The backbone has no frame-wise encoder, or no talk has phoneme times.
        """
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
        """Collate the audio and the frame labels of robust segments."""
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

    def tokens(self, batch: FrameBatch) -> int:
        """Return the number of label frames."""
        return batch.phonemes.numel()

    def losses(self, backbone: Backbone, batch: FrameBatch) -> dict[str, Tensor]:
        """Compute the losses of a batch.

        Args:
            backbone: Backbone whose encoder is trained.
            batch: Batch of ``batch``.

        Returns:
            Scalars ``phonemes`` and ``words`` (cross-entropies), ``places`` (mean squared error of
            the predicted time, only with wavelengths), ``loss`` (weighted sum) and
            ``word_accuracy`` (over the frames that have a word).
        """
        assert isinstance(backbone, FrameEncoder), "prepare has checked the backbone"
        hidden, middle = backbone.encode_training(batch.samples, batch.multiplier)
        phoneme_logits = self._logits("phonemes", middle)
        phoneme_loss = functional.cross_entropy(
            phoneme_logits.flatten(0, 1), batch.phonemes.flatten()
        )
        word_logits = self._logits("words", hidden)
        word_loss = functional.cross_entropy(word_logits.flatten(0, 1), batch.words.flatten())

        has_word = batch.words > 0  # (B, frames)
        is_correct = word_logits.argmax(-1) == batch.words
        losses = {
            "loss": phoneme_loss + word_loss,
            "phonemes": phoneme_loss,
            "words": word_loss,
            "word_accuracy": is_correct[has_word].float().mean(),
        }
        if self.places:
            time_loss = self._time_loss(hidden)
            losses["loss"] = losses["loss"] + self.place_weight * time_loss
            losses["places"] = time_loss
        return losses

    def _time_loss(self, hidden: Tensor) -> Tensor:
        """Return the mean squared error of the predicted sines and cosines of time.

        Args:
            hidden: (B, T, hidden) encoder frames of the top layer.
        """
        predicted = self.heads["places"](hidden).float()
        frames = torch.arange(predicted.shape[1], device=predicted.device)
        seconds = frames * self.labels_per_frame * (self.frame_samples / SAMPLE_RATE)
        targets = waves(seconds, self.places)  # (T, 2 x wavelengths)
        return functional.mse_loss(predicted, targets.expand_as(predicted))

    def _logits(self, kind: str, hidden: Tensor) -> Tensor:
        """Apply a classification head to encoder frames.

        Args:
            kind: Name of the head, ``phonemes`` or ``words``.
            hidden: (B, T, hidden) encoder frames.

        Returns:
            (B, T x labels_per_frame, classes) logits.
        """
        logits: Tensor = self.heads[kind](hidden).float()
        return logits.reshape(len(logits), -1, logits.shape[-1] // self.labels_per_frame)

    def _labels(self, segment: RobustSegment, kind: str, timed: Iterable[Word]) -> Tensor:
        """Return the class of the phoneme or word in each frame of a robust segment.

        Args:
            segment: Robust segment.
            kind: Name of the label set, ``phonemes`` or ``words``.
            timed: Phonemes or words with start and end in seconds of the talk.

        Returns:
            (frames,) int64 classes; 0 for a frame without a phoneme or word.
        """
        num_frames = segment.chunks * segment.chunk_samples // self.frame_samples
        labels = np.zeros(num_frames, dtype=np.int64)
        frames_per_second = SAMPLE_RATE / self.frame_samples
        for word in timed:
            first = max(0, round((word.start - segment.start) * frames_per_second))
            stop = round((word.end - segment.start) * frames_per_second)
            if stop > 0 and first < num_frames:
                label = word.text if kind == "phonemes" else spelling(word.text)
                labels[first:stop] = self.classes[kind].get(label, 0)
        return torch.from_numpy(labels)


def waves(seconds: Tensor, wavelengths: Sequence[Seconds]) -> Tensor:
    """Return sines and cosines of times.

    Args:
        seconds: (n,) times in seconds.
        wavelengths: Wavelengths in seconds.

    Returns:
        (n, 2 x wavelengths) values: the sines of all wavelengths, then the cosines.
    """
    phases = 2 * math.pi * seconds[:, None] / seconds.new_tensor(wavelengths)
    return torch.cat([phases.sin(), phases.cos()], dim=1)
