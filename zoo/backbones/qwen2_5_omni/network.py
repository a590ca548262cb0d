"""Transformers' Qwen2.5-Omni thinker, with eyes that see nothing. Knows no stream and no search."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import (
    PreTrainedTokenizerBase,
    Qwen2_5OmniAudioEncoderConfig,
    Qwen2_5OmniTextConfig,
    Qwen2_5OmniThinkerConfig,
    Qwen2_5OmniThinkerForConditionalGeneration,
)

from zoo.backbones.common.causal.decoder import ATTENTION
from zoo.backbones.common.lora import LoraConfig, inject, install, read_adapter
from zoo.backbones.common.pretrained.loading import check_fields, model_type, part, quiet, weights
from zoo.errors import ZooError

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
    config: Mapping[str, Any],
    tokenizer: PreTrainedTokenizerBase,
    *,
    audio: int,
    end: int,
    embedding_std: float | None,
    dtype: torch.dtype,
    lora: LoraConfig | None = None,
) -> Qwen2_5OmniThinkerForConditionalGeneration:
    """A network of random weights. config: fields of ``Qwen2_5OmniThinkerConfig``; those of tokens are the tokenizer's.

    audio, end: ids of the audio's token and of the one that ends an answer. embedding_std: spread of the embeddings
    (None: the config's ``initializer_range``). lora: an adapter to put in.

    Raises ZooError for fields that make no network.
    """
    try:
        settings = _config(config, tokenizer, audio, end)
        network = Qwen2_5OmniThinkerForConditionalGeneration._from_config(settings, dtype=dtype)
    except (TypeError, ValueError, KeyError, StrictDataclassError, RuntimeError) as error:
        raise ZooError(
            f"backbone.config makes no Qwen2.5-Omni thinker: {' '.join(str(error).split())}"
        ) from error
    if embedding_std is not None:
        nn.init.normal_(network.get_input_embeddings().weight, std=embedding_std)
    if lora is not None:
        inject(network, lora, TARGETS)
    return with_grouped_attention(network)


def pretrained_network(
    name: str, *, dtype: torch.dtype, lora: LoraConfig | None = None
) -> Qwen2_5OmniThinkerForConditionalGeneration:
    """The thinker in a folder or on the hub, alone or with the talker that belongs to it, which is left out.

    The blocks of its vision tower are not read either. lora: the adapter that is kept apart: the one in the folder, or
    a new one where there is none; None: one in the folder is added to the weights. Raises ZooError for what is missing
    or something else.
    """
    model_type(name, wanted=("qwen2_5_omni", "qwen2_5_omni_thinker"), noun="Qwen2.5-Omni")
    with quiet():
        config: Any = part("thinker", Qwen2_5OmniThinkerConfig.from_pretrained, name)
        config.vision_config.depth, config.vision_config.fullatt_block_indexes = 0, []
        network = weights(Qwen2_5OmniThinkerForConditionalGeneration, name, dtype, config=config)
    install(network, read_adapter(Path(name)), lora, TARGETS)
    return with_grouped_attention(network)


def with_grouped_attention(
    network: Qwen2_5OmniThinkerForConditionalGeneration,
) -> Qwen2_5OmniThinkerForConditionalGeneration:
    """The same network, whose text part tells what it attends to; its encoder keeps Transformers' attention."""
    text_part(network).set_attn_implementation(ATTENTION)
    return network


def text_part(network: Qwen2_5OmniThinkerForConditionalGeneration) -> Any:
    """What gives hidden states of text; in older versions of Transformers, ``model`` itself."""
    return getattr(network.model, "language_model", network.model)


def audio_part(network: Qwen2_5OmniThinkerForConditionalGeneration) -> Any:
    """The audio encoder, which older versions of Transformers have beside ``model``."""
    return getattr(network.model, "audio_tower", None) or network.get_submodule("audio_tower")


def _config(
    config: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, audio: int, end: int
) -> Qwen2_5OmniThinkerConfig:
    """Widths of the parts made to fit one another, ids of tokens filled in; what is never seen has the padding's."""
    unseen = tokenizer.pad_token_id
    text, audio_part = dict(config.get("text_config") or {}), dict(config.get("audio_config") or {})
    check_fields("backbone.config", config, Qwen2_5OmniThinkerConfig)
    check_fields("backbone.config.text_config", text, Qwen2_5OmniTextConfig)
    check_fields("backbone.config.audio_config", audio_part, Qwen2_5OmniAudioEncoderConfig)
    text |= {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": end,
        "pad_token_id": unseen,
    }
    width = text.get("hidden_size")
    tokens = {
        f"{name}_token_id": unseen
        for name in ("audio_start", "audio_end", "vision_start", "vision_end", "user")
    }
    indices = {"audio_token_index": audio, "image_token_index": unseen, "video_token_index": unseen}
    parts = {
        "text_config": text,
        "audio_config": {**audio_part, "output_dim": width},
        "vision_config": {**UNSEEN, "out_hidden_size": width},
    }
    tied = {
        "tie_word_embeddings": text.get("tie_word_embeddings", True)
    }  # of the class that holds both
    return Qwen2_5OmniThinkerConfig(**{**tied, **config, **tokens, **indices, **parts})
