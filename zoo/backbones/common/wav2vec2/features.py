"""Convolutional features of streams whose kept audio is encoded again at every request.

The attention layers must run over all kept audio. The convolutions have a receptive field of 25 ms,
so they run over new audio only, and earlier features are cached.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.common.audio.feature_cache import FeatureCache
from zoo.backbones.common.wav2vec2.encoder import FRAME_SAMPLES, StreamingEncoder
from zoo.types import Frames, Samples

WINDOW: Samples = 400  # receptive field of a frame, 25 ms


@dataclass(frozen=True, slots=True)
class KeptWave:
    """Kept audio of a stream.

    Attributes:
        wave: (n,) samples, padded with zeros at the end.
        real: Number of samples before the padding.
        start: Stream position of the first sample, in samples.
    """

    wave: Tensor
    real: Samples
    start: Samples


def kept_features(
    encoder: StreamingEncoder, known: Sequence[FeatureCache], waves: Sequence[KeptWave]
) -> list[Tensor]:
    """Compute the features of each stream's kept audio, as if the stream began with that audio.

    The convolutions run once, over the new audio of all streams as one batch.

    Args:
        encoder: Encoder whose convolutions are applied.
        known: Feature cache of each stream, to which new frames are appended.
        waves: Kept audio of each stream.

    Returns:
        (frames, hidden) of each stream.
    """
    padded = [F.pad(one.wave, (encoder.config.left_pad, 0)) for one in waves]
    moved = [
        cache.move(one.start, hop=FRAME_SAMPLES) for cache, one in zip(known, waves, strict=True)
    ]
    edge = -(-encoder.config.left_pad // FRAME_SAMPLES)  # frames that cover the zeros before a wave
    spans: list[tuple[int, Frames, Frames]] = []  # stream, first frame and the one after the last
    for stream, (cache, one) in enumerate(zip(known, waves, strict=True)):
        frames, whole = (max(0, _frames(encoder, size)) for size in (one.wave.numel(), one.real))
        reused = min(len(cache.frames), whole)
        fresh = min(edge, reused) if moved[stream] else 0
        spans += [(stream, 0, fresh), (stream, reused, frames)]

    pieces = _convolve(encoder, padded, spans)
    features = []
    for stream, (cache, one) in enumerate(zip(known, waves, strict=True)):
        first, last = pieces[2 * stream], pieces[2 * stream + 1]
        kept = cache.frames[len(first) : spans[2 * stream + 1][1]]
        features.append(torch.cat([first, kept, last]))
        whole = max(0, _frames(encoder, one.real))
        cache.frames = torch.cat([features[-1][:whole], cache.frames[whole:]])
    return features


def _frames(encoder: StreamingEncoder, samples: Samples) -> Frames:
    return (samples + encoder.config.left_pad - WINDOW) // FRAME_SAMPLES + 1


def _convolve(
    encoder: StreamingEncoder, padded: Sequence[Tensor], spans: Sequence[tuple[int, Frames, Frames]]
) -> list[Tensor]:
    """Features (frames, hidden) of each span, computed as one batch."""
    sizes = [max(0, last - first) for _, first, last in spans]
    nonempty = [index for index, size in enumerate(sizes) if size]
    features = [padded[0].new_zeros(0, encoder.config.hidden)] * len(spans)
    if nonempty:
        cuts = [
            padded[stream][FRAME_SAMPLES * first : FRAME_SAMPLES * (last - 1) + WINDOW]
            for stream, first, last in (spans[index] for index in nonempty)
        ]
        rows = encoder.features(pad_sequence(cuts, batch_first=True))
        for index, row in zip(nonempty, rows, strict=True):
            features[index] = row[: sizes[index]]
    return features
