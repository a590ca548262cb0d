"""The audio encoder of Qwen2.5-Omni's thinker, behind the interface of ``Thinker``."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from torch import Tensor

from zoo.backbones.architectures.thinker.thinker import Thinker
from zoo.backbones.qwen2_5_omni import encoder
from zoo.backbones.qwen2_5_omni.features import (
    FRAMES_PER_TOKEN,
    TOKEN,
    TokenSpectrogram,
    encoder_inputs,
)
from zoo.backbones.qwen2_5_omni.network import KIND
from zoo.base.types import Frames, Samples


class Qwen25OmniThinker(Thinker):
    """The thinker of Qwen2.5-Omni: one speech embedding per 40 ms, in independent blocks."""

    frame_samples: Samples = TOKEN  # 40 ms
    knob_values: ClassVar[Mapping[str, Sequence[int]]] = {"policy.frames": (4, 8, 16, 24)}
    noun = KIND.noun
    kind = KIND
    adapted = KIND.targets

    def new_spectrogram(self) -> TokenSpectrogram:
        """Create the spectrogram with the number of bins of the encoder."""
        return TokenSpectrogram(self.tower.num_mel_bins)

    @staticmethod
    def prepared(frames: Tensor) -> Tensor:
        """Convert frames (4 n + 2, bins) to encoder input (4 n, bins), see ``encoder_inputs``."""
        return encoder_inputs(frames)

    @staticmethod
    def embeddings(features: int) -> int:
        """Number of speech embeddings: one embedding per 4 feature frames."""
        return features // FRAMES_PER_TOKEN

    @property
    def independent_frames(self) -> Frames:
        """Number of feature frames per block of the audio encoder."""
        window: Frames = self.tower.n_window
        return 2 * window

    def encode(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Encode features of several streams independently of each other.

        Args:
            features: Encoder input (4 n, bins) of each stream.

        Returns:
            Hidden states (n, encoder width) of the last layer and of a middle layer, each as a list
            with one tensor per stream.
        """
        return encoder.encode(self.tower, features)

    def project(self, hidden: Tensor) -> Tensor:
        """Project hidden states (..., encoder width) of the last layer to (..., LLM width)."""
        return encoder.project(self.tower, hidden)
