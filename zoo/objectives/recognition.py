"""Letters of target speech by CTC, and its phonemes frame by frame: what a small recogniser is trained for.

Speech is spoiled before it is heard, as speakers, rooms and vocoders may spoil it. Knows no corpus.
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
from zoo.backbones.ctc.ctc import CTC
from zoo.backbones.ctc.spelling import Spelling
from zoo.data.clips import Clip
from zoo.data.talks import Talk, Word
from zoo.errors import ZooError
from zoo.objectives.base import Objective
from zoo.types import SAMPLE_RATE, Samples

IGNORED = -100
PHONEMES = 1024  # classes: all phonemes are known only when all clips were spoken, so a hash tells them apart


@dataclass(slots=True)
class RecognitionBatch:
    """values: (B, frames, bands), mask: (B, frames), see ``CTC.forward``. phonemes: (B, frames) class of each frame, 0
    where there is none, IGNORED in padding. letters: of all rows, one after the other; counts: (B,) of each.
    """

    values: Tensor
    mask: Tensor
    letters: Tensor
    counts: Tensor
    phonemes: Tensor

    def to(self, device: torch.device) -> "RecognitionBatch":
        """The same batch on ``device``."""
        return RecognitionBatch(*(getattr(self, name).to(device) for name in self.__slots__))


@dataclass(frozen=True, kw_only=True)
class Spoiling:
    """How speech is spoiled; each happens to a clip with ``share``, all alike at random.

    gain: decibels, up or down. noise: white, so many decibels below the speech, least and most. notch: hertz, the
    widest band that is taken out. phases: radians, the spread of random turns of the phases of a short-time spectrum,
    at most: windows overlap, so that magnitudes are blurred, too.
    """

    share: float = 0.4
    gain: float = 8.0
    noise: Sequence[float] = (10.0, 40.0)
    notch: float = 800.0
    phases: float = 1.5

    def __call__(self, samples: Tensor, random: np.random.Generator) -> Tensor:
        """(n,) to (n,)."""
        samples = samples * 10 ** (random.uniform(-self.gain, self.gain) / 20)
        if random.random() < self.share:
            samples = _respectralled(samples, random, notch=self.notch, phases=self.phases)
        if random.random() < self.share:
            level = samples.square().mean().sqrt() * 10 ** (
                -random.uniform(self.noise[0], self.noise[1]) / 20
            )
            noise = random.standard_normal(len(samples), dtype=np.float32)
            samples = samples + level * torch.from_numpy(noise)
        return samples


class Recognition(Objective):
    """CTC of the letters on the top layer and, weighted, cross-entropy of the phonemes on ``phoneme_layer``.

    letters, phonemes: their weights. The phonemes' times are the synthesiser's; without them CTC alone says nothing but
    blanks for minutes.
    """

    takes = Clip

    def __init__(
        self,
        *,
        letters: float = 1.0,
        phonemes: float = 1.0,
        phoneme_layer: int = 2,
        spoiling: Spoiling = Spoiling(),
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.weights = (letters, phonemes)
        self.phoneme_layer = phoneme_layer
        self.spoiling = spoiling
        self.seed = seed
        self._spelling: Spelling | None = None
        self._extractor: Any = None
        self._span: tuple[Samples, Samples] = (0, 0)

    def prepare(self, talks: Sequence[Talk], backbone: Backbone) -> None:
        """Take letters and features from the backbone. Raises ZooError when it is no recogniser."""
        if not isinstance(backbone, CTC):
            raise ZooError(
                f"The recognition objective trains CTC recognisers, not {type(backbone).__name__}."
            )
        depth = backbone.network.config.num_hidden_layers
        if not 1 <= self.phoneme_layer <= depth:
            raise ZooError(f"phoneme_layer is one of 1 to {depth}, not {self.phoneme_layer}.")
        if backbone.network.config.layerdrop:
            raise ZooError(
                "The recognition objective needs backbone.config.layerdrop=0: each layer must be heard."
            )
        self._spelling, self._extractor, self._span = (
            backbone.spelling,
            backbone.extractor,
            backbone.span,
        )
        self.head = nn.Linear(backbone.network.config.hidden_size, PHONEMES)

    def batch(
        self, stretches: Sequence[Clip], multiplier: int, frames: Sequence[Tensor] | None = None
    ) -> RecognitionBatch:
        """Spoiled speech, its letters and its phonemes; shorter clips are filled up with zeros."""
        assert self._spelling is not None, "prepare comes first"
        random = np.random.default_rng(
            [self.seed, *(crc32(clip.excerpt.text.encode()) for clip in stretches)]
        )
        spoiled = [self.spoiling(clip.samples, random).numpy() for clip in stretches]
        given = self._extractor(
            spoiled, sampling_rate=SAMPLE_RATE, pad_to_multiple_of=None, return_tensors="pt"
        )
        letters = [self._spelling.ids(clip.excerpt.text) for clip in stretches]
        phonemes = [
            frame_phonemes(clip.phonemes, len(clip.samples), self._span) for clip in stretches
        ]
        return RecognitionBatch(
            values=given["input_features"],
            mask=given["attention_mask"],
            letters=torch.cat(letters),
            counts=torch.tensor([len(row) for row in letters]),
            phonemes=pad_sequence(phonemes, batch_first=True, padding_value=IGNORED),
        )

    def losses(self, backbone: Backbone, batch: RecognitionBatch) -> dict[str, Tensor]:
        """``letters`` (CTC, nats per letter), ``phonemes`` and ``phoneme_accuracy`` (per frame), their weighted sum."""
        assert isinstance(backbone, CTC), "prepare has checked it"
        heard = backbone(batch.values, batch.mask)
        letters = backbone.loss(heard, batch.letters, batch.counts)
        labelled = batch.phonemes != IGNORED
        logits, labels = (
            self.head(heard.hidden[self.phoneme_layer])[labelled].float(),
            batch.phonemes[labelled],
        )
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
    """(frames,) int64: the class of what sounds in the middle of each frame, 0 where nothing does.

    samples: length of the wave. span: how much a frame hears, and from one to the next, see ``CTC.span``.
    """
    heard, hop = span
    labels = torch.zeros((samples - heard) // hop + 1, dtype=torch.long)
    for phoneme in phonemes:
        times = (phoneme.start * SAMPLE_RATE, phoneme.end * SAMPLE_RATE)
        first, last = (max(0, math.ceil((time - heard / 2) / hop)) for time in times)
        labels[first:last] = 1 + crc32(phoneme.text.encode()) % (PHONEMES - 1)
    return labels


def _respectralled(
    samples: Tensor, random: np.random.Generator, *, notch: float, phases: float
) -> Tensor:
    """(n,) with a band taken out of its short-time spectrum and its phases turned at random."""
    size, hop = 512, 128
    window = torch.hann_window(size)
    spectrum = torch.stft(samples, size, hop, window=window, return_complex=True)
    begin = random.uniform(0, SAMPLE_RATE / 2)
    low, high = (
        round(hertz * size / SAMPLE_RATE) for hertz in (begin, begin + random.uniform(0, notch))
    )
    spectrum[low:high] = 0
    turns = torch.from_numpy(random.standard_normal(tuple(spectrum.shape), dtype=np.float32))
    spectrum = spectrum * torch.polar(torch.ones_like(turns), turns * random.uniform(0, phases))
    return torch.istft(spectrum, size, hop, window=window, length=len(samples))
