"""The thinker of Qwen2.5-Omni (Xu et al., 2025) as in StreamUni, for speech and text only.

The thinker is the part of Qwen2.5-Omni that generates text. The backbone loads published weights,
or creates a small network of the same class for training from scratch.
"""

from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.architectures.chain_of_thought.prompt import Template
from zoo.backbones.qwen2_5_omni.thinker import Qwen25OmniThinker

CHATML = Template(  # with the system prompt of Qwen's examples of speech translation
    user=(
        "<|im_start|>system\nYou are a speech translation model.<|im_end|>\n"
        "<|im_start|>user\n<|audio_bos|>"
    ),
    audio="<|AUDIO|>",
    instruction=f"<|audio_eos|>{Template().instruction}",
    direct=f"<|audio_eos|>{Template().direct}",
    end="<|im_end|>",
    assistant="\n<|im_start|>assistant\n",
)


class Qwen25Omni(Qwen25OmniThinker, ChainOfThought):
    """The thinker of Qwen2.5-Omni as a backbone that transcribes, then translates.

    The audio encoder computes one speech embedding per 40 ms, in blocks that do not attend to each
    other.

    Args:
        config: Fields of ``Qwen2_5OmniThinkerConfig`` for a randomly initialised network.
    """

    chat = CHATML
