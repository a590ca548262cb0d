"""SeamlessM4T's speech encoder, for streaming and for training.

The encoder has three steps: filterbank features, a conformer on frames of 20 ms, and an adaptor
that reduces the output to frames of 160 ms. Streams of different lengths are encoded as one batch.
Features are normalised per mel bin, as in the training of the model; simulstream normalises even
and odd positions separately, and loses 80 samples after the first chunk.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.rnn import pad_sequence
from transformers import SeamlessM4TFeatureExtractor

from zoo.backbones.decoding.batches import encode_non_empty
from zoo.backbones.encoders.audio.spectrogram import (
    HOP,
    WINDOW,
    Filterbank,
    Spectrogram,
    seamless_features,
)
from zoo.backbones.pretrained.loading import (
    check_extractor,
    load_part,
    pad_batch,
    unpad_batch,
)
from zoo.base.errors import ZooError
from zoo.streaming.session import Session

STRIDE = 2  # filterbank frames stacked into a conformer frame
SUBSAMPLING = 8  # conformer frames per frame of the adaptor
FRAME_SAMPLES = STRIDE * HOP  # 20 ms: distance between conformer frames


def load_spectrogram(name: str) -> Filterbank:
    """Return the filterbank of a model's feature extractor.

    Args:
        name: Hub id or folder of the model.

    Raises:
        ZooError: If the feature extractor is missing, or its settings are not those of SeamlessM4T.
    """
    extractor = load_part("feature extractor", SeamlessM4TFeatureExtractor.from_pretrained, name)
    check_extractor(extractor, name, stride=STRIDE)
    return Filterbank(extractor.num_mel_bins)


def check_adaptor(config: object, name: str) -> None:
    """Raise ZooError unless the adaptor's frames are 160 ms apart.

    Args:
        config: Configuration of the network.
        name: Name of the model in error messages.
    """
    settings = ("add_adapter", "num_adapter_layers", "adaptor_stride", "adaptor_kernel_size")
    values = tuple(getattr(config, setting) for setting in settings)
    if values != (True, 1, SUBSAMPLING, SUBSAMPLING):
        raise ZooError(
            f"{name} has another adaptor than any SeamlessM4T released; its frames must be 160 ms."
        )


def keep_exact_positions(encoder: Any) -> None:
    """Make the positions of a conformer independent of mixed precision.

    Transformers converts its stored positions to the type of the hidden states. Under autocast they
    would be rounded once, and later float32 computations would use the rounded positions.

    Args:
        encoder: SeamlessM4TSpeechEncoder of Transformers.
    """
    positions = getattr(encoder.encoder, "embed_positions", None)
    if positions is not None:
        weight = encoder.inner_layer_norm.weight
        positions.register_forward_pre_hook(partial(_in_type_of, weight))


def _in_type_of(weight: Tensor, _: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Convert the inputs of a module to the type of a weight."""
    return tuple(tensor.to(weight.dtype) for tensor in inputs)


def encode_waves(
    encoder: Any, spectrogram: Spectrogram, sessions: Sequence[Session], waves: Sequence[Tensor]
) -> list[Tensor]:
    """Encode the kept audio of streams as a batch.

    Args:
        encoder: SeamlessM4TSpeechEncoder of Transformers.
        spectrogram: Filterbank of the encoder.
        sessions: The streams; ``session.backbone_state.features`` caches features of earlier audio.
        waves: Audio of each stream, (n,) samples at 16 kHz.

    Returns:
        Encoder output of each stream, (frames, width), in frames of 160 ms. A wave of n samples has
        ``ceil(n / 2560)`` frames or one frame less. A wave shorter than 35 ms has no frames.
    """
    weight = encoder.inner_layer_norm.weight
    inputs = []
    for session, wave in zip(sessions, waves, strict=True):
        frames = spectrogram.compute(session.backbone_state.features, wave, session.audio_start)
        features = frames.new_zeros(0, STRIDE * frames.shape[1])
        if len(frames) >= STRIDE:
            features = seamless_features(frames, STRIDE)  # (F, 2 x bins)
        inputs.append(features.to(weight))

    return encode_non_empty(
        inputs,
        partial(encode_features, encoder),
        empty=weight.new_zeros(0, encoder.config.hidden_size),
    )


def encode_features(encoder: Any, features: Sequence[Tensor]) -> list[Tensor]:
    """Encode features.

    The conformer runs on one padded batch, since its mask removes all influence of the padding. The
    adaptor runs on each row alone, since its mask does not.

    Args:
        encoder: SeamlessM4TSpeechEncoder of Transformers.
        features: Stacked filterbank features of each row, (F, 2 x bins).

    Returns:
        Encoder output of each row, (frames, width).
    """
    padded, mask = pad_batch(features)
    hidden = encoder.encoder(encoder.feature_projection(padded), attention_mask=mask)
    hidden = hidden + 0.5 * encoder.intermediate_ffn(hidden)
    adapted = [
        encoder.adapter(frames[None], attention_mask=None)
        for frames in unpad_batch(hidden, features)
    ]
    return [encoder.inner_layer_norm(frames)[0] for frames in adapted]


