"""Features of Qwen2.5-Omni: Whisper's spectrogram in whole tokens of 40 ms."""

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.common.audio.feature_cache import FeatureCache
from zoo.backbones.common.audio.spectrogram import HOP, CentredSpectrogram
from zoo.errors import ZooError
from zoo.types import SAMPLE_RATE, Samples

SPAN_SECONDS = 300  # of the published feature extractor
FRAMES_PER_TOKEN = 4
TOKEN: Samples = FRAMES_PER_TOKEN * HOP  # 40 ms
RANGE = 8.0  # powers of ten below the maximum; lower energies are clamped


class TokenSpectrogram(CentredSpectrogram):
    """Whisper's spectrogram, padded with silence to whole tokens of 40 ms.

    Two more frames follow. They may cover half a window of the audio, and count for the maximum
    only.
    """

    def __init__(self, bins: int) -> None:
        super().__init__(bins, SPAN_SECONDS * SAMPLE_RATE)

    def compute(self, known: FeatureCache, wave: Tensor, start: Samples) -> Tensor:
        """(n,) kept samples to (4 x ceil(n / 640) + 2, bins).

        Raises ZooError for more than 300 s.
        """
        if wave.numel() > self.span:
            raise ZooError(
                f"Qwen2.5-Omni encodes at most {SPAN_SECONDS} s at once, but "
                f"{wave.numel() / SAMPLE_RATE:g} s are kept; choose a policy that truncates or a "
                "history that forgets."
            )
        frames = super().compute(known, wave, start)
        whole = FRAMES_PER_TOKEN * -(-wave.numel() // TOKEN) + self.MIRRORED
        return F.pad(frames, (0, 0, 0, whole - frames.shape[0]), value=self.SILENT)


def clamped(frames: Tensor) -> Tensor:
    """(4 n + 2, bins) of a ``TokenSpectrogram`` to the encoder's input, (4 n, bins).

    Energies are clamped to 8 below the maximum, so a louder sound later changes earlier frames.
    """
    floor = frames.max() - RANGE
    return (torch.maximum(frames, floor)[: -CentredSpectrogram.MIRRORED] + 4.0) / 4.0
