"""Best-path decoding of waves by a CTC network (Graves et al., 2006, section 3.2).

The waves of a batch do not influence one another.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.base.types import SAMPLE_RATE, Samples
from zoo.streaming.stages import stage

SHORTEST: Samples = 1600  # 100 ms; shorter waves are zero-padded, as convolutions need some input
TICK: Samples = 160  # 10 ms; the frames of all CTC models last a multiple of this


@stage("encoder")
def best_paths(network: Any, extractor: Any, waves: Sequence[Tensor]) -> list[Tensor]:
    """Return the most probable label of every frame, blanks and repetitions included.

    If the network masks padding, all waves are one batch. Otherwise, each wave is a batch of its
    own. ``extractor.return_attention_mask`` states whether the network masks padding.

    Args:
        network: CTC model of Transformers.
        extractor: Feature extractor of the network.
        waves: Audio, (n,) samples at 16 kHz each.

    Returns:
        Best path of each wave, (frames,) int64.
    """
    return [logits.argmax(dim=-1) for logits in frame_logits(network, extractor, waves)]


def frame_logits(network: Any, extractor: Any, waves: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield the scores of all tokens in every frame of each wave; batches as for ``best_paths``.

    Args:
        network: CTC model of Transformers.
        extractor: Feature extractor of the network.
        waves: Audio, (n,) samples at 16 kHz each.

    Yields:
        (frames, tokens) unnormalised scores of each wave.
    """
    batch_size = max(1, len(waves)) if extractor.return_attention_mask else 1
    for start in range(0, len(waves), batch_size):
        yield from _logits(network, extractor, waves[start : start + batch_size])


@torch.inference_mode()
def frame_samples(network: Any, extractor: Any) -> Samples:
    """Return the samples from one frame to the next: those of 2 s divided by their frames.

    Args:
        network: CTC model of Transformers.
        extractor: Feature extractor of the network.
    """
    wave = torch.zeros(2 * SAMPLE_RATE)
    [logits] = frame_logits(network, extractor, [wave])
    return round(len(wave) / len(logits) / TICK) * TICK


def _logits(network: Any, extractor: Any, waves: Sequence[Tensor]) -> list[Tensor]:
    """Return the scores of each wave of a batch, (frames, tokens)."""
    inputs = features(extractor, waves)
    name = network.main_input_name
    values = inputs[name].to(network.device, network.dtype)
    mask = inputs["attention_mask"].to(network.device) if "attention_mask" in inputs else None
    logits = network(**{name: values}, attention_mask=mask).logits  # (batch, frames, tokens)
    if mask is None:
        return list(logits)
    lengths = frames(network, mask.sum(dim=1), logits.shape[1])
    return [row[:length] for row, length in zip(logits, lengths.tolist(), strict=True)]


def frames(network: Any, lengths: Tensor, max_frames: int) -> Tensor:
    """Return the number of output frames of each row of a batch.

    Args:
        network: CTC model of Transformers.
        lengths: (batch,) number of inputs of each row, without padding.
        max_frames: Number of output frames of the longest row.

    Returns:
        (batch,) number of output frames of each row.
    """
    # Models whose convolutions subsample the audio compute the exact numbers by this method.
    if hasattr(network, "_get_feat_extract_output_lengths"):
        return torch.as_tensor(network._get_feat_extract_output_lengths(lengths))
    # The other models have one output frame per input frame or a constant ratio of the two, so the
    # numbers are proportional to the lengths.
    return (lengths * max_frames / lengths.max()).ceil().long()


@stage("features")
def features(extractor: Any, waves: Sequence[Tensor], **options: Any) -> Any:
    """Compute the inputs of a network.

    Args:
        extractor: Feature extractor of Transformers.
        waves: Audio, (n,) samples at 16 kHz each.
        options: Further arguments of the feature extractor.

    Returns:
        Inputs of the network, padded to the longest wave. A Whisper feature extractor pads all
        waves to 30 s.
    """
    padded = [F.pad(wave, (0, max(0, SHORTEST - len(wave)))) for wave in waves]
    arrays = [wave.cpu().float().numpy() for wave in padded]
    # Only Whisper's feature extractor has a fixed input length, ``n_samples``.
    padding = "max_length" if hasattr(extractor, "n_samples") else True
    return extractor(
        arrays, sampling_rate=SAMPLE_RATE, padding=padding, return_tensors="pt", **options
    )
