"""Transformers' Phi4MultimodalForCausalLM without eyes, with random weights. Knows neither files nor streams."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import (
    Phi4MultimodalAudioConfig,
    Phi4MultimodalConfig,
    Phi4MultimodalForCausalLM,
    PreTrainedTokenizerBase,
)
from transformers.models.phi4_multimodal.modeling_phi4_multimodal import Phi4MultimodalAudioEmbedding

from zoo.errors import ZooError, unknown

UNSEEN: Mapping[str, Any] = {  # the class makes a vision tower in any case: the smallest one, and it goes at once
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "crop_size": 28,
    "image_size": 28,
    "patch_size": 14,
}


def random_network(
    config: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, *, audio: int, end: int, embedding_std: float | None
) -> Phi4MultimodalForCausalLM:
    """A network of random weights. config: fields of ``Phi4MultimodalConfig``; those of tokens are the tokenizer's.

    audio, end: ids of the audio's token and of the one that ends an answer. embedding_std: spread of the embeddings
    (None: the config's ``initializer_range``). Raises ZooError for fields that make no network.
    """
    tokens = {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": [end],
        "pad_token_id": tokenizer.pad_token_id,
    }
    heard = {**(config.get("audio_config") or {}), "audio_token_id": audio}
    _check("backbone.config", config, Phi4MultimodalConfig)
    _check("backbone.config.audio_config", heard, Phi4MultimodalAudioConfig)
    made = {**config, **tokens, "audio_config": heard, "vision_config": dict(UNSEEN)}
    try:
        network = speech_only(Phi4MultimodalForCausalLM(Phi4MultimodalConfig(**made)))
    except (TypeError, ValueError, StrictDataclassError) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise ZooError(f"backbone.config makes no Phi-4-Multimodal: {reason}") from error
    if embedding_std is not None:
        nn.init.normal_(network.model.embed_tokens.weight, std=embedding_std)
    return network


def _check(where: str, given: Mapping[str, Any], kind: Any) -> None:
    """Transformers keeps fields that it does not know without a word."""
    known = {field.name for field in fields(kind)}
    for name in given:
        if name not in known:
            raise unknown(f"field of {where}", str(name), known)


def speech_only(network: Phi4MultimodalForCausalLM) -> Phi4MultimodalForCausalLM:
    """The same network without its vision tower and without the projection of audio that comes with images."""
    extend: Any = network.model.embed_tokens_extend
    extend.image_embed = None
    extend.audio_embed.up_proj_for_vision_speech = extend.audio_embed.down_proj_for_vision_speech = None
    return network


def audio_part(network: Phi4MultimodalForCausalLM) -> Phi4MultimodalAudioEmbedding:
    """Audio encoder and projection."""
    part: Phi4MultimodalAudioEmbedding = network.model.embed_tokens_extend.audio_embed
    return part
