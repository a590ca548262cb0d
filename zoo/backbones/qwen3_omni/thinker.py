"""The audio encoder of Qwen3-Omni's thinker, behind the interface of ``Thinker``."""

from collections.abc import Sequence

from torch import Tensor

from zoo.backbones.common.thinker.chunked import ChunkedThinker
from zoo.backbones.qwen3_omni import encoder
from zoo.backbones.qwen3_omni.network import KIND


class Qwen3OmniThinker(ChunkedThinker):
    """The thinker of Qwen3-Omni: 13 speech embeddings per second, in independent blocks."""

    noun = KIND.noun
    kind = KIND
    adapted = KIND.targets

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
