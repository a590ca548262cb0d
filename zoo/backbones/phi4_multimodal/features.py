"""Feature frames of Phi-4-Multimodal: log mel energies of windows that lie within the audio."""

from typing import ClassVar

import torch
from torch import Tensor
from transformers.audio_utils import mel_filter_bank

from zoo.backbones.encoders.audio.spectrogram import HOP, WINDOW, Filterbank
from zoo.base.types import SAMPLE_RATE

BINS = 80


class LogMel(Filterbank):
    """Incremental version of ``Phi4MultimodalFeatureExtractor`` in Transformers.

    n samples have ``(n - 400) // 160 + 1`` frames, so 80 k ms of audio (1280 k samples) have
    8 k - 2 frames. A frame depends on its own window only.

    Attributes:
        FLOOR: Smallest mel energy before the logarithm.
        EMPHASIS: Coefficient of the pre-emphasis filter.
        TOP: Highest frequency of the mel filters, in Hz.
    """

    FLOOR: ClassVar[float] = 1.0
    EMPHASIS: ClassVar[float] = 0.97
    TOP: ClassVar[float] = 7690.0

    def __init__(self) -> None:
        self.filters = torch.from_numpy(
            mel_filter_bank(
                num_frequency_bins=self.POINTS // 2 + 1,
                num_mel_filters=BINS,
                min_frequency=0.0,
                max_frequency=self.TOP,
                sampling_rate=SAMPLE_RATE,
                norm=None,
                mel_scale="kaldi",
                triangularize_in_mel_space=True,
            )
        )
        self.window = torch.hamming_window(WINDOW, periodic=False, dtype=torch.float64)

    def _windowed(self, wave: Tensor) -> Tensor:
        """Compute log mel energies (frames, bins) of audio samples (n,)."""
        windows = wave.double().unfold(0, WINDOW, HOP) * 2**15  # scale of 16-bit integer samples
        previous_samples = torch.cat([windows[:, :1], windows[:, :-1]], dim=1)
        return self._mel(windows - self.EMPHASIS * previous_samples, self.POINTS)
