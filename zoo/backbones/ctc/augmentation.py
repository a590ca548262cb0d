"""Augmentation of speech: changes that speakers, rooms and vocoders may make."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zoo.types import SAMPLE_RATE, Samples

FFT: Samples = 512
HOP: Samples = 128


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """Random gain, then a spectral change and white noise, each with its own chance.

    Attributes:
        share: Chance of the spectral change, and of the noise.
        gain: Decibels, up or down.
        noise: White noise, decibels below the speech: least and most.
        notch: Hertz: the widest band that is removed.
        phases: Radians: the largest spread of random rotations of the phases of a short-time
            spectrum; windows overlap, so that magnitudes are blurred, too.
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
            samples = self._change_spectrum(samples, random)
        if random.random() < self.share:
            decibels = -random.uniform(self.noise[0], self.noise[1])
            level = samples.square().mean().sqrt() * 10 ** (decibels / 20)
            noise = random.standard_normal(len(samples), dtype=np.float32)
            samples = samples + level * torch.from_numpy(noise)
        return samples

    def _change_spectrum(self, samples: Tensor, random: np.random.Generator) -> Tensor:
        """(n,) without a band of its short-time spectrum and with phases rotated at random."""
        window = torch.hann_window(FFT)
        spectrum = torch.stft(samples, FFT, HOP, window=window, return_complex=True)

        begin = random.uniform(0, SAMPLE_RATE / 2)
        band = (begin, begin + random.uniform(0, self.notch))
        low, high = (round(hertz * FFT / SAMPLE_RATE) for hertz in band)
        spectrum[low:high] = 0

        angles = torch.from_numpy(random.standard_normal(tuple(spectrum.shape), dtype=np.float32))
        angles = angles * random.uniform(0, self.phases)
        spectrum = spectrum * torch.polar(torch.ones_like(angles), angles)
        return torch.istft(spectrum, FFT, HOP, window=window, length=len(samples))
