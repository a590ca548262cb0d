"""The thinker of Qwen2.5-Omni (Xu et al., 2025) as in StreamUni, for speech and text only.

The thinker is the part of Qwen2.5-Omni that generates text. The backbone loads published weights,
or creates a small network of the same class for training from scratch.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from torch import Tensor

from zoo.backbones.common.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.common.chain_of_thought.prompt import Template
from zoo.backbones.common.thinker.thinker import Thinker
from zoo.backbones.qwen2_5_omni import encoder
from zoo.backbones.qwen2_5_omni.features import (
    FRAMES_PER_TOKEN,
    TOKEN,
    TokenSpectrogram,
    encoder_inputs,
)
from zoo.backbones.qwen2_5_omni.network import KIND
from zoo.types import Frames, Samples

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


class Qwen25Omni(Thinker, ChainOfThought):
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

    frame_samples: Samples = TOKEN  # 40 ms
    knob_values: ClassVar[Mapping[str, Sequence[int]]] = {"policy.frames": (4, 8, 16, 24)}
    noun = KIND.noun
    chat = CHATML
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
