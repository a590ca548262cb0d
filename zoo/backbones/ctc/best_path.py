"""What a CTC network of Transformers hears: the best path of waves, each as if it were alone. Knows no stream."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.types import SAMPLE_RATE, Samples

SHORTEST: Samples = 1600  # a shorter wave is filled up with zeros: convolutions need some


def best_paths(network: Any, extractor: Any, waves: Sequence[Tensor]) -> list[Tensor]:
    """(frames,) int64: the likeliest label of every frame of each wave (n,), blanks and repetitions among them.

    network: a model for CTC. extractor: its feature extractor. In one batch where the network masks what a wave is
    filled up with, which its extractor says by ``return_attention_mask``; else one by one.
    """
    together = len(waves) if extractor.return_attention_mask else 1
    paths: list[Tensor] = []
    for start in range(0, len(waves), together):
        paths += _paths(network, extractor, waves[start : start + together])
    return paths


def _paths(network: Any, extractor: Any, waves: Sequence[Tensor]) -> list[Tensor]:
    given = features(extractor, waves)
    name = network.main_input_name
    heard = given[name].to(network.device, network.dtype)
    mask = given["attention_mask"].to(network.device) if "attention_mask" in given else None
    path = network(**{name: heard}, attention_mask=mask).logits.argmax(dim=-1)
    if mask is None:
        return list(path)
    lengths = frames(network, mask.sum(dim=1), path.shape[1])
    return [row[:length] for row, length in zip(path, lengths.tolist(), strict=True)]


def frames(network: Any, lengths: Tensor, most: int) -> Tensor:
    """(batch,) frames that rows of so many inputs have, where the longest has ``most``."""
    if hasattr(network, "_get_feat_extract_output_lengths"):
        return torch.as_tensor(network._get_feat_extract_output_lengths(lengths))
    return (lengths * most / lengths.max()).ceil().long()


def features(extractor: Any, waves: Sequence[Tensor], **options: Any) -> Any:
    """What a network takes of waves (n,), filled up with zeros to the longest, or to the 30 s of a Whisper."""
    filled = [F.pad(wave, (0, max(0, SHORTEST - len(wave)))) for wave in waves]
    arrays = [wave.cpu().float().numpy() for wave in filled]
    padding = "max_length" if hasattr(extractor, "n_samples") else True
    return extractor(
        arrays, sampling_rate=SAMPLE_RATE, padding=padding, return_tensors="pt", **options
    )
