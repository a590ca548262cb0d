"""What backbones with a causal LM in a chat format share: text, files and memory layout."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from zoo.backbones.base import TokenizerCorpus
from zoo.backbones.decoding.causal import layers
from zoo.backbones.pretrained import lora as adapters
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.backbones.text.tokenizer import train_chat_tokenizer
from zoo.backbones.text.vocabulary import detokenise
from zoo.base.machine.int8 import DecoderWeights


class ChatLLM(ABC):
    """The part of a backbone with a causal LM that does not depend on the content of its prompts.

    Attributes:
        chat: Default strings of the prompt, in the model's published chat format.
        adapted: Regular expression of the layers that an adapter changes, see ``lora.inject``.
        model: The Transformers model that is saved; it contains the causal LM.
        tokenizer: The tokenizer of the causal LM.
        lora: Trainable adapter of the causal LM, or None.
        decoder_weights: Type of the weights that every step of decoding reads.
    """

    chat: ClassVar[Any]
    adapted: ClassVar[str] = ""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    lora: LoraConfig | None
    decoder_weights: DecoderWeights

    @property
    @abstractmethod
    def decoder(self) -> Any:
        """The causal LM.

        The LM has the methods ``get_input_embeddings()`` and ``get_output_embeddings()``, and the
        attribute ``model``.

        ``model`` receives ``inputs_embeds`` (batch, new, width), ``attention_mask`` (batch, 1, new,
        keys), which is added to the attention scores, ``position_ids`` (batch, new),
        ``past_key_values``, ``use_cache`` and ``recorder``. ``model`` returns hidden states (batch,
        new, width). Its attention implementation is ``zoo_grouped``, and ``model.config`` contains
        the numbers of layers and heads.
        """

    def int8_layers(self) -> Iterable[nn.Module]:
        """Return the linear layers of the causal LM, if they get int8 weights."""
        return layers.step_layers(self.decoder) if self.decoder_weights == "int8" else ()

    def arrange(self) -> None:
        """Choose the memory layout of the weights for streaming; values stay the same."""
        layers.arrange(self, self.decoder)  # type: ignore[arg-type]

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write model, adapter and tokenizer in the file layout of Transformers.

        ``LoraConfig.save`` decides whether the adapter is merged or written to a separate folder.

        Args:
            folder: Destination folder.
            dtype: Floating-point type of the written weights. None keeps the type of the network.
        """
        adapters.save(self.model, folder, dtype, self.lora, self.adapted)
        self.tokenizer.save_pretrained(folder)

    def text(self, token_ids: list[int]) -> str:
        """Detokenise ``token_ids`` without special tokens."""
        return detokenise(self.tokenizer, token_ids)

    @classmethod
    def train_tokenizer(
        cls, corpus: TokenizerCorpus, folder: Path, arguments: Mapping[str, Any]
    ) -> None:
        """Train a byte-level BPE tokenizer and write it to ``folder``.

        Args:
            corpus: Text of the source and target language.
            folder: Destination folder.
            arguments: Constructor arguments of the backbone. The special tokens of ``template`` are
                added to the vocabulary.
        """
        template = arguments.get("template") or cls.chat
        train_chat_tokenizer(corpus, template).save_pretrained(folder)
