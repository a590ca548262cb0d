"""Feature frames of Qwen2.5-Omni: Whisper's spectrogram, padded to whole tokens of 40 ms.

A token is the audio of one speech embedding: 4 frames of 10 ms.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.encoders.audio.feature_cache import FeatureCache
from zoo.backbones.encoders.audio.spectrogram import HOP, CentredSpectrogram
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Samples
from zoo.streaming.stages import stage

SPAN_SECONDS = 300  # longest audio of the published feature extractor
SPAN: Samples = SPAN_SECONDS * SAMPLE_RATE
FRAMES_PER_TOKEN = 4
TOKEN: Samples = FRAMES_PER_TOKEN * HOP  # 40 ms
RANGE = 8.0  # powers of ten between the largest energy and the smallest energy after clamping


class TokenSpectrogram(CentredSpectrogram):
    """Whisper's spectrogram, padded with silence to whole tokens of 40 ms.

    Two more frames follow the last token. Their windows may cover the end of the audio. The two
    frames contribute to the maximum in ``encoder_inputs`` and are then removed.
    """

    def __init__(self, bins: int) -> None:
        """Create the filterbank.

        Args:
            bins: Number of mel bins.
        """
        super().__init__(bins, SPAN)

    @stage("features")
    def compute(self, cache: FeatureCache, wave: Tensor, start: Samples) -> Tensor:
        """Compute the feature frames of the kept audio.

        Args:
            cache: Cache with frames of earlier calls for the same stream.
            wave: Kept audio samples (n,).
            start: Stream position of the first kept sample.

        Returns:
            Log energies (4 x ceil(n / 640) + 2, bins).

        Raises:
            ZooError: If ``wave`` is longer than 300 s.
        """
        if wave.numel() > SPAN:
            raise ZooError(
                f"Qwen2.5-Omni encodes at most {SPAN_SECONDS} s at once, but "
                f"{wave.numel() / SAMPLE_RATE:g} s are kept; choose a policy that truncates or a "
                "history that forgets."
            )
        frames = super().compute(cache, wave, start)
        tokens = -(-wave.numel() // TOKEN)  # rounded up
        padded_length = FRAMES_PER_TOKEN * tokens + self.MIRRORED
        return F.pad(frames, (0, 0, 0, padded_length - frames.shape[0]), value=self.SILENT)


def encoder_inputs(frames: Tensor) -> Tensor:
    """Clamp and scale frames (4 n + 2, bins) of ``TokenSpectrogram`` to encoder input (4 n, bins).

    Log energies are clamped to at least the maximum minus 8. A loud sound therefore changes earlier
    frames too. The scaling is Whisper's.
    """
    floor = frames.max() - RANGE
    clamped_frames = torch.maximum(frames, floor)[: -CentredSpectrogram.MIRRORED]
    return (clamped_frames + 4.0) / 4.0
