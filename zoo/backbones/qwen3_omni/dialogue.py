"""The thinker of Qwen3-Omni in a dialogue, which answers chunks with words or ``<wait>``."""

from zoo.backbones.common.dialogue.dialogue import Dialogue
from zoo.backbones.common.dialogue.prompt import DialogueTemplate
from zoo.backbones.qwen3_omni.thinker import Qwen3OmniThinker

CHATML = DialogueTemplate(
    user="\n<|im_start|>user\n<|audio_start|>", audio="<|audio_pad|>", audio_end="<|audio_end|>"
)


class Qwen3OmniDialogue(Qwen3OmniThinker, Dialogue):
    """The thinker of Qwen3-Omni as a backbone that takes turns (``Dialogue``).

    Args:
        config: Fields of ``Qwen3OmniMoeThinkerConfig`` for a randomly initialised network.
    """

    chat = CHATML
