"""Thinkers of Qwen's omni models: the network of backbones that prompt it in different ways."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from zoo.backbones.architectures.thinker.network import (
    ThinkerKind,
    add_tokens,
    audio_part,
    pretrained_network,
    random_network,
    text_part,
)
from zoo.backbones.encoders.audio.spectrogram import Spectrogram
from zoo.backbones.pretrained import lora as adapters
from zoo.backbones.pretrained.loading import check_tokenizer, load_part
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.backbones.pretrained.messages import quiet
from zoo.backbones.text.prompt import ADVICE, ChatPrompt


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
    """The network of a ``ChainOfThought`` or ``Dialogue``: the thinker of a Qwen omni model.

    A family has one subclass, which names the family's classes of Transformers and implements the
    encoder. A backbone inherits from this subclass and then from ``ChainOfThought`` or
    ``Dialogue``, whose attributes this class uses.

    Attributes:
        kind: Classes of the family.
        added_tokens: Tokens that the tokenizer gets if it lacks them.
        template: Strings of the prompt, among them the tokens ``audio`` and ``end``.
        model: The thinker, with audio encoder, projector and causal LM.
    """

    kind: ClassVar[ThinkerKind]
    added_tokens: Sequence[str] = ()

    name: str | None
    config: Mapping[str, Any]
    tokenizer_source: str
    embedding_std: float | None
    lora: LoraConfig | None
    template: Any
    dtype: torch.dtype
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    spectrogram: Spectrogram

    @abstractmethod
    def new_spectrogram(self) -> Spectrogram:
        """Create what computes the feature frames; the network is loaded."""

    @staticmethod
    @abstractmethod
    def prepared(frames: Tensor) -> Tensor:
        """Convert spectrogram frames (F, bins) to encoder input, without learned parameters."""

    @staticmethod
    @abstractmethod
    def embeddings(features: int) -> int:
        """Number of speech embeddings that the encoder computes from ``features`` frames."""

    @abstractmethod
    def encode(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Encode features (F, bins) of several recordings independently of each other.

        Returns:
            Hidden states (T, hidden) of the last layer and of a middle layer, each as a list with
            one tensor per recording. T is ``embeddings(F)``.
        """

    @abstractmethod
    def project(self, hidden: Tensor) -> Tensor:
        """Project hidden states (..., hidden) of the last encoder layer to (..., LLM width)."""

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
            add_tokens(self.tokenizer, self.added_tokens)
            tokens = ChatPrompt(self.tokenizer)
            self.model = random_network(
                self.kind,
                self.config,
                self.tokenizer,
                audio=tokens.single(self.template.audio, advice=ADVICE),
                end=tokens.single(self.template.end, advice=ADVICE),
                embedding_std=self.embedding_std,
                dtype=self.dtype,
                lora=self.lora,
            )
        else:
            add_tokens(self.tokenizer, self.added_tokens, self.model)
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
