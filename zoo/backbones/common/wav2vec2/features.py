"""Convolution features of streams whose kept audio is encoded anew at every look: only new audio is analysed.

Attention has to hear everything again; the convolutions see 25 ms each. Knows no attention and no session.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.common.audio.feature_cache import Analysed
from zoo.backbones.common.wav2vec2.encoder import FRAME_SAMPLES, StreamingEncoder
from zoo.types import Frames, Samples

WINDOW: Samples = 400  # what a frame sees


@dataclass(frozen=True, slots=True)
class Heard:
    """Kept audio of a stream. wave: (n,), zeros from ``real`` on. start: stream position of its first sample."""

    wave: Tensor
    real: Samples
    start: Samples


def analyse(
    encoder: StreamingEncoder, known: Sequence[Analysed], heard: Sequence[Heard]
) -> list[Tensor]:
    """Features (frames, hidden) of each wave as if it were all there ever was; ``known`` learns the new ones.

    One pass of the convolutions over what is new in all streams.
    """
    padded = [F.pad(one.wave, (encoder.config.left_pad, 0)) for one in heard]
    moved = [
        before.move(one.start, hop=FRAME_SAMPLES) for before, one in zip(known, heard, strict=True)
    ]
    edge = -(-encoder.config.left_pad // FRAME_SAMPLES)  # frames that see the zeros before a wave
    spans: list[tuple[int, Frames, Frames]] = []  # stream, first frame and the one after the last
    for stream, (before, one) in enumerate(zip(known, heard, strict=True)):
        frames, whole = (max(0, _frames(encoder, size)) for size in (one.wave.numel(), one.real))
        reused = min(len(before.frames), whole)
        fresh = min(edge, reused) if moved[stream] else 0
        spans += [(stream, 0, fresh), (stream, reused, frames)]
    pieces = _convolve(encoder, padded, spans)
    features = []
    for stream, (before, one) in enumerate(zip(known, heard, strict=True)):
        first, last = pieces[2 * stream], pieces[2 * stream + 1]
        kept = before.frames[len(first) : spans[2 * stream + 1][1]]
        features.append(torch.cat([first, kept, last]))
        whole = max(0, _frames(encoder, one.real))
        before.frames = torch.cat([features[-1][:whole], before.frames[whole:]])
    return features


def _frames(encoder: StreamingEncoder, samples: Samples) -> Frames:
    return (samples + encoder.config.left_pad - WINDOW) // FRAME_SAMPLES + 1


def _convolve(
    encoder: StreamingEncoder, padded: Sequence[Tensor], spans: Sequence[tuple[int, Frames, Frames]]
) -> list[Tensor]:
    """Features (frames, hidden) of each span, side by side."""
    sizes = [max(0, last - first) for _, first, last in spans]
    some = [index for index, size in enumerate(sizes) if size]
    features = [padded[0].new_zeros(0, encoder.config.hidden)] * len(spans)
    if some:
        cuts = [
            padded[stream][FRAME_SAMPLES * first : FRAME_SAMPLES * (last - 1) + WINDOW]
            for stream, first, last in (spans[index] for index in some)
        ]
        rows = encoder.features(pad_sequence(cuts, batch_first=True))
        for index, row in zip(some, rows, strict=True):
            features[index] = row[: sizes[index]]
    return features