def training_features(spectrogram: Spectrogram, samples: Tensor, stride: int) -> Tensor:
    """Compute the features of a whole wave.

    Args:
        spectrogram: Filterbank of the encoder.
        samples: Audio, (n,) samples at 16 kHz.
        stride: Number of filterbank frames stacked into a feature frame.

    Returns:
        (F, stride x bins). A wave that is too short for one feature frame has one row of zeros.
    """
    frames = spectrogram.compute(spectrogram.open(), samples, 0)
    if len(frames) < stride:
        return frames.new_zeros(1, stride * spectrogram.filters.shape[1])
    return seamless_features(frames, stride)


def encode_frames(
    encoder: Any, spectrogram: Spectrogram, samples: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Encode audio up to the adaptor, in frames of 20 ms.

    Silence is appended so that the last 20 ms have a frame. In training mode, the running
    statistics of batch normalisation are updated, since the rows have no padding.

    Args:
        encoder: SeamlessM4TSpeechEncoder of Transformers.
        spectrogram: Filterbank of the encoder.
        samples: Audio, (batch, n) samples at 16 kHz.
        dtype: Data type of the encoder's weights.

    Returns:
        Output before the adaptor and output of the conformer's middle layer, (batch, n // 320,
        width) each.
    """
    silence = WINDOW - HOP
    rows = [
        training_features(spectrogram, F.pad(row, (0, silence)), STRIDE) for row in samples.cpu()
    ]
    features = torch.stack(rows).to(samples.device, dtype)
    layers = encoder.encoder.layers
    middle_layer = layers[(len(layers) - 1) // 2]
    with _batch_statistics(encoder, encoder.training), _outputs(middle_layer) as middle_outputs:
        hidden = encoder.encoder(encoder.feature_projection(features))
        hidden = hidden + 0.5 * encoder.intermediate_ffn(hidden)
    return hidden, middle_outputs[0]


def encode_padded(
    encoder: Any, features: Tensor, lengths: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Encode a padded batch of features; the rows do not influence one another.

    Mixed precision is switched off if a row is shorter than the adaptor's stride. For such rows,
    PyTorch 2.13 on CPU sometimes computes NaN gradients of the adaptor's convolutions in bfloat16.

    Args:
        encoder: SeamlessM4TSpeechEncoder of Transformers.
        features: Stacked filterbank features, (batch, F, 2 x bins).
        lengths: Number of feature frames without padding of each row, (batch,).
        dtype: Data type of the encoder's weights.

    Returns:
        Encoder output, (batch, frames, width), and its mask, (batch, frames) int64: 1 for frames, 0
        for padding.
    """
    rows = [row[:length].to(dtype) for row, length in zip(features, lengths.tolist(), strict=True)]
    device = features.device.type
    all_rows_long = int(lengths.min()) >= SUBSAMPLING
    mixed_precision = torch.is_autocast_enabled(device) and all_rows_long
    with _batch_statistics(encoder, False), torch.autocast(device, enabled=mixed_precision):
        memories = encode_features(encoder, rows)
    frames = torch.tensor([len(memory) for memory in memories], device=features.device)
    memory = pad_sequence(memories, batch_first=True)
    mask = torch.arange(memory.shape[1], device=features.device) < frames[:, None]
    return memory, mask.long()


@contextmanager
def _batch_statistics(encoder: nn.Module, updated: bool) -> Iterator[None]:
    """Choose the statistics of batch normalisation inside the block.

    Args:
        encoder: Module whose batch norm layers are switched.
        updated: Whether layers normalise by the statistics of the batch and update the running
            statistics. If False, layers normalise by the running statistics.
    """
    norms = [module for module in encoder.modules() if isinstance(module, _BatchNorm)]
    previous_modes = [norm.training for norm in norms]
    for norm in norms:
        norm.train(updated)
    try:
        yield
    finally:
        for norm, mode in zip(norms, previous_modes, strict=True):
            norm.train(mode)


@contextmanager
def _outputs(layer: nn.Module) -> Iterator[list[Tensor]]:
    """Record the outputs of ``layer`` inside the block, one list item per call."""
    outputs: list[Tensor] = []

    def append(_: nn.Module, __: Any, output: Tensor) -> None:
        outputs.append(output)

    handle = layer.register_forward_hook(append)
    try:
        yield outputs
    finally:
        handle.remove()
