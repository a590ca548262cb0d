"""The thinker of Qwen3-Omni in a dialogue, which answers chunks with words or ``<wait>``."""

from types import ModuleType
from typing import ClassVar

from zoo.backbones.architectures.dialogue.dialogue import Dialogue
from zoo.backbones.architectures.dialogue.prompt import DialogueTemplate
from zoo.backbones.architectures.thinker.chunked import ChunkedThinker
from zoo.backbones.qwen3_omni import encoder
from zoo.backbones.qwen3_omni.network import KIND

CHATML = DialogueTemplate(
    user="\n<|im_start|>user\n<|audio_start|>", audio="<|audio_pad|>", audio_end="<|audio_end|>"
)


class Qwen3OmniDialogue(ChunkedThinker, Dialogue):
    """The thinker of Qwen3-Omni as a backbone that takes turns (``Dialogue``).

    Args:
        config: Fields of ``Qwen3OmniMoeThinkerConfig`` for a randomly initialised network.
    """

    noun = KIND.noun
    chat = CHATML
    kind = KIND
    adapted = KIND.targets
    network_functions: ClassVar[ModuleType] = encoder
