"""SeamlessM4T's speech encoder: features of waves, the conformer on batches of any lengths, the
adaptor.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.rnn import pad_sequence
from transformers import SeamlessM4TFeatureExtractor

from zoo.backbones.common.audio.spectrogram import HOP, WINDOW, Filterbank, Spectrogram, stacked
from zoo.backbones.common.pretrained.loading import (
    check_extractor,
    load_part,
    pad_batch,
    unpad_batch,
)
from zoo.errors import ZooError
from zoo.streaming.session import Session

STRIDE = 2  # feature frames side by side
SUBSAMPLING = 8  # of the adaptor
FRAME_SAMPLES = STRIDE * HOP  # 20 ms: of the conformer, before the adaptor


def load_spectrogram(name: str) -> Filterbank:
    """The features of the feature extractor of ``name``.

    Raises ZooError where it is missing or differs.
    """
    extractor = load_part("feature extractor", SeamlessM4TFeatureExtractor.from_pretrained, name)
    check_extractor(extractor, name, stride=STRIDE)
    return Filterbank(extractor.num_mel_bins)


def check_adaptor(config: object, name: str) -> None:
    """Raise ZooError unless frames of the adaptor are 160 ms."""
    settings = ("add_adapter", "num_adapter_layers", "adaptor_stride", "adaptor_kernel_size")
    found = tuple(getattr(config, setting) for setting in settings)
    if found != (True, 1, SUBSAMPLING, SUBSAMPLING):
        raise ZooError(
            f"{name} has another adaptor than any SeamlessM4T released; its frames must be 160 ms."
        )


def encode_waves(
    encoder: Any, spectrogram: Spectrogram, sessions: Sequence[Session], waves: Sequence[Tensor]
) -> list[Tensor]:
    """Encode the kept audio of streams as a batch.

    Args:
        encoder: A SeamlessM4TSpeechEncoder.
        spectrogram: Its features; ``session.backbone_state.features`` keeps those of earlier audio.
        sessions: Of the streams.
        waves: (n,) samples each.

    Returns:
        (frames, width) each: ``ceil(n / 2560)`` frames or one less; none below 35 ms.
    """
    weight = encoder.inner_layer_norm.weight
    inputs = []
    for session, wave in zip(sessions, waves, strict=True):
        frames = spectrogram.compute(session.backbone_state.features, wave, session.audio_start)
        enough = len(frames) >= STRIDE
        inputs.append(
            stacked(frames, STRIDE) if enough else frames.new_zeros(0, STRIDE * frames.shape[1])
        )
    inputs = [features.to(weight) for features in inputs]
    long_enough = [features for features in inputs if len(features)]
    memories = iter(encode_features(encoder, long_enough) if long_enough else [])
    nothing = inputs[0].new_zeros(0, encoder.config.hidden_size)
    return [next(memories) if len(features) else nothing for features in inputs]


def encode_features(encoder: Any, features: Sequence[Tensor]) -> list[Tensor]:
    """(F, 2 x bins) each to (frames, width).

    The conformer's mask is exact, so it runs on one batch; the adaptor's is not, so it runs on each
    alone.
    """
    padded, inside = pad_batch(features)
    hidden = encoder.encoder(encoder.feature_projection(padded), attention_mask=inside)
    hidden = hidden + 0.5 * encoder.intermediate_ffn(hidden)
    adapted = [
        encoder.adapter(frames[None], attention_mask=None)
        for frames in unpad_batch(hidden, features)
    ]
    return [encoder.inner_layer_norm(frames)[0] for frames in adapted]


def training_features(spectrogram: Spectrogram, samples: Tensor, stride: int) -> Tensor:
    """(n,) samples to (features, stride x bins); one row of zeros where the samples are too few."""
    frames = spectrogram.compute(spectrogram.open(), samples, 0)
    if len(frames) < stride:
        return frames.new_zeros(1, stride * spectrogram.filters.shape[1])
    return stacked(frames, stride)


def encode_frames(
    encoder: Any, spectrogram: Spectrogram, samples: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """(batch, n) samples to (batch, n // 320, hidden) before the adaptor, and of the middle layer.

    Silence is appended so that the last 20 ms have a frame. Rows have no padding, so in training
    mode the statistics of batch normalisation are updated.
    """
    silence = WINDOW - HOP
    rows = [
        training_features(spectrogram, F.pad(row, (0, silence)), STRIDE) for row in samples.cpu()
    ]
    features = torch.stack(rows).to(samples.device, dtype)
    layers = encoder.encoder.layers
    middle_layer = layers[(len(layers) - 1) // 2]
    with _batch_statistics(encoder, encoder.training), _outputs(middle_layer) as middle:
        hidden = encoder.encoder(encoder.feature_projection(features))
        hidden = hidden + 0.5 * encoder.intermediate_ffn(hidden)
    return hidden, middle[0]


def encode_padded(
    encoder: Any, features: Tensor, lengths: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Encode a padded batch; each row as it would be alone.

    Without mixed precision where a row is shorter than the adaptor's stride: PyTorch 2.13 on CPU
    then sometimes computes NaN gradients of the adaptor's convolutions in bfloat16.

    Args:
        encoder: A SeamlessM4TSpeechEncoder.
        features: (batch, F, 2 x bins).
        lengths: (batch,) frames of features that are no padding.
        dtype: Of the encoder.

    Returns:
        (batch, frames, width), and (batch, frames) int64: 1 inside, 0 in padding.
    """
    rows = [row[:length].to(dtype) for row, length in zip(features, lengths.tolist(), strict=True)]
    device = features.device.type
    mixed = torch.is_autocast_enabled(device) and int(lengths.min()) >= SUBSAMPLING
    with _batch_statistics(encoder, False), torch.autocast(device, enabled=mixed):
        memories = encode_features(encoder, rows)
    frames = torch.tensor([len(memory) for memory in memories], device=features.device)
    memory = pad_sequence(memories, batch_first=True)
    inside = torch.arange(memory.shape[1], device=features.device) < frames[:, None]
    return memory, inside.long()


@contextmanager
def _batch_statistics(encoder: nn.Module, updated: bool) -> Iterator[None]:
    """Batch normalisation by statistics of the batch, which are learned, or by the learned ones."""
    norms = [module for module in encoder.modules() if isinstance(module, _BatchNorm)]
    before = [norm.training for norm in norms]
    for norm in norms:
        norm.train(updated)
    try:
        yield
    finally:
        for norm, mode in zip(norms, before, strict=True):
            norm.train(mode)


@contextmanager
def _outputs(layer: nn.Module) -> Iterator[list[Tensor]]:
    """Outputs of ``layer`` inside the block, call by call."""
    outputs: list[Tensor] = []

    def append(_: nn.Module, __: Any, output: Tensor) -> None:
        outputs.append(output)

    handle = layer.register_forward_hook(append)
    try:
        yield outputs
    finally:
        handle.remove()
