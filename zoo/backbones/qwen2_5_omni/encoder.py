"""Qwen2.5-Omni's audio encoder on recordings of several lengths. Knows no spectrogram, no text and no stream."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder


def hear(
    tower: Qwen2_5OmniAudioEncoder, features: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """(4 n, bins) each to (n, width) each: of the last and of a middle layer, before the projection.

    The class itself runs them in one pass, in blocks of 2 x ``n_window`` frames that see nothing of one another, so
    that each recording is as if it were alone.
    """
    lengths = torch.tensor([len(frames) for frames in features], device=features[0].device)
    heard = tower(
        torch.cat(list(features)).T, feature_lens=lengths, output_hidden_states=True
    ).hidden_states
    tokens = (lengths // 4).tolist()
    middle = heard[len(tower.layers) // 2 + 1]  # the first is what the first layer is given
    return list(_pooled(heard[-1]).split(tokens)), list(_pooled(middle).split(tokens))


def project(tower: Qwen2_5OmniAudioEncoder, hidden: Tensor) -> Tensor:
    """(..., width) of the last layer to (..., width of the language model)."""
    projected: Tensor = tower.proj(tower.ln_post(hidden))
    return projected


def _pooled(hidden: Tensor) -> Tensor:
    """The mean of each pair; no pair reaches over the end of a recording, whose features come in fours."""
    return hidden.unflatten(0, (-1, 2)).mean(dim=1)
