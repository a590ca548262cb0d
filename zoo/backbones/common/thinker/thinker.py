"""Thinkers of Qwen's omni models as speech LLMs that transcribe, then translate."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from zoo.backbones.common import lora as adapters
from zoo.backbones.common.audio.spectrogram import Spectrogram
from zoo.backbones.common.chain_of_thought.prompt import Template, ThoughtPrompt
from zoo.backbones.common.lora import LoraConfig
from zoo.backbones.common.pretrained.loading import check_tokenizer, load_part, quiet
from zoo.backbones.common.thinker.network import (
    ThinkerKind,
    audio_part,
    pretrained_network,
    random_network,
    text_part,
)


@dataclass(frozen=True, slots=True)
class TextPart:
    """The causal LM of a thinker, with the interface that ``ChainOfThought.decoder`` requires.

    Attributes:
        thinker: The network that contains the causal LM.
    """

    thinker: Any

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


class Thinker(ABC):
    """The network of a ``ChainOfThought`` that is the thinker of one of Qwen's omni models.

    A family inherits from this class and then from ``ChainOfThought``, whose attributes this class
    uses. The family names its classes of Transformers, and implements the encoder.

    Attributes:
        kind: Classes of the family.
        model: The thinker, with audio encoder, projector and causal LM.
    """

    kind: ClassVar[ThinkerKind]

    name: str | None
    config: Mapping[str, Any]
    tokenizer_source: str
    embedding_std: float | None
    lora: LoraConfig | None
    template: Template
    dtype: torch.dtype
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    spectrogram: Spectrogram

    @abstractmethod
    def new_spectrogram(self) -> Spectrogram:
        """Create what computes the feature frames; the network is loaded."""

    def build(self) -> None:
        """Load tokenizer and weights, or initialise the weights randomly.

        Raises:
            ZooError: If tokenizer, configuration or a weight is missing, if a weight has another
                shape, or if the tokenizer does not match the network.
        """
        if self.name is not None:
            self.model = pretrained_network(self.kind, self.name, dtype=self.dtype, lora=self.lora)
        with quiet():
            self.tokenizer = load_part(
                "tokenizer", AutoTokenizer.from_pretrained, self.tokenizer_source
            )
        if self.name is None:
            self.model = random_network(
                self.kind,
                self.config,
                ThoughtPrompt(tokenizer=self.tokenizer, template=self.template),
                embedding_std=self.embedding_std,
                dtype=self.dtype,
                lora=self.lora,
            )
        self._check_tokenizer()
        self.spectrogram = self.new_spectrogram()

    def _check_tokenizer(self) -> None:
        """Raise ZooError if the tokenizer has other token ids than the network."""
        audio_token = {self.template.audio: getattr(self.model.config, self.kind.audio_token)}
        vocabulary_size = self.decoder.get_output_embeddings().out_features
        check_tokenizer(
            self.tokenizer, self.tokenizer_source, scores=vocabulary_size, tokens=audio_token
        )

    @property
    def tower(self) -> Any:
        """The audio encoder, with the projector."""
        return audio_part(self.model)

    @property
    def decoder(self) -> Any:
        """The causal LM of the thinker."""
        return TextPart(self.model)

    def parts(self) -> dict[str, Iterable[nn.Parameter]]:
        """Parameters of ``encoder``, ``projector`` and ``decoder``, and of ``lora`` if it is set.

        The parameters of an adapter belong to ``lora``, not to ``decoder``.
        """
        # a list of modules yields tied weights of embeddings and output layer once
        decoder = nn.ModuleList([self.decoder.model, self.decoder.get_output_embeddings()])
        parts: dict[str, Iterable[nn.Parameter]] = {
            "encoder": self._tower_parameters(self.kind.encoder),
            "projector": self._tower_parameters(self.kind.projector),
            "decoder": adapters.others(decoder),
        }
        if self.lora is not None:
            parts["lora"] = adapters.parameters(self.model)
        return parts

    def _tower_parameters(self, modules: Iterable[str]) -> Iterable[nn.Parameter]:
        """Yield the parameters of modules of the audio encoder."""
        named = (self.tower.get_submodule(name) for name in modules)
        return chain.from_iterable(module.parameters() for module in named)
