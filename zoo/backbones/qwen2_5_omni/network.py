"""Transformers' Qwen2.5-Omni thinker with an empty vision tower."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    Qwen2_5OmniAudioEncoderConfig,
    Qwen2_5OmniTextConfig,
    Qwen2_5OmniThinkerConfig,
    Qwen2_5OmniThinkerForConditionalGeneration,
)

from zoo.backbones.common.causal.decoder import ATTENTION
from zoo.backbones.common.chain_of_thought.prompt import Prompt
from zoo.backbones.common.lora import LoraConfig, install, read_adapter
from zoo.backbones.common.pretrained import loading
from zoo.backbones.common.pretrained.loading import (
    check_fields,
    load_network,
    load_part,
    model_type,
    quiet,
)

TARGETS = (  # of a new adapter
    r"model\.(language_model\.)?layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"
)

UNSEEN: Mapping[str, Any] = {  # the smallest vision tower that the class makes
    "depth": 0,
    "hidden_size": 4,
    "intermediate_size": 4,
    "num_heads": 1,
    "patch_size": 2,
    "fullatt_block_indexes": [],
}


def random_network(
    config: Mapping[str, Any], prompt: Prompt, *, embedding_std: float | None, dtype: torch.dtype
) -> Qwen2_5OmniThinkerForConditionalGeneration:
    """A randomly initialised network.

    Args:
        config: Fields of ``Qwen2_5OmniThinkerConfig``; those of tokens are the prompt's and its
            tokenizer's.
        prompt: Of the backbone.
        embedding_std: Standard deviation of the embeddings (None: the config's
            ``initializer_range``).
        dtype: Of the weights.

    Raises:
        ZooError: Where the fields do not fit together.
    """
    network = loading.random_network(
        Qwen2_5OmniThinkerForConditionalGeneration,
        Qwen2_5OmniThinkerConfig,
        _settings(config, prompt),
        noun="Qwen2.5-Omni thinker",
        dtype=dtype,
    )
    if embedding_std is not None:
        nn.init.normal_(network.get_input_embeddings().weight, std=embedding_std)
    return with_grouped_attention(network)


def pretrained_network(
    name: str, *, dtype: torch.dtype, lora: LoraConfig | None = None
) -> Qwen2_5OmniThinkerForConditionalGeneration:
    """The thinker of a folder or of the hub, without its talker and the blocks of its vision tower.

    Args:
        name: Hub id or folder.
        dtype: Of the weights.
        lora: Adapter that is kept apart: the one in the folder, or a new one where there is none;
            None: one in the folder is added to the weights.

    Raises:
        ZooError: For what is missing or differs.
    """
    model_type(name, wanted=("qwen2_5_omni", "qwen2_5_omni_thinker"), noun="Qwen2.5-Omni")
    with quiet():
        config: Any = load_part("thinker", Qwen2_5OmniThinkerConfig.from_pretrained, name)
        config.vision_config.depth, config.vision_config.fullatt_block_indexes = 0, []
        network = load_network(
            Qwen2_5OmniThinkerForConditionalGeneration, name, dtype, config=config
        )
    install(network, read_adapter(Path(name)), lora, TARGETS)
    return with_grouped_attention(network)


def with_grouped_attention(
    network: Qwen2_5OmniThinkerForConditionalGeneration,
) -> Qwen2_5OmniThinkerForConditionalGeneration:
    """The same network with recordable attention in its text part."""
    text_part(network).set_attn_implementation(ATTENTION)
    return network


def text_part(network: Qwen2_5OmniThinkerForConditionalGeneration) -> Any:
    """The module that returns hidden states of text; in older versions of Transformers, ``model``
    itself.
    """
    return getattr(network.model, "language_model", network.model)


def audio_part(network: Qwen2_5OmniThinkerForConditionalGeneration) -> Any:
    """The audio encoder; in older versions of Transformers beside ``model``."""
    return getattr(network.model, "audio_tower", None) or network.get_submodule("audio_tower")


def _settings(config: Mapping[str, Any], prompt: Prompt) -> dict[str, Any]:
    """Fields of the thinker's config: widths that fit one another, and ids of tokens.

    Tokens that never occur get the padding's id.
    """
    tokenizer = prompt.tokenizer
    unused = tokenizer.pad_token_id
    text, audio = dict(config.get("text_config") or {}), dict(config.get("audio_config") or {})
    check_fields("backbone.config", config, Qwen2_5OmniThinkerConfig)
    check_fields("backbone.config.text_config", text, Qwen2_5OmniTextConfig)
    check_fields("backbone.config.audio_config", audio, Qwen2_5OmniAudioEncoderConfig)
    text |= {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": prompt.end,
        "pad_token_id": unused,
    }
    width = text.get("hidden_size")
    names = ("audio_start", "audio_end", "vision_start", "vision_end", "user")
    return {
        "tie_word_embeddings": text.get(
            "tie_word_embeddings", True
        ),  # of the class that holds both
        **config,
        **{f"{name}_token_id": unused for name in names},
        "audio_token_index": prompt.audio,
        "image_token_index": unused,
        "video_token_index": unused,
        "text_config": text,
        "audio_config": {**audio, "output_dim": width},
        "vision_config": {**UNSEEN, "out_hidden_size": width},
    }
