"""The thinker of Qwen3-Omni (Xu et al., 2025) as in DOA, for speech and text only.

The thinker is the part of Qwen3-Omni that generates text, a mixture of experts. Where a prompt has
neither images nor videos, its three-dimensional rotary positions equal plain positions, and nothing
is added to the hidden states of its first layers.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from torch import Tensor

from zoo.backbones.common.audio.spectrogram import CentredSpectrogram
from zoo.backbones.common.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.common.chain_of_thought.prompt import Template
from zoo.backbones.common.thinker.thinker import Thinker
from zoo.backbones.qwen3_omni import encoder
from zoo.backbones.qwen3_omni.features import (
    CHUNK,
    FRAME,
    encoder_inputs,
    frame_embeddings,
    num_embeddings,
)
from zoo.backbones.qwen3_omni.network import KIND
from zoo.errors import ZooError
from zoo.types import Frames, Samples

CHATML = Template(  # a user's turn of the published chat template, which has no system prompt
    user="<|im_start|>user\n<|audio_start|>",
    audio="<|audio_pad|>",
    instruction=f"<|audio_end|>{Template().instruction}",
    direct=f"<|audio_end|>{Template().direct}",
    end="<|im_end|>",
    assistant="\n<|im_start|>assistant\n",
)


class Qwen3Omni(Thinker, ChainOfThought):
    """The thinker of Qwen3-Omni as a backbone that translates, or transcribes and translates.

    The audio encoder computes 13 speech embeddings per second, in blocks that do not attend to each
    other. Source frames are 40 ms (``features``). A new adapter changes attention, not the experts.

    Args:
        config: Fields of ``Qwen3OmniMoeThinkerConfig`` for a randomly initialised network.
    """

    frame_samples: Samples = FRAME  # 40 ms
    knob_values: ClassVar[Mapping[str, Sequence[int]]] = {"policy.frames": (4, 8, 16, 24)}
    noun = KIND.noun
    chat = CHATML
    kind = KIND
    adapted = KIND.targets

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
        return CentredSpectrogram(self.tower.num_mel_bins, span=None)

    @staticmethod
    def prepared(frames: Tensor) -> Tensor:
        """Convert frames (n, bins) to encoder input (n, bins), see ``encoder_inputs``."""
        return encoder_inputs(frames)

    @staticmethod
    def embeddings(features: int) -> int:
        """Number of speech embeddings: 13 per 100 feature frames."""
        return num_embeddings(features)

    def frame_embeddings(self, samples: Samples, embeddings: int) -> Tensor:
        """Speech embedding that covers each source frame of 40 ms, see ``features``."""
        return frame_embeddings(samples, embeddings)

    @property
    def independent_frames(self) -> Frames:
        """Number of feature frames per block of the audio encoder."""
        window: Frames = self.tower.n_window_infer
        return window // CHUNK * CHUNK

    def encode(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Encode features of several streams independently of each other.

        Args:
            features: Encoder input (n, bins) of each stream.

        Returns:
            Hidden states (T, encoder width) of the last layer and of a middle layer, each as a list
            with one tensor per stream.
        """
        return encoder.encode(self.tower, features)

    def project(self, hidden: Tensor) -> Tensor:
        """Project hidden states (..., encoder width) of the last layer to (..., LLM width)."""
        return encoder.project(self.tower, hidden)
