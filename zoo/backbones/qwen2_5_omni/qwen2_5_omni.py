"""The thinker of Qwen2.5-Omni (Xu et al., 2025) as in StreamUni, for speech and text only.

The thinker is the part of Qwen2.5-Omni that generates text. The backbone loads published weights,
or creates a small network of the same class for training from scratch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from torch import Tensor, nn
from transformers import AutoTokenizer, Qwen2_5OmniThinkerForConditionalGeneration

from zoo.backbones.common import lora as adapters
from zoo.backbones.common.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.common.chain_of_thought.prompt import Template, ThoughtPrompt
from zoo.backbones.common.pretrained.loading import check_tokenizer, load_part, quiet
from zoo.backbones.qwen2_5_omni import encoder
from zoo.backbones.qwen2_5_omni.features import (
    FRAMES_PER_TOKEN,
    TOKEN,
    TokenSpectrogram,
    encoder_inputs,
)
from zoo.backbones.qwen2_5_omni.network import (
    TARGETS,
    audio_part,
    pretrained_network,
    random_network,
    text_part,
)
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


@dataclass(frozen=True, slots=True)
class TextPart:
    """The causal LM of a thinker, with the interface that ``ChainOfThought.decoder`` requires.

    Attributes:
        thinker: The network that contains the causal LM.
    """

    thinker: Qwen2_5OmniThinkerForConditionalGeneration

    @property
    def model(self) -> Any:
        """The causal LM without its output layer; returns hidden states (batch, n, width)."""
        return text_part(self.thinker)

    def get_input_embeddings(self) -> nn.Module:
        """The layer that embeds token ids (...) as (..., width)."""
        embeddings: nn.Module = self.model.embed_tokens
        return embeddings

    def get_output_embeddings(self) -> nn.Module:
        """The layer that converts hidden states (..., width) to logits (..., vocabulary)."""
        head: nn.Module = self.thinker.lm_head
        return head


class Qwen25Omni(ChainOfThought):
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

    Attributes:
        model: The thinker, with audio encoder, projector and causal LM.
    """

    frame_samples: Samples = TOKEN  # 40 ms
    knob_values: ClassVar[Mapping[str, Sequence[int]]] = {"policy.frames": (4, 8, 16, 24)}
    noun = "Qwen2.5-Omni"
    chat = CHATML
    adapted = TARGETS

    model: Qwen2_5OmniThinkerForConditionalGeneration

    def build(self) -> None:
        """Load tokenizer and weights, or initialise the weights randomly.

        Raises:
            ZooError: If tokenizer, configuration or a weight is missing, if a weight has another
                shape, or if the tokenizer does not match the network.
        """
        if self.name is not None:
            self.model = pretrained_network(self.name, dtype=self.dtype, lora=self.lora)
        with quiet():
            self.tokenizer = load_part(
                "tokenizer", AutoTokenizer.from_pretrained, self.tokenizer_source
            )
        if self.name is None:
            self.model = self._random_network()
        self._check_tokenizer()
        self.spectrogram = TokenSpectrogram(self._tower.num_mel_bins)

    def _random_network(self) -> Qwen2_5OmniThinkerForConditionalGeneration:
        """Create a randomly initialised thinker, with a new adapter if ``lora`` is set."""
        prompt = ThoughtPrompt(tokenizer=self.tokenizer, template=self.template)
        network = random_network(
            self.config, prompt, embedding_std=self.embedding_std, dtype=self.dtype
        )
        if self.lora is not None:
            adapters.inject(network, self.lora, TARGETS)
        return network

    def _check_tokenizer(self) -> None:
        """Raise ZooError if the tokenizer has other token ids than the network."""
        audio_token = {self.template.audio: self.model.config.audio_token_index}
        vocabulary_size = self.model.lm_head.out_features
        check_tokenizer(
            self.tokenizer, self.tokenizer_source, scores=vocabulary_size, tokens=audio_token
        )

    @property
    def _tower(self) -> Any:
        """The audio encoder."""
        return audio_part(self.model)

    @property
    def decoder(self) -> TextPart:
        """The causal LM of the thinker."""
        return TextPart(self.model)

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
        window: Frames = self._tower.n_window
        return 2 * window

    def encode(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Encode features of several streams independently of each other.

        Args:
            features: Encoder input (4 n, bins) of each stream.

        Returns:
            Hidden states (n, encoder width) of the last layer and of a middle layer, each as a list
            with one tensor per stream.
        """
        return encoder.encode(self._tower, features)

    def project(self, hidden: Tensor) -> Tensor:
        """Project hidden states (..., encoder width) of the last layer to (..., LLM width)."""
        return encoder.project(self._tower, hidden)

    def parts(self) -> dict[str, Iterable[nn.Parameter]]:
        """Parameters of ``encoder``, ``projector`` and ``decoder``, and of ``lora`` if it is set.

        The parameters of an adapter belong to ``lora``, not to ``decoder``.
        """
        tower = self._tower
        thinker = self.model
        # a list of modules yields tied weights of embeddings and output layer once
        decoder = nn.ModuleList([text_part(thinker), thinker.lm_head])
        encoder, projector = [tower.conv1, tower.conv2, tower.layers], [tower.ln_post, tower.proj]
        parts: dict[str, Iterable[nn.Parameter]] = {
            "encoder": chain.from_iterable(module.parameters() for module in encoder),
            "projector": chain.from_iterable(module.parameters() for module in projector),
            "decoder": adapters.others(decoder),
        }
        if self.lora is not None:
            parts["lora"] = adapters.parameters(thinker)
        return parts
