"""What Qwen2.5-Omni's audio encoder is given: Whisper's spectrogram of whole tokens. Knows no network and no stream."""

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.common.audio.feature_cache import FeatureCache
from zoo.backbones.common.audio.spectrogram import HOP, CentredSpectrogram
from zoo.errors import ZooError
from zoo.types import SAMPLE_RATE, Samples

SPAN_SECONDS = 300  # what the published feature extractor hears
FRAMES_PER_TOKEN = 4
TOKEN: Samples = FRAMES_PER_TOKEN * HOP  # 40 ms
RANGE = 8.0  # powers of ten below the loudest, the least that is told apart


class TokenSpectrogram(CentredSpectrogram):
    """Whisper's, in whole tokens of 40 ms: what is short of one is filled up with silence, so no sound is lost.

    Two frames more than that come last. They may hold half a window of the sound, and count for the maximum only.
    """

    def __init__(self, bins: int) -> None:
        super().__init__(bins, SPAN_SECONDS * SAMPLE_RATE)

    def compute(self, known: FeatureCache, wave: Tensor, start: Samples) -> Tensor:
        """(n,) kept samples to (4 x ceil(n / 640) + 2, bins). Raises ZooError for more than 300 s."""
        if wave.numel() > self.span:
            raise ZooError(
                f"Qwen2.5-Omni hears at most {SPAN_SECONDS} s at once, but {wave.numel() / SAMPLE_RATE:g} s are kept; "
                "choose a policy that truncates or a history that forgets."
            )
        frames = super().compute(known, wave, start)
        whole = FRAMES_PER_TOKEN * -(-wave.numel() // TOKEN) + self.MIRRORED
        return F.pad(frames, (0, 0, 0, whole - frames.shape[0]), value=self.SILENT)


def clamped(frames: Tensor) -> Tensor:
    """(4 n + 2, bins) of a ``TokenSpectrogram`` to the (4 n, bins) that the encoder was trained on.

    Nothing is more than 8 below the loudest: a louder sound later changes what came before it.
    """
    floor = frames.max() - RANGE
    return (torch.maximum(frames, floor)[: -CentredSpectrogram.MIRRORED] + 4.0) / 4.0
