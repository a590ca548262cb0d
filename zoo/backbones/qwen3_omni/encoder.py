"""The audio encoder of Qwen3-Omni for a batch of recordings of different lengths."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import Qwen3OmniMoeAudioEncoder

from zoo.backbones.architectures.thinker.chunks import CHUNK, num_embeddings
from zoo.backbones.architectures.thinker.encoder import layer_outputs


def encode(
    tower: Qwen3OmniMoeAudioEncoder, features: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Encode all recordings in one pass.

    The convolutions see one chunk of 1 s at a time, and attention one block of ``n_window_infer``
    feature frames. Neither contains frames of two recordings.

    Transformers pads the last chunk of a recording to the longest chunk of the batch, and the
    padding changes the last embedding. Here, every chunk is padded to 1 s, so that embeddings
    depend neither on the other recordings nor on earlier blocks. Transformers does the same if any
    recording has 1 s.

    Args:
        tower: The audio encoder.
        features: Feature frames (n, bins) of each recording.

    Returns:
        Hidden states (T, width) of the last layer and of a middle layer, before the projector, each
        as a list with one tensor per recording.
    """
    recordings = list(features)
    if max(len(frames) for frames in recordings) < CHUNK:
        recordings.append(recordings[0].new_zeros(CHUNK, recordings[0].shape[1]))
    lengths = [len(frames) for frames in recordings]
    last, middle = layer_outputs(
        tower, torch.cat(recordings), torch.tensor(lengths, device=recordings[0].device)
    )
    embeddings = [num_embeddings(length) for length in lengths]
    kept = slice(len(features))  # without the additional recording
    return list(last.split(embeddings))[kept], list(middle.split(embeddings))[kept]


def project(tower: Qwen3OmniMoeAudioEncoder, hidden: Tensor) -> Tensor:
    """Project hidden states (..., width) of the last layer to (..., LLM width)."""
    normed = tower.ln_post(hidden.to(tower.proj1.weight.dtype))
    projected: Tensor = tower.proj2(tower.act(tower.proj1(normed)))
    return projected
