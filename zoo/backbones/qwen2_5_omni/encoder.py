"""The audio encoder of Qwen2.5-Omni for a batch of recordings of different lengths."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from zoo.backbones.architectures.thinker.encoder import layer_outputs


def encode(
    tower: Qwen2_5OmniAudioEncoder, features: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Encode all recordings in one pass.

    The encoder attends within blocks of 2 x ``n_window`` feature frames. A block never contains
    frames of two recordings.

    Args:
        tower: The audio encoder.
        features: Feature frames (4 n, bins) of each recording.

    Returns:
        Hidden states (n, width) of the last layer and of a middle layer, before the projection,
        each as a list with one tensor per recording.
    """
    lengths = torch.tensor([len(frames) for frames in features], device=features[0].device)
    last, middle = map(_pool_pairs, layer_outputs(tower, torch.cat(list(features)), lengths))
    tokens = (lengths // 4).tolist()  # of each recording
    return list(last.split(tokens)), list(middle.split(tokens))


def project(tower: Qwen2_5OmniAudioEncoder, hidden: Tensor) -> Tensor:
    """Project hidden states (..., width) of the last layer to (..., LLM width)."""
    projected: Tensor = tower.proj(tower.ln_post(hidden.to(tower.proj.weight.dtype)))
    return projected


def _pool_pairs(hidden: Tensor) -> Tensor:
    """Average consecutive pairs: (2 n, width) to (n, width).

    No pair spans two recordings, because the number of frames of each recording is even.
    """
    pairs: Tensor = hidden.unflatten(0, (-1, 2))
    return pairs.mean(dim=1)
