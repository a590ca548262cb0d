"""Hidden states of the audio encoder of a thinker."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor


def layer_outputs(tower: Any, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Run the audio encoder and return outputs of two of its layers.

    Args:
        tower: Audio encoder of Transformers, with the modules ``layers`` and ``ln_post``.
        features: (frames of all recordings, bins) encoder input.
        lengths: (recordings,) number of frames of each recording.

    Returns:
        (n, width) outputs of the last layer and of a middle layer, before the projector.
    """
    # Transformers' forward also runs the projector, which may be trained in another data type than
    # the encoder; the hidden states do not depend on it.
    is_mixed = tower.ln_post.weight.dtype != next(tower.layers.parameters()).dtype
    mixing = torch.autocast(features.device.type, torch.bfloat16) if is_mixed else nullcontext()
    with mixing:
        outputs = tower(features.T, feature_lens=lengths, output_hidden_states=True)
    hidden = outputs.hidden_states  # hidden[i + 1] is the output of layer i
    return hidden[-1], hidden[len(tower.layers) // 2 + 1]
