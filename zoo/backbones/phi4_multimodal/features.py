"""Features of Phi-4-Multimodal: log mel energies of windows within the audio."""

from typing import ClassVar

import torch
from torch import Tensor
from transformers.audio_utils import mel_filter_bank

from zoo.backbones.common.audio.spectrogram import HOP, WINDOW, Filterbank
from zoo.types import SAMPLE_RATE

BINS = 80


class LogMel(Filterbank):
    """Transformers' ``Phi4MultimodalFeatureExtractor``, incrementally: n samples have ``(n - 400)
    // 160 + 1`` frames.

    k pieces of 80 ms (1280 samples) have 8 k - 2 frames. A frame depends on its own window only.
    """

    FLOOR: ClassVar[float] = 1.0  # of an energy
    EMPHASIS: ClassVar[float] = 0.97
    TOP: ClassVar[float] = 7690.0  # Hz

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
        windows = wave.double().unfold(0, WINDOW, HOP) * 2**15  # energies of 16 bit integers
        before = torch.cat([windows[:, :1], windows[:, :-1]], dim=1)
        return self._mel(windows - self.EMPHASIS * before, self.POINTS)
