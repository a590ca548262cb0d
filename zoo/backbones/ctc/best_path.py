"""The best path of waves through a CTC network; waves of a batch do not interact."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.types import SAMPLE_RATE, Samples

SHORTEST: Samples = 1600  # shorter waves are padded with zeros for the convolutions


def best_paths(network: Any, extractor: Any, waves: Sequence[Tensor]) -> list[Tensor]:
    """The likeliest label of every frame, blanks and repetitions included.

    Waves are one batch if the network masks padding, as its extractor's ``return_attention_mask``
    states; otherwise they are computed one by one.

    Args:
        network: A model for CTC.
        extractor: Its feature extractor.
        waves: (n,) samples each.

    Returns:
        (frames,) int64 of each wave.
    """
    together = len(waves) if extractor.return_attention_mask else 1
    paths: list[Tensor] = []
    for start in range(0, len(waves), together):
        paths += _paths(network, extractor, waves[start : start + together])
    return paths


def _paths(network: Any, extractor: Any, waves: Sequence[Tensor]) -> list[Tensor]:
    given = features(extractor, waves)
    name = network.main_input_name
    values = given[name].to(network.device, network.dtype)
    mask = given["attention_mask"].to(network.device) if "attention_mask" in given else None
    path = network(**{name: values}, attention_mask=mask).logits.argmax(dim=-1)
    if mask is None:
        return list(path)
    lengths = frames(network, mask.sum(dim=1), path.shape[1])
    return [row[:length] for row, length in zip(path, lengths.tolist(), strict=True)]


def frames(network: Any, lengths: Tensor, most: int) -> Tensor:
    """(batch,) frames of rows with so many inputs, where the longest has ``most``."""
    if hasattr(network, "_get_feat_extract_output_lengths"):
        return torch.as_tensor(network._get_feat_extract_output_lengths(lengths))
    return (lengths * most / lengths.max()).ceil().long()


def features(extractor: Any, waves: Sequence[Tensor], **options: Any) -> Any:
    """Inputs of a network from waves (n,), padded with zeros to the longest, or to the 30 s of a
    Whisper.
    """
    filled = [F.pad(wave, (0, max(0, SHORTEST - len(wave)))) for wave in waves]
    arrays = [wave.cpu().float().numpy() for wave in filled]
    padding = "max_length" if hasattr(extractor, "n_samples") else True
    return extractor(
        arrays, sampling_rate=SAMPLE_RATE, padding=padding, return_tensors="pt", **options
    )
