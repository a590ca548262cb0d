"""The log-mel features of Voxtral-Realtime for consecutive pieces of a stream."""

from typing import Any

import torch
from torch import Tensor

from zoo.backbones.encoders.audio.spectrogram import HALF, HOP, WINDOW
from zoo.base.types import Samples
from zoo.streaming.stages import stage

FEATURES = 8  # feature frames of 10 ms per frame
FRAME: Samples = FEATURES * HOP  # 80 ms
LOOK_AHEAD: Samples = HALF - HOP  # 2.5 ms: the last window of a frame ends after it
FLOOR = 1e-10  # of energies
RANGE = 8.0  # of log10 energies, below the published maximum


class LogMel:
    """Computes log10 mel energies, scaled like those of Whisper with a maximum that is fixed."""

    def __init__(self, extractor: Any) -> None:
        """Take filters and maximum from the feature extractor of Transformers."""
        self.filters = torch.as_tensor(extractor.mel_filters, dtype=torch.float64)
        self.window = torch.hann_window(WINDOW, dtype=torch.float64)
        self.floor = extractor.global_log_mel_max - RANGE

    @stage("features")
    def compute(self, samples: Tensor) -> Tensor:
        """Compute the features whose windows lie within ``samples``.

        Args:
            samples: (n,) samples; the first window begins with the first of them.

        Returns:
            ((n - 400) // 160 + 1, bins) float32.
        """
        windows = samples.double().unfold(0, WINDOW, HOP)
        energies: Tensor = torch.fft.rfft(windows * self.window).abs().square() @ self.filters
        logarithms = energies.clamp_min(FLOOR).log10().clamp_min(self.floor)
        return ((logarithms + 4.0) / 4.0).float()


def num_frames(samples: Samples) -> int:
    """Return how many frames can be computed of a stretch that begins half a window early."""
    return max((samples - HALF - LOOK_AHEAD) // FRAME, 0)
