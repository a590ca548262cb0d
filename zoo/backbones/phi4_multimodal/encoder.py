"""Audio encoder and projection of Phi-4-Multimodal, with the layers of the Transformers class.

The Transformers class adds its boolean padding mask to attention scores, so padded positions are
not masked. This module therefore batches recordings of equal length only, without padding.
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
SPAN = 500  # positions (40 s) that attend to each other; longer audio is split into such blocks


def encode(
    encoder: Phi4MultimodalAudioModel, features: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Encode recordings, with one batch for all recordings of the same length.

    Args:
        encoder: The audio encoder.
        features: Feature frames (frames, bins) of each recording, at least one frame.

    Returns:
        Hidden states (ceil(frames / 8), hidden) of the last layer and of the middle layer, each as
        a list with one tensor per recording.
    """
    indices_by_length: dict[int, list[int]] = {}
    for index, frames in enumerate(features):
        indices_by_length.setdefault(len(frames), []).append(index)

    last = list(features)  # every entry is replaced below
    middle = list(features)
    for indices in indices_by_length.values():
        batch = torch.stack([features[index] for index in indices])
        batch_last, batch_middle = encode_equal(encoder, batch)
        for index, last_states, middle_states in zip(
            indices, batch_last, batch_middle, strict=True
        ):
            last[index] = last_states
            middle[index] = middle_states
    return last, middle


def encode_equal(encoder: Phi4MultimodalAudioModel, features: Tensor) -> tuple[Tensor, Tensor]:
    """Encode recordings of equal length.

    Args:
        encoder: The audio encoder.
        features: Feature frames (batch, frames, bins) without padding.

    Returns:
        Hidden states (batch, ceil(frames / 8), hidden) of the last layer and of the middle layer.
    """
    weight = encoder.embed.out.weight
    normalised = encoder.encoder_embedding(features.to(weight.device, weight.dtype))
    hidden, _ = encoder.embed(normalised, None)
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

    # Joins the blocks of each recording and removes the padding of the last block.
    last = hidden.reshape(batch, -1, width)[:, :positions]
    middle = middle.reshape(batch, -1, width)[:, :positions]
    return last, middle


def project(embedding: Phi4MultimodalAudioEmbedding, hidden: Tensor) -> Tensor:
    """Project hidden states (..., hidden) of the encoder to (..., LLM width).

    Phi-4-Multimodal has two projections; this projection is used for inputs without images.
    """
    first = embedding.up_proj_for_speech
    projected: Tensor = embedding.down_proj_for_speech(F.gelu(first(hidden.to(first.weight.dtype))))
    return projected
