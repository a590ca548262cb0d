"""Thinkers of Transformers, without the layers of their vision towers.

The thinker is the part of an omni model that generates text; the talker generates speech.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from zoo.backbones.decoding.causal.decoder import ATTENTION
from zoo.backbones.pretrained import loading
from zoo.backbones.pretrained.loading import (
    check_fields,
    load_network,
    load_part,
    model_type,
)
from zoo.backbones.pretrained.lora import LoraConfig, inject, install, read_adapter
from zoo.backbones.pretrained.messages import quiet
from zoo.backbones.text.vocabulary import token_ids

LAYERS = r"model\.(language_model\.)?layers\.\d+\."  # begins the paths of the causal LM's layers
UNUSED = (  # fields with ids of tokens that never occur in a prompt, in all families
    "audio_start_token_id",
    "audio_end_token_id",
    "vision_start_token_id",
    "vision_end_token_id",
    "user_token_id",
)
UNSEEN: Mapping[str, Any] = {  # smallest vision tower that the classes accept; it is never used
    "hidden_size": 4,
    "intermediate_size": 4,
    "num_heads": 1,
    "patch_size": 2,
}


@dataclass(frozen=True, slots=True)
class ThinkerKind:
    """The classes of one family of thinkers, and the names that differ between families.

    Attributes:
        noun: Name of the model in error messages.
        model_types: Model types of the whole model and of its thinker, if they differ.
        network: Class of the thinker.
        config: Class of the thinker's configuration.
        text: Class of the configuration of the causal LM.
        audio: Class of the configuration of the audio encoder.
        audio_token: Field with the id of the token that speech embeddings replace.
        targets: Regular expression of the layers that a new adapter changes.
        unused_tokens: Fields with ids of tokens that never occur in a prompt.
        blind: Fields of a vision tower without layers. Empty: the thinker has no vision tower.
        encoder: Names of the modules of the audio encoder before the projector.
        projector: Names of the modules of the projector.
    """

    noun: str
    model_types: tuple[str, ...]
    network: Any
    config: Any
    text: Any
    audio: Any
    audio_token: str
    targets: str
    unused_tokens: tuple[str, ...]
    blind: Mapping[str, Any]
    encoder: tuple[str, ...]
    projector: tuple[str, ...]


def random_network(
    kind: ThinkerKind,
    config: Mapping[str, Any],
    tokenizer: PreTrainedTokenizerBase,
    *,
    audio: int,
    end: int,
    embedding_std: float | None,
    dtype: torch.dtype,
    lora: LoraConfig | None,
) -> Any:
    """Create a randomly initialised thinker.

    Args:
        kind: Family of the thinker.
        config: Fields of the thinker's configuration. Token ids and vocabulary size are set to
            those of the tokenizer instead.
        tokenizer: Tokenizer of the causal LM.
        audio: Id of the token that speech embeddings replace.
        end: Id of the token that ends an answer.
        embedding_std: Standard deviation of the token embeddings. None uses ``initializer_range``
            of the configuration.
        dtype: Floating-point type of the weights.
        lora: New adapter. None: no adapter.

    Raises:
        ZooError: If ``config`` has an unknown field, or if the fields contradict each other.
    """
    network = loading.random_network(
        kind.network,
        kind.config,
        _settings(kind, config, tokenizer, audio=audio, end=end),
        noun=f"{kind.noun} thinker",
        dtype=dtype,
    )
    if embedding_std is not None:
        nn.init.normal_(network.get_input_embeddings().weight, std=embedding_std)
    if lora is not None:
        inject(network, lora, kind.targets)
    return for_streaming(network)


def pretrained_network(
    kind: ThinkerKind, name: str, *, dtype: torch.dtype, lora: LoraConfig | None = None
) -> Any:
    """Load a pretrained thinker, without the talker and without the layers of the vision tower.

    Args:
        kind: Family of the thinker.
        name: Hub id or folder.
        dtype: Floating-point type of the weights.
        lora: Trainable adapter. An adapter in the folder is loaded; otherwise a new adapter is
            added. None merges an adapter in the folder into the weights.

    Raises:
        ZooError: If ``name`` is no model of ``kind``, if a weight is missing or has another shape,
            or if the adapter in the folder does not match ``lora``.
    """
    model_type(name, accepted=kind.model_types, noun=kind.noun)
    with quiet():
        config: Any = load_part("thinker", kind.config.from_pretrained, name)
        for field, value in kind.blind.items():
            setattr(config.vision_config, field, value)
        network = load_network(kind.network, name, dtype, config=config)
    install(network, read_adapter(Path(name)), lora, kind.targets)
    return for_streaming(network)


def add_tokens(
    tokenizer: PreTrainedTokenizerBase, tokens: Sequence[str], network: Any = None
) -> None:
    """Add special tokens that a tokenizer lacks, and their embeddings.

    The new rows of the embeddings and of the output layer are the mean of the rows of the tokens
    that the text of the new token had before. A network whose adapter alone is trained can
    therefore generate the new token, and distinguish it from others.

    Args:
        tokenizer: Tokenizer of the causal LM, changed in place.
        tokens: Texts of the tokens. A text that is a single token already is not added.
        network: Thinker with its weights, changed in place. None: it is not created yet.
    """
    pieces = {token: token_ids(tokenizer, token) for token in tokens}
    pieces = {token: ids for token, ids in pieces.items() if len(ids) != 1}
    tokenizer.add_tokens(list(pieces), special_tokens=True)
    if network is None or not pieces:
        return
    if len(tokenizer) > network.get_input_embeddings().num_embeddings:
        with quiet():
            network.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    layers = (network.get_input_embeddings(), network.get_output_embeddings())
    with torch.no_grad():
        for layer in layers:
            for token, ids in pieces.items():
                row = layer.weight[ids].mean(dim=0)
                layer.weight[tokenizer.convert_tokens_to_ids(token)] = row


def for_streaming(network: Any) -> Any:
    """Choose implementations that record attention and that support the type of the weights."""
    text = text_part(network)
    text.set_attn_implementation(ATTENTION)
    # Transformers' grouped product of experts, its default, does not exist in float64.
    if text.dtype == torch.float64 and getattr(text.config, "num_experts", None):
        text.set_experts_implementation("eager")
    return network


def text_part(network: Any) -> Any:
    """The causal LM without its output layer."""
    # Older versions of Transformers have no submodule ``language_model``.
    return getattr(network.model, "language_model", network.model)


def audio_part(network: Any) -> Any:
    """The audio encoder."""
    # In older versions of Transformers the encoder is a submodule of the thinker, not of ``model``.
    return getattr(network.model, "audio_tower", None) or network.get_submodule("audio_tower")


def _settings(
    kind: ThinkerKind,
    config: Mapping[str, Any],
    tokenizer: PreTrainedTokenizerBase,
    *,
    audio: int,
    end: int,
) -> dict[str, Any]:
    """Complete the fields of the thinker's configuration with consistent widths and token ids.

    The configuration requires ids of tokens that never occur in a prompt; these ids are set to the
    id of the padding token.
    """
    unused = tokenizer.pad_token_id
    text = dict(config.get("text_config") or {})
    encoder = dict(config.get("audio_config") or {})
    check_fields("backbone.config", config, kind.config)
    check_fields("backbone.config.text_config", text, kind.text)
    check_fields("backbone.config.audio_config", encoder, kind.audio)
    text |= {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": end,
        "pad_token_id": unused,
    }
    width = text.get("hidden_size")
    sight = {"vision_config": {**UNSEEN, **kind.blind, "out_hidden_size": width}}
    return {
        # The thinker, not the causal LM, owns both token embeddings and output layer.
        "tie_word_embeddings": text.get("tie_word_embeddings", True),
        **config,
        **dict.fromkeys(kind.unused_tokens, unused),
        kind.audio_token: audio,
        "text_config": text,
        "audio_config": {**encoder, "output_dim": width},
        **(sight if kind.blind else {}),
    }
