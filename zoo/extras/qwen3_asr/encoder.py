"""The audio encoder of Qwen3-ASR for a batch of recordings of different lengths."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.backbones.architectures.thinker.chunks import CHUNK, num_embeddings


def encode(tower: Any, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Encode all recordings in one pass.

    The encoder is that of Qwen3-Omni: convolutions see one chunk of 1 s, padded with zeros, and
    attention one block of ``n_window_infer`` feature frames of one recording.

    Args:
        tower: Audio encoder of Transformers.
        features: Feature frames (n, bins) of each recording, at least one.

    Returns:
        Hidden states (T, width) of the last layer and of a middle layer, before the last norm, each
        as a list with one tensor per recording.
    """
    lengths = [len(frames) for frames in features]
    longest = -(-max(lengths) // CHUNK) * CHUNK
    shape = len(features), features[0].shape[1], longest
    inputs = features[0].new_zeros(shape)  # (recordings, bins, frames)
    mask = torch.zeros(shape[0], longest, dtype=torch.long, device=inputs.device)
    for row, frames in enumerate(features):
        inputs[row, :, : len(frames)] = frames.T
        mask[row, : len(frames)] = 1

    outputs = tower(inputs, mask, output_hidden_states=True)
    hidden = outputs.hidden_states  # hidden[i + 1] is the output of layer i, of all recordings
    embeddings = [num_embeddings(length) for length in lengths]
    middle = hidden[len(tower.layers) // 2 + 1]
    return list(hidden[-1].split(embeddings)), list(middle.split(embeddings))
