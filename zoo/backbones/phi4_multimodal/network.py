"""Transformers' Phi4MultimodalForCausalLM without vision, randomly initialised or with published
weights.
"""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import nn
from transformers import (
    Phi4MultimodalAudioConfig,
    Phi4MultimodalConfig,
    Phi4MultimodalForCausalLM,
)
from transformers.initialization import no_init_weights
from transformers.models.phi4_multimodal.modeling_phi4_multimodal import (
    Phi4MultimodalAudioEmbedding,
    Phi4MultimodalRotaryEmbedding,
)

from zoo.backbones.common import lora as adapters
from zoo.backbones.common.chain_of_thought.prompt import Prompt
from zoo.backbones.common.lora import LoraConfig
from zoo.backbones.common.pretrained import loading
from zoo.backbones.common.pretrained.loading import check_fields
from zoo.backbones.phi4_multimodal.weights import NOUN, Published
from zoo.errors import ZooError, shorten_list

# layers of the speech adapter
TARGETS = r"model\.layers\.\d+\.(self_attn\.(qkv|o)_proj|mlp\.(gate_up|down)_proj)"

UNSEEN: Mapping[
    str, Any
] = {  # the class makes a vision tower in any case: the smallest one, and it goes at once
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "crop_size": 28,
    "image_size": 28,
    "patch_size": 14,
}


def random_network(
    config: Mapping[str, Any], prompt: Prompt, *, embedding_std: float | None, dtype: torch.dtype
) -> Phi4MultimodalForCausalLM:
    """A randomly initialised network.

    Args:
        config: Fields of ``Phi4MultimodalConfig``; those of tokens are the prompt's and its
            tokenizer's.
        prompt: Of the backbone.
        embedding_std: Standard deviation of the embeddings (None: the config's
            ``initializer_range``).
        dtype: Of the weights.

    Raises:
        ZooError: Where the fields do not fit together.
    """
    tokenizer = prompt.tokenizer
    audio = {**(config.get("audio_config") or {}), "audio_token_id": prompt.audio}
    check_fields("backbone.config", config, Phi4MultimodalConfig)
    check_fields("backbone.config.audio_config", audio, Phi4MultimodalAudioConfig)
    settings = {
        **config,
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": [prompt.end],
        "pad_token_id": tokenizer.pad_token_id,
        "audio_config": audio,
        "vision_config": dict(UNSEEN),
    }
    network = speech_only(
        loading.random_network(
            Phi4MultimodalForCausalLM, Phi4MultimodalConfig, settings, noun=NOUN, dtype=dtype
        )
    )
    if embedding_std is not None:
        nn.init.normal_(network.model.embed_tokens.weight, std=embedding_std)
    return network


def published_network(
    source: Published, *, audio: int, dtype: torch.dtype, lora: LoraConfig | None
) -> Phi4MultimodalForCausalLM:
    """The network with its weights, read one by one, without those of vision.

    Args:
        source: The published model on disk.
        audio: Id of the audio's token.
        dtype: Of the weights.
        lora: Adapter that is kept apart: the published one, or a new one where there is none; None:
            a published one is added to the weights.

    Raises:
        ZooError: For weights that are missing or of another shape, and for another adapter.
    """
    cast("Phi4MultimodalAudioConfig", source.config.audio_config).audio_token_id = audio
    if (source.config.sliding_window or 0) >= source.config.max_position_embeddings:
        source.config.sliding_window = (
            None  # masks nothing, but creates caches that cannot be cropped
        )
    with torch.device("meta"), no_init_weights():
        network = speech_only(Phi4MultimodalForCausalLM._from_config(source.config, dtype=dtype))
    weights, missing = {}, []
    for name, expected in network.state_dict().items():
        if name == "lm_head.weight" and source.config.tie_word_embeddings:
            continue
        found = source.tensor(name)
        if found is None:
            missing.append(name)
        elif found.shape != expected.shape:
            raise ZooError(
                f"{name} of {source.name} has shape {list(found.shape)}, not "
                f"{list(expected.shape)}."
            )
        else:
            weights[name] = found.to(dtype, copy=True)  # no longer mapped from disk
    if missing:
        raise ZooError(
            f"{source.name} lacks weights of a Phi-4-Multimodal: {shorten_list(missing)}."
        )
    network.load_state_dict(weights, strict=False, assign=True)
    network.tie_weights()
    network.model.rotary_emb = Phi4MultimodalRotaryEmbedding(source.config)
    adapters.install(network, source.adapter, lora, TARGETS)
    return network


def speech_only(network: Phi4MultimodalForCausalLM) -> Phi4MultimodalForCausalLM:
    """The same network without vision tower and without the projection of audio beside images."""
    extend: Any = network.model.embed_tokens_extend
    extend.image_embed = None
    extend.audio_embed.up_proj_for_vision_speech = (
        extend.audio_embed.down_proj_for_vision_speech
    ) = None
    return network


def audio_part(network: Phi4MultimodalForCausalLM) -> Phi4MultimodalAudioEmbedding:
    """Audio encoder and projection."""
    part: Phi4MultimodalAudioEmbedding = network.model.embed_tokens_extend.audio_embed
    return part
