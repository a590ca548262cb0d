"""The thinker of Qwen3-Omni (Xu et al., 2025) as in DOA, for speech and text only.

The thinker is the part of Qwen3-Omni that generates text, a mixture of experts. Where a prompt has
neither images nor videos, its three-dimensional rotary positions equal plain positions, and nothing
is added to the hidden states of its first layers.
"""

from types import ModuleType
from typing import ClassVar

from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.architectures.chain_of_thought.prompt import Template
from zoo.backbones.architectures.thinker.chunked import ChunkedThinker
from zoo.backbones.qwen3_omni import encoder
from zoo.backbones.qwen3_omni.network import KIND

CHATML = Template(  # a user's turn of the published chat template, which has no system prompt
    user="<|im_start|>user\n<|audio_start|>",
    audio="<|audio_pad|>",
    instruction=f"<|audio_end|>{Template().instruction}",
    direct=f"<|audio_end|>{Template().direct}",
    end="<|im_end|>",
    assistant="\n<|im_start|>assistant\n",
)


class Qwen3Omni(ChunkedThinker, ChainOfThought):
    """The thinker of Qwen3-Omni as a backbone that translates, or transcribes and translates.

    The audio encoder computes 13 speech embeddings per second, in blocks that do not attend to each
    other. Source frames are 40 ms (``chunks``). A new adapter changes attention, not the experts.

    Args:
        config: Fields of ``Qwen3OmniMoeThinkerConfig`` for a randomly initialised network.
    """

    noun = KIND.noun
    chat = CHATML
    kind = KIND
    adapted = KIND.targets
    network_functions: ClassVar[ModuleType] = encoder
