"""``Phi4MultimodalForCausalLM`` of Transformers without its vision tower.

The network is either initialised randomly or loaded from published weights.
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

from zoo.backbones.architectures.chain_of_thought.prompt import ThoughtPrompt
from zoo.backbones.base import check_finite, is_empty, mark_restored
from zoo.backbones.phi4_multimodal.weights import NOUN, Published
from zoo.backbones.pretrained import loading
from zoo.backbones.pretrained import lora as adapters
from zoo.backbones.pretrained.loading import check_fields
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.base.errors import ZooError, shorten_list

# Regular expression of the layers that the speech adapter changes.
TARGETS = r"model\.layers\.\d+\.(self_attn\.(qkv|o)_proj|mlp\.(gate_up|down)_proj)"

# The class always creates a vision tower: the smallest vision tower, which ``speech_only`` removes.
UNSEEN: Mapping[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "crop_size": 28,
    "image_size": 28,
    "patch_size": 14,
}


def random_network(
    config: Mapping[str, Any],
    prompt: ThoughtPrompt,
    *,
    embedding_std: float | None,
    dtype: torch.dtype,
) -> Phi4MultimodalForCausalLM:
    """Create a randomly initialised network.

    Args:
        config: Fields of ``Phi4MultimodalConfig``. Token ids and vocabulary size are taken from
            ``prompt`` and its tokenizer instead.
        prompt: Prompt of the backbone.
        embedding_std: Standard deviation of the token embeddings. None uses ``initializer_range``
            of the configuration.
        dtype: Floating-point type of the weights.

    Raises:
        ZooError: If ``config`` has an unknown field, or if the fields contradict each other.
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
    """Load a network from published weights, without the weights of the vision tower.

    Args:
        source: The published model on disk.
        audio: Id of the token that speech embeddings replace.
        dtype: Floating-point type of the weights.
        lora: Trainable adapter. A published adapter is loaded; otherwise a new adapter is added.
            None merges a published adapter into the weights.

    Raises:
        ZooError: If a weight is missing or has another shape, or if the published adapter does not
            match ``lora``.
    """
    cast("Phi4MultimodalAudioConfig", source.config.audio_config).audio_token_id = audio
    if (source.config.sliding_window or 0) >= source.config.max_position_embeddings:
        # Such a window masks nothing, but Transformers would create caches that cannot be cropped.
        source.config.sliding_window = None
    with torch.device("meta"), no_init_weights():
        network = speech_only(Phi4MultimodalForCausalLM._from_config(source.config, dtype=dtype))

    if is_empty():
        network.tie_weights()  # its output layer is not a second matrix
        mark_restored(network)
        adapters.install(network, None, lora, TARGETS)
        return network
    weights = {}
    missing = []
    for name, expected in network.state_dict().items():
        if name == "lm_head.weight" and source.config.tie_word_embeddings:
            continue
        weight = source.tensor(name)
        if weight is None:
            missing.append(name)
        elif weight.shape != expected.shape:
            raise ZooError(
                f"{name} of {source.name} has shape {list(weight.shape)}, not "
                f"{list(expected.shape)}."
            )
        else:
            weights[name] = weight.to(dtype, copy=True)  # a copy releases the memory-mapped file
    if missing:
        raise ZooError(
            f"{source.name} lacks weights of a Phi-4-Multimodal: {shorten_list(missing)}."
        )
    network.load_state_dict(weights, strict=False, assign=True)
    network.tie_weights()
    check_finite(network, source.name)
    mark_restored(network)
    if source.generation is not None:
        network.generation_config = source.generation
    network.model.rotary_emb = Phi4MultimodalRotaryEmbedding(source.config)
    adapters.install(network, source.adapter, lora, TARGETS)
    return network


def speech_only(network: Phi4MultimodalForCausalLM) -> Phi4MultimodalForCausalLM:
    """Remove the vision tower, and the audio projection for inputs with images."""
    extend: Any = network.model.embed_tokens_extend
    extend.image_embed = None
    extend.audio_embed.up_proj_for_vision_speech = None
    extend.audio_embed.down_proj_for_vision_speech = None
    return network


def audio_part(network: Phi4MultimodalForCausalLM) -> Phi4MultimodalAudioEmbedding:
    """The module with the audio encoder and the projection."""
    module: Phi4MultimodalAudioEmbedding = network.model.embed_tokens_extend.audio_embed
    return module
