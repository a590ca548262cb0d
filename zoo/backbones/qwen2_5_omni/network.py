"""The Qwen2.5-Omni thinker of Transformers, without the layers of its vision tower.

The thinker is the part of Qwen2.5-Omni that generates text; the talker generates speech.
"""

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
from zoo.backbones.common.chain_of_thought.prompt import ThoughtPrompt
from zoo.backbones.common.lora import LoraConfig, install, read_adapter
from zoo.backbones.common.pretrained import loading
from zoo.backbones.common.pretrained.loading import (
    check_fields,
    load_network,
    load_part,
    model_type,
    quiet,
)

TARGETS = (  # regular expression of the layers that a new adapter changes
    r"model\.(language_model\.)?layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"
)

UNSEEN: Mapping[str, Any] = {  # smallest vision tower that the class accepts; it is never used
    "depth": 0,
    "hidden_size": 4,
    "intermediate_size": 4,
    "num_heads": 1,
    "patch_size": 2,
    "fullatt_block_indexes": [],
}


def random_network(
    config: Mapping[str, Any],
    prompt: ThoughtPrompt,
    *,
    embedding_std: float | None,
    dtype: torch.dtype,
) -> Qwen2_5OmniThinkerForConditionalGeneration:
    """Create a randomly initialised thinker.

    Args:
        config: Fields of ``Qwen2_5OmniThinkerConfig``. Token ids and vocabulary size are taken from
            ``prompt`` and its tokenizer instead.
        prompt: Prompt of the backbone.
        embedding_std: Standard deviation of the token embeddings. None uses ``initializer_range``
            of the configuration.
        dtype: Floating-point type of the weights.

    Raises:
        ZooError: If ``config`` has an unknown field, or if the fields contradict each other.
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
    """Load a pretrained thinker, without the talker and without the layers of the vision tower.

    Args:
        name: Hub id or folder.
        dtype: Floating-point type of the weights.
        lora: Trainable adapter. An adapter in the folder is loaded; otherwise a new adapter is
            added. None merges an adapter in the folder into the weights.

    Raises:
        ZooError: If ``name`` is not a Qwen2.5-Omni, if a weight is missing or has another shape, or
            if the adapter in the folder does not match ``lora``.
    """
    model_type(name, accepted=("qwen2_5_omni", "qwen2_5_omni_thinker"), noun="Qwen2.5-Omni")
    with quiet():
        config: Any = load_part("thinker", Qwen2_5OmniThinkerConfig.from_pretrained, name)
        config.vision_config.depth = 0
        config.vision_config.fullatt_block_indexes = []
        network = load_network(
            Qwen2_5OmniThinkerForConditionalGeneration, name, dtype, config=config
        )
    install(network, read_adapter(Path(name)), lora, TARGETS)
    return with_grouped_attention(network)


def with_grouped_attention(
    network: Qwen2_5OmniThinkerForConditionalGeneration,
) -> Qwen2_5OmniThinkerForConditionalGeneration:
    """Switch the causal LM to an attention implementation that can record weights."""
    text_part(network).set_attn_implementation(ATTENTION)
    return network


def text_part(network: Qwen2_5OmniThinkerForConditionalGeneration) -> Any:
    """The causal LM without its output layer."""
    # Older versions of Transformers have no submodule ``language_model``.
    return getattr(network.model, "language_model", network.model)


def audio_part(network: Qwen2_5OmniThinkerForConditionalGeneration) -> Any:
    """The audio encoder."""
    # In older versions of Transformers the encoder is a submodule of the thinker, not of ``model``.
    return getattr(network.model, "audio_tower", None) or network.get_submodule("audio_tower")


def _settings(config: Mapping[str, Any], prompt: ThoughtPrompt) -> dict[str, Any]:
    """Complete the fields of the thinker's configuration with consistent widths and token ids.

    The configuration requires ids of tokens that never occur in a prompt; these ids are set to the
    id of the padding token.
    """
    tokenizer = prompt.tokenizer
    unused = tokenizer.pad_token_id
    text = dict(config.get("text_config") or {})
    audio = dict(config.get("audio_config") or {})
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
    unused_tokens = ("audio_start", "audio_end", "vision_start", "vision_end", "user")
    return {
        # The thinker, not the causal LM, owns both token embeddings and output layer.
        "tie_word_embeddings": text.get("tie_word_embeddings", True),
        **config,
        **{f"{token}_token_id": unused for token in unused_tokens},
        "audio_token_index": prompt.audio,
        "image_token_index": unused,
        "video_token_index": unused,
        "text_config": text,
        "audio_config": {**audio, "output_dim": width},
        "vision_config": {**UNSEEN, "out_hidden_size": width},
    }
