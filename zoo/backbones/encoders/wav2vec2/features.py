"""Convolutional features of streams whose kept audio is encoded at every request.

The convolutions have a receptive field of 25 ms, so they run over new audio only, and earlier
features are cached.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.encoders.audio.feature_cache import FeatureCache
from zoo.backbones.encoders.wav2vec2.encoder import FRAME_SAMPLES, StreamingEncoder
from zoo.base.types import Frames, Samples

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
    encoder: StreamingEncoder, caches: Sequence[FeatureCache], waves: Sequence[KeptWave]
) -> list[Tensor]:
    """Compute the features of each stream's kept audio, as if the stream began with that audio.

    The convolutions run once, over the new audio of all streams as one batch.

    Args:
        encoder: Encoder whose convolutions are applied.
        caches: Feature cache of each stream, to which new frames are appended.
        waves: Kept audio of each stream.

    Returns:
        (frames, hidden) of each stream.
    """
    padded = [F.pad(audio.wave, (encoder.config.left_pad, 0)) for audio in waves]
    moved = [
        cache.move(audio.start, hop=FRAME_SAMPLES)
        for cache, audio in zip(caches, waves, strict=True)
    ]
    # Frames whose window contains zeros of the left padding; they change when the start moves.
    edge_frames = -(-encoder.config.left_pad // FRAME_SAMPLES)

    # Two spans per stream: frames at the start of a moved wave, and frames after the cache. Each
    # span is the index of the stream, the first frame, and the index after the last frame.
    spans: list[tuple[int, Frames, Frames]] = []
    for stream, (cache, audio) in enumerate(zip(caches, waves, strict=True)):
        num_frames = max(0, _frames(encoder, audio.wave.numel()))
        num_cacheable = final_frames(encoder, audio)
        num_reused = min(len(cache.frames), num_cacheable)
        num_recomputed = min(edge_frames, num_reused) if moved[stream] else 0
        spans += [(stream, 0, num_recomputed), (stream, num_reused, num_frames)]

    computed = _convolve(encoder, padded, spans)
    features = []
    for stream, (cache, audio) in enumerate(zip(caches, waves, strict=True)):
        recomputed = computed[2 * stream]
        new = computed[2 * stream + 1]
        num_reused = spans[2 * stream + 1][1]
        reused = cache.frames[len(recomputed) : num_reused]
        stream_features = torch.cat([recomputed, reused, new])  # (frames, hidden)
        features.append(stream_features)
        num_cacheable = final_frames(encoder, audio)
        cache.frames = torch.cat([stream_features[:num_cacheable], cache.frames[num_cacheable:]])
    return features


def final_frames(encoder: StreamingEncoder, audio: KeptWave) -> Frames:
    """Return the number of frames of kept audio that no later audio changes."""
    return max(0, _frames(encoder, audio.real))


def _frames(encoder: StreamingEncoder, samples: Samples) -> Frames:
    """Return the number of frames of ``samples`` after left padding; may be negative."""
    return (samples + encoder.config.left_pad - WINDOW) // FRAME_SAMPLES + 1


def _convolve(
    encoder: StreamingEncoder, padded: Sequence[Tensor], spans: Sequence[tuple[int, Frames, Frames]]
) -> list[Tensor]:
    """Compute the features of each span, as one batch.

    Args:
        encoder: Encoder whose convolutions are applied.
        padded: (n,) samples of each stream, left padding included.
        spans: Index of the stream, first frame, and index after the last frame of each span.

    Returns:
        (frames, hidden) of each span.
    """
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
