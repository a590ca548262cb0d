"""The thinker of Qwen2.5-Omni (Xu et al., 2025) as StreamUni uses it: speech and text, without
vision.

A small network of the same class is trained from scratch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers import AutoTokenizer, Qwen2_5OmniThinkerForConditionalGeneration

from zoo.backbones.common import lora as adapters
from zoo.backbones.common.chain_of_thought.chain_of_thought import (
    ChainOfThought,
    enable_checkpointing,
)
from zoo.backbones.common.chain_of_thought.prompt import Prompt, Template
from zoo.backbones.common.pretrained.loading import check_tokenizer, load_part
from zoo.backbones.qwen2_5_omni import encoder
from zoo.backbones.qwen2_5_omni.features import FRAMES_PER_TOKEN, TOKEN, TokenSpectrogram, clamped
from zoo.backbones.qwen2_5_omni.network import (
    TARGETS,
    audio_part,
    pretrained_network,
    quiet,
    random_network,
    text_part,
)
from zoo.types import Samples

CHATML = Template(  # the system prompt is that of Qwen's own examples of speech translation
    user=(
        "<|im_start|>system\nYou are a speech translation model.<|im_end|>\n"
        "<|im_start|>user\n<|audio_bos|>"
    ),
    audio="<|AUDIO|>",
    instruction=f"<|audio_eos|>{Template().instruction}",
    end="<|im_end|>",
    assistant="\n<|im_start|>assistant\n",
)


@dataclass(frozen=True, slots=True)
class TextPart:
    """The causal LM of a thinker."""

    thinker: Qwen2_5OmniThinkerForConditionalGeneration

    @property
    def model(self) -> Any:
        return text_part(self.thinker)

    def get_input_embeddings(self) -> nn.Module:
        """Ids to (..., width)."""
        embeddings: nn.Module = self.model.embed_tokens
        return embeddings

    def get_output_embeddings(self) -> nn.Module:
        """Hidden states to (..., vocabulary) scores."""
        return self.thinker.lm_head


class Qwen25Omni(ChainOfThought):
    """``config`` has fields of ``Qwen2_5OmniThinkerConfig``."""

    frame_samples: Samples = TOKEN  # 40 ms
    noun = "Qwen2.5-Omni"
    chat = CHATML
    adapted = TARGETS

    model: Qwen2_5OmniThinkerForConditionalGeneration

    def build(self) -> None:
        """Read tokenizer and weights, or initialise them.

        Raises ZooError on what is missing or differs.
        """
        if self.name is not None:
            self.model = pretrained_network(self.name, dtype=self.dtype, lora=self.lora)
        with quiet():
            self.tokenizer = load_part(
                "tokenizer", AutoTokenizer.from_pretrained, self.tokenizer_source
            )
        if self.name is None:
            self.model = self._random()
        self._check()
        self.spectrogram = TokenSpectrogram(self._tower.num_mel_bins)
        if self.gradient_checkpointing:
            enable_checkpointing(self.model)

    def _random(self) -> Qwen2_5OmniThinkerForConditionalGeneration:
        prompt = Prompt(tokenizer=self.tokenizer, template=self.template)
        network = random_network(
            self.config, prompt, embedding_std=self.embedding_std, dtype=self.dtype
        )
        if self.lora is not None:
            adapters.inject(network, self.lora, TARGETS)
        return network

    def _check(self) -> None:
        """Raise ZooError unless the tokenizer is the network's."""
        config = self.model.config
        tokens = {self.template.audio: config.audio_token_index}
        scores = self.model.lm_head.out_features
        check_tokenizer(self.tokenizer, self.tokenizer_source, scores=scores, tokens=tokens)

    @property
    def _tower(self) -> Any:
        return audio_part(self.model)

    @property
    def decoder(self) -> TextPart:
        """The text-only part of the thinker."""
        return TextPart(self.model)

    @staticmethod
    def prepared(frames: Tensor) -> Tensor:
        """(4 n + 2, bins) to (4 n, bins), at most 8 powers of ten below the maximum."""
        return clamped(frames)

    @staticmethod
    def embeddings(features: int) -> int:
        """One per 4 feature frames."""
        return features // FRAMES_PER_TOKEN

    def encode(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """(4 n, bins) each to (n, width of the encoder) of the last and of a middle layer."""
        return encoder.encode(self._tower, features)

    def project(self, hidden: Tensor) -> Tensor:
        """(..., width of the encoder) to (..., width of the LLM)."""
        return encoder.project(self._tower, hidden)

    def parts(self) -> dict[str, Iterable[nn.Parameter]]:
        """``encoder``, ``projector``, ``decoder`` and, apart from it, ``lora``."""
        tower, thinker = self._tower, self.model
        texts = (text_part(thinker), thinker.lm_head)  # which may be tied
        own = {parameter: name for part in texts for name, parameter in part.named_parameters()}
        parts: dict[str, Iterable[nn.Parameter]] = {
            "encoder": [
                *tower.conv1.parameters(),
                *tower.conv2.parameters(),
                *tower.layers.parameters(),
            ],
            "projector": [*tower.ln_post.parameters(), *tower.proj.parameters()],
            "decoder": [
                parameter for parameter, name in own.items() if not adapters.is_adapter(name)
            ],
        }
        return parts if self.lora is None else {**parts, "lora": adapters.parameters(thinker)}
