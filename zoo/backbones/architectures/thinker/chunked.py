"""Thinkers whose audio encoder has 13 speech embeddings per second, those of Qwen3."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import ClassVar

from torch import Tensor

from zoo.backbones.architectures.thinker.chunks import (
    CHUNK,
    FRAME,
    encoder_inputs,
    frame_embeddings,
    num_embeddings,
)
from zoo.backbones.architectures.thinker.thinker import Thinker
from zoo.backbones.encoders.audio.spectrogram import CentredSpectrogram
from zoo.base.errors import ZooError
from zoo.base.types import Frames, Samples


class ChunkedThinker(Thinker):
    """A thinker that encodes chunks of 1 s, in blocks that do not attend to each other.

    Source frames are 40 ms (``chunks``).

    Attributes:
        network_functions: Module of the family with the functions ``encode`` and ``project`` of its
            audio encoder.
    """

    network_functions: ClassVar[ModuleType]
    frame_samples: Samples = FRAME
    knob_values: ClassVar[Mapping[str, Sequence[int]]] = {"policy.frames": (4, 8, 16, 24)}

    def new_spectrogram(self) -> CentredSpectrogram:
        """Create the spectrogram with the number of bins of the encoder.

        Raises:
            ZooError: If the encoder has chunks of another duration than 1 s.
        """
        frames = 2 * self.tower.n_window
        if frames != CHUNK:
            raise ZooError(
                f"The audio encoder has chunks of {frames} feature frames (2 x n_window), but only "
                f"{CHUNK} are supported."
            )
        return CentredSpectrogram(self.tower.config.num_mel_bins, span=None)

    @staticmethod
    def prepared(frames: Tensor) -> Tensor:
        """Convert frames (n, bins) to encoder input (n, bins), see ``encoder_inputs``."""
        return encoder_inputs(frames)

    @staticmethod
    def embeddings(features: int) -> int:
        """Number of speech embeddings: 13 per 100 feature frames."""
        return num_embeddings(features)

    def frame_embeddings(self, samples: Samples, embeddings: int) -> Tensor:
        """Speech embedding that covers each source frame of 40 ms, see ``chunks``."""
        return frame_embeddings(samples, embeddings)

    def encode(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Encode features of several streams independently of each other.

        Args:
            features: Encoder input (n, bins) of each stream.

        Returns:
            Hidden states (T, encoder width) of the last layer and of a middle layer, each as a list
            with one tensor per stream.
        """
        encoded: tuple[list[Tensor], list[Tensor]]
        encoded = self.network_functions.encode(self.tower, features)
        return encoded

    def project(self, hidden: Tensor) -> Tensor:
        """Project hidden states (..., encoder width) of the last layer to (..., LLM width)."""
        projected: Tensor = self.network_functions.project(self.tower, hidden)
        return projected

    @property
    def independent_frames(self) -> Frames:
        """Number of feature frames per block of the audio encoder."""
        window: Frames = self.tower.n_window_infer
        return window // CHUNK * CHUNK
