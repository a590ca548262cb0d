"""The thinker of Qwen2.5-Omni (Xu et al., 2025) as in StreamUni, for speech and text only.

The thinker is the part of Qwen2.5-Omni that generates text. The backbone loads published weights,
or creates a small network of the same class for training from scratch.
"""

from zoo.backbones.common.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.common.chain_of_thought.prompt import Template
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
        name: Hub id or folder of the weights. None initialises a network randomly.
        config: Fields of ``Qwen2_5OmniThinkerConfig`` for a randomly initialised network.
        tokenizer: Hub id or folder of the tokenizer. None loads the tokenizer of ``name``.
        embedding_std: Standard deviation of randomly initialised token embeddings.
        lora: Trainable adapter of the decoder. None merges an adapter in ``name`` into the weights.
        gradient_checkpointing: Whether training recomputes activations instead of keeping them.
        template: Strings of the prompt. None uses the published chat format.
        direct: Whether the model translates without a chain of thought.
        draft: Whether the previous transcript is verified in one pass.
        reuse: Whether a translation reuses the keys and values of its transcript.
        search: Search settings of translations.
        alignment: Self-attention layers and heads that align target tokens with speech.
        capture: Whether decoding steps have fixed shapes (``off``, ``static``), and are replayed as
            CUDA graphs (``auto``).
        max_tokens: Maximum number of generated tokens per transcript and per translation.
        tokens_per_second: Maximum number of generated tokens per transcript and second of audio.
        dtype: Name of the floating-point type of weights and activations.
        words: Definition of a word in a language without spaces, ``jieba`` or ``characters``.
    """

    chat = CHATML
