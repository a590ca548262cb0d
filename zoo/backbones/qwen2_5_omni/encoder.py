"""Qwen2.5-Omni's audio encoder on recordings of different lengths."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder


def encode(
    tower: Qwen2_5OmniAudioEncoder, features: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Encode recordings in one pass of the class, in blocks of 2 x ``n_window`` frames that do not
    interact.

    Args:
        tower: The audio encoder.
        features: (4 n, bins) each.

    Returns:
        (n, width) each before the projection, of the last and of a middle layer.
    """
    lengths = torch.tensor([len(frames) for frames in features], device=features[0].device)
    hidden = tower(
        torch.cat(list(features)).T, feature_lens=lengths, output_hidden_states=True
    ).hidden_states
    tokens = (lengths // 4).tolist()
    middle = hidden[len(tower.layers) // 2 + 1]  # the first is the input of the first layer
    return list(_pooled(hidden[-1]).split(tokens)), list(_pooled(middle).split(tokens))


def project(tower: Qwen2_5OmniAudioEncoder, hidden: Tensor) -> Tensor:
    """(..., width) of the last layer to (..., width of the language model)."""
    projected: Tensor = tower.proj(tower.ln_post(hidden))
    return projected


def _pooled(hidden: Tensor) -> Tensor:
    """The mean of each pair of frames; a recording has a whole number of pairs."""
    return hidden.unflatten(0, (-1, 2)).mean(dim=1)
