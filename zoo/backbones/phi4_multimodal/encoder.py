"""Phi-4-Multimodal's audio encoder and projection, by the class's own layers.

The class adds its boolean padding mask to attention scores, so padding is attended to: nothing is
padded here.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers.models.phi4_multimodal.modeling_phi4_multimodal import (
    Phi4MultimodalAudioEmbedding,
    Phi4MultimodalAudioModel,
)

FEATURES_PER_EMBEDDING = 8
SPAN = 500  # positions (40 s) that attend to each other; longer audio is split, as in the class


def encode(
    encoder: Phi4MultimodalAudioModel, features: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Encode recordings; those of equal length are one batch.

    Args:
        encoder: The audio encoder.
        features: (frames, bins) each, at least one frame.

    Returns:
        (ceil(frames / 8), hidden) each, of the last and of the middle layer.
    """
    groups: dict[int, list[int]] = {}
    for index, frames in enumerate(features):
        groups.setdefault(len(frames), []).append(index)
    last, middle = list(features), list(features)
    for group in groups.values():
        encoded = encode_equal(encoder, torch.stack([features[index] for index in group]))
        for index, top, inner in zip(group, *encoded, strict=True):
            last[index], middle[index] = top, inner
    return last, middle


def encode_equal(encoder: Phi4MultimodalAudioModel, features: Tensor) -> tuple[Tensor, Tensor]:
    """(batch, frames, bins) without padding to (batch, ceil(frames / 8), hidden), last and middle
    layer.
    """
    weight = encoder.embed.out.weight
    hidden, _ = encoder.embed(
        encoder.encoder_embedding(features.to(weight.device, weight.dtype)), None
    )
    batch, positions, width = hidden.shape
    if positions > SPAN:
        hidden = F.pad(hidden, (0, 0, 0, -positions % SPAN)).reshape(-1, SPAN, width)
    bias = encoder.relative_attention_bias_layer(hidden)
    middle = hidden
    for number, layer in enumerate(encoder.encoders):
        if encoder.gradient_checkpointing and encoder.training:
            hidden = checkpoint(layer, hidden, bias, use_reentrant=False)
        else:
            hidden = layer(hidden, bias)
        if number == len(encoder.encoders) // 2:
            middle = hidden
    last, middle = (kept.reshape(batch, -1, width)[:, :positions] for kept in (hidden, middle))
    return last, middle


def project(embedding: Phi4MultimodalAudioEmbedding, hidden: Tensor) -> Tensor:
    """(..., hidden) of the encoder to (..., width) of the language model, as for speech without
    images.
    """
    projected: Tensor = embedding.down_proj_for_speech(F.gelu(embedding.up_proj_for_speech(hidden)))
    return projected
