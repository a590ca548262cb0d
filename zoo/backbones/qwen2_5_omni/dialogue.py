"""The thinker of Qwen2.5-Omni in a dialogue, which answers chunks with words or ``<wait>``."""

from zoo.backbones.architectures.dialogue.dialogue import Dialogue
from zoo.backbones.qwen2_5_omni.thinker import Qwen25OmniThinker


class Qwen25OmniDialogue(Qwen25OmniThinker, Dialogue):
    """The thinker of Qwen2.5-Omni as a backbone that takes turns (``Dialogue``).

    Args:
        config: Fields of ``Qwen2_5OmniThinkerConfig`` for a randomly initialised network.
    """
