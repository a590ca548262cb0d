"""Transformers' Qwen2.5-Omni thinker, with eyes that see nothing. Knows no stream and no search."""

from collections.abc import Mapping
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import (
    PreTrainedTokenizerBase,
    Qwen2_5OmniThinkerConfig,
    Qwen2_5OmniThinkerForConditionalGeneration,
)

from zoo.backbones.infinisst.decoder import ATTENTION
from zoo.errors import ZooError

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
) -> Qwen2_5OmniThinkerForConditionalGeneration:
    """A network of random weights. config: fields of ``Qwen2_5OmniThinkerConfig``; those of tokens are the tokenizer's.

    audio, end: ids of the audio's token and of the one that ends an answer. embedding_std: spread of the embeddings
    (None: the config's ``initializer_range``). Raises ZooError for fields that make no network.
    """
    try:
        settings = _config(config, tokenizer, audio, end)
        network = Qwen2_5OmniThinkerForConditionalGeneration._from_config(settings, dtype=dtype)
    except (TypeError, ValueError, KeyError, StrictDataclassError, RuntimeError) as error:
        raise ZooError(f"backbone.config makes no Qwen2.5-Omni thinker: {' '.join(str(error).split())}") from error
    if embedding_std is not None:
        nn.init.normal_(network.get_input_embeddings().weight, std=embedding_std)
    return with_grouped_attention(network)


def with_grouped_attention(
    network: Qwen2_5OmniThinkerForConditionalGeneration,
) -> Qwen2_5OmniThinkerForConditionalGeneration:
    """The same network, whose text part tells what it attends to; its encoder keeps Transformers' attention."""
    network.model.language_model.set_attn_implementation(ATTENTION)
    return network


def _config(
    config: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, audio: int, end: int
) -> Qwen2_5OmniThinkerConfig:
    """Widths of the parts made to fit one another, ids of tokens filled in; what is never seen has the padding's."""
    unseen = tokenizer.pad_token_id
    text = dict(config.get("text_config") or {})
    text |= {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": end,
        "pad_token_id": unseen,
    }
    width = text.get("hidden_size")
    tokens = {f"{name}_token_id": unseen for name in ("audio_start", "audio_end", "vision_start", "vision_end", "user")}
    indices = {"audio_token_index": audio, "image_token_index": unseen, "video_token_index": unseen}
    parts = {
        "text_config": text,
        "audio_config": {**(config.get("audio_config") or {}), "output_dim": width},
        "vision_config": {**UNSEEN, "out_hidden_size": width},
    }
    tied = {"tie_word_embeddings": text.get("tie_word_embeddings", True)}  # of the class that holds both
    return Qwen2_5OmniThinkerConfig(**{**tied, **config, **tokens, **indices, **parts})
