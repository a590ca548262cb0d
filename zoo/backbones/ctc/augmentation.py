"""Augmentation of training speech with random gain, a spectral change and noise."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zoo.base.types import SAMPLE_RATE, Samples

FFT: Samples = 512  # length of the window and of the transform
HOP: Samples = 128  # overlapping windows: the inverse transform is exact for unchanged spectra


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """A random augmentation of a waveform: gain, spectral change and white noise.

    The gain is always applied. The spectral change and the noise are each applied with probability
    ``share``, independently of one another. The spectral change removes a frequency band and
    rotates the phases of the short-time spectrum. Because the windows overlap, the rotation also
    blurs the magnitudes.

    Attributes:
        share: Probability of the spectral change, and probability of the noise.
        gain: Largest gain, positive or negative, in decibels.
        noise: Lowest and highest signal-to-noise ratio of the white noise, in decibels.
        notch: Largest width of the removed frequency band, in hertz.
        phases: Largest standard deviation of the phase rotations, in radians.
    """

    share: float = 0.4
    gain: float = 8.0
    noise: Sequence[float] = (10.0, 40.0)
    notch: float = 800.0
    phases: float = 1.5

    def __call__(self, samples: Tensor, generator: np.random.Generator) -> Tensor:
        """Augment a waveform.

        Args:
            samples: Speech, (n,) samples at 16 kHz.
            generator: Source of all random choices.

        Returns:
            The augmented speech, (n,).
        """
        samples = samples * 10 ** (generator.uniform(-self.gain, self.gain) / 20)
        if generator.random() < self.share:
            samples = self._change_spectrum(samples, generator)
        if generator.random() < self.share:
            decibels = -generator.uniform(self.noise[0], self.noise[1])
            level = samples.square().mean().sqrt() * 10 ** (decibels / 20)
            noise = generator.standard_normal(len(samples), dtype=np.float32)
            samples = samples + level * torch.from_numpy(noise)
        return samples

    def _change_spectrum(self, samples: Tensor, generator: np.random.Generator) -> Tensor:
        """Remove a random frequency band and rotate the phases at random: (n,) to (n,)."""
        window = torch.hann_window(FFT)
        spectrum = torch.stft(samples, FFT, HOP, window=window, return_complex=True)

        # spectrum: (bins, frames); the band is in hertz
        band_start = generator.uniform(0, SAMPLE_RATE / 2)
        band_end = band_start + generator.uniform(0, self.notch)
        first_bin = round(band_start * FFT / SAMPLE_RATE)
        end_bin = round(band_end * FFT / SAMPLE_RATE)
        spectrum[first_bin:end_bin] = 0

        shape = tuple(spectrum.shape)
        angles = torch.from_numpy(generator.standard_normal(shape, dtype=np.float32))
        angles = angles * generator.uniform(0, self.phases)
        spectrum = spectrum * torch.polar(torch.ones_like(angles), angles)
        return torch.istft(spectrum, FFT, HOP, window=window, length=len(samples))
