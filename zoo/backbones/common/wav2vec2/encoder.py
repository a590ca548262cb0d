"""Streaming wav2vec 2.0: block-causal attention, rotary positions, sliding window (InfiniSST, 3.2
and 3.5).

Parameters have the names of Hugging Face's ``Wav2Vec2Model`` (layer-norm variant), without
``encoder.pos_conv_embed``, which rotary positions replace.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import ZooError
from zoo.types import Frames, Samples

CHUNK_SAMPLES: Samples = 15_360  # 960 ms
CHUNK_FRAMES: Frames = 48
FRAME_SAMPLES: Samples = 320
KERNELS = (10, 3, 3, 3, 3, 2, 2)
STRIDES = (5, 2, 2, 2, 2, 2, 2)


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """Shape of the encoder.

    Attributes:
        conv_channels: Channels of each convolution.
        conv_bias: Whether convolutions have a bias.
        hidden: Width of frames.
        layers: Transformer layers.
        heads: Attention heads.
        ff: Width of the feed-forward layers.
        window: Past that a query attends to, in ``window_unit``; see ``first_visible``.
        window_unit: chunks of 960 ms (the paper), or frames, 48 per unit of ``window`` (released
            code).
        left_pad: Samples of context before each chunk (zeros before the first), from 80 to 399, so
            that a chunk of 15 360 samples gives 48 frames: 80 for models trained here, 399 for the
            released checkpoints, 0 for their offline ones, which encode whole signals only.
        rope_base: Base of the rotary frequencies.
        rope_angles: bfloat16 rounds positions, frequencies and angles as the released code does,
            whose checkpoints were trained with it: beyond 256 frames, neighbours share a position.
            A stream's positions start at its oldest kept frame, so rounded angles depend on the
            block size and on earlier chunks.
    """

    conv_channels: Sequence[int] = (512,) * 7
    conv_bias: bool = True
    hidden: int = 1024
    layers: int = 24
    heads: int = 16
    ff: int = 4096
    window: int = 10
    window_unit: Literal["chunks", "frames"] = "chunks"
    left_pad: Samples = 80
    rope_base: float = 10_000.0
    rope_angles: Literal["exact", "bfloat16"] = "exact"

    def __post_init__(self) -> None:
        """Raises ZooError for a shape that no encoder has."""
        if len(self.conv_channels) != len(KERNELS):
            raise ZooError(
                f"The encoder needs {len(KERNELS)} conv_channels, not {len(self.conv_channels)}."
            )
        if min(self.layers, self.heads, self.window) < 1 or self.hidden % (2 * self.heads):
            raise ZooError(
                "The encoder needs layers, heads and window of at least 1 and a hidden size that "
                f"2 x heads divides, not {self.layers}, {self.heads}, {self.window} and "
                f"{self.hidden}."
            )
        if self.left_pad != 0 and not 80 <= self.left_pad <= 399:
            raise ZooError(
                f"The encoder needs a left_pad from 80 to 399 samples, not {self.left_pad} (0: no "
                "streams)."
            )

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads

    @property
    def past_frames(self) -> Frames:
        """Frames before a block that its queries attend to: what a stream has to keep."""
        return CHUNK_FRAMES * (self.window - 1 if self.window_unit == "chunks" else self.window)

    def first_visible(self, frames: Tensor, block_starts: Tensor) -> Tensor:
        """The earliest frame that each query attends to.

        chunks (the paper, section 3.5): a block of m chunks attends to the ``window - 1`` chunks of
        960 ms before it and to itself. frames (released code): frame f attends to the ``48 window``
        frames before it and to the rest of its block.

        Args:
            frames: Indices of the queries.
            block_starts: Index of the first frame of each query's block.

        Returns:
            Frame indices.
        """
        return (block_starts if self.window_unit == "chunks" else frames) - self.past_frames


class Encoded(NamedTuple):
    """Output of the encoder.

    Attributes:
        hidden: (batch, frames, hidden), after the last norm.
        middle: (batch, frames, hidden) of the middle layer, not normalised.
    """

    hidden: Tensor
    middle: Tensor


@dataclass(slots=True)
class EncoderState:
    """What one stream keeps.

    Attributes:
        left: (left_pad,) samples before the next block.
        cache: (layers, 2, heads, frames, head size), keys (not rotated) and values.
    """

    left: Tensor
    cache: Tensor


class StreamingEncoder(nn.Module):
    """Waveform to one vector per 20 ms, by the same layers with and without caches."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.feature_extractor = FeatureExtractor(config)
        self.feature_projection = FeatureProjection(config)
        self.encoder = Layers(config)

    def forward(self, samples: Tensor, multiplier: int, lengths: Tensor | None = None) -> Encoded:
        """Encode whole signals.

        Args:
            samples: (batch, n) from the start of each stream.
            multiplier: m, chunks per block.
            lengths: (batch,) frames that are no padding (None: all); signals do not interact.
        """
        return self.contextualise(
            self.features(F.pad(samples, (self.config.left_pad, 0))), multiplier, lengths
        )

    def features(self, samples: Tensor) -> Tensor:
        """Convolutions alone: (batch, n) samples, left context included, to (batch, (n - 80) //
        320, hidden).
        """
        return self.feature_projection(self.feature_extractor(samples).transpose(1, 2))

    def contextualise(
        self, features: Tensor, multiplier: int, lengths: Tensor | None = None
    ) -> Encoded:
        """Attention alone, on features (batch, frames, hidden) of whole signals: ``forward``."""
        frames = torch.arange(features.shape[1], device=features.device)
        visible = self._visible(frames, frames, CHUNK_FRAMES * multiplier)
        if lengths is not None:
            real = frames < lengths[:, None]
            itself = frames[:, None] == frames  # a softmax over nothing is NaN
            visible = (visible & real[:, None, None]) | itself
        hidden, middle = self.encoder(features, visible, None)
        return Encoded(hidden, middle)

    def open(self) -> EncoderState:
        """State of a new stream. Raises ZooError for an encoder without ``left_pad``."""
        if self.config.left_pad == 0:
            raise ZooError(
                "An encoder with left_pad=0 encodes whole signals only; it cannot encode a stream."
            )
        config, weight = self.config, self.feature_projection.projection.weight
        cache = weight.new_zeros(config.layers, 2, config.heads, 0, config.head_size)
        return EncoderState(left=weight.new_zeros(config.left_pad), cache=cache)

    def stream(self, states: Sequence[EncoderState], blocks: Sequence[Tensor]) -> list[Tensor]:
        """Encode one new block per stream.

        Blocks of one length are computed together. Caches of different lengths are padded and
        masked, unless angles are rounded: then padding would shift positions.

        Args:
            states: Of the streams; changed in place.
            blocks: (n,) samples each, n a multiple of 15 360.

        Returns:
            (n / 320, hidden) each.
        """
        encoded: dict[int, Tensor] = {}
        rounded = self.config.rope_angles != "exact"
        alike = [
            (block.numel(), rounded * state.cache.shape[3])
            for state, block in zip(states, blocks, strict=True)
        ]
        for kind in set(alike):
            rows = [row for row, other in enumerate(alike) if other == kind]
            hidden = self._stream(
                [states[row] for row in rows], torch.stack([blocks[row] for row in rows])
            )
            encoded |= dict(zip(rows, hidden, strict=True))
        return [encoded[row] for row in range(len(blocks))]

    def _stream(self, states: Sequence[EncoderState], samples: Tensor) -> Tensor:
        samples = torch.cat(
            [torch.stack([state.left for state in states]), samples.to(states[0].left)], dim=1
        )
        features = self.features(samples)
        size, kept = features.shape[1], [state.cache.shape[3] for state in states]
        past = max(kept)
        layers, pair, heads, _, head_size = states[0].cache.shape
        cache = states[0].cache.new_empty(layers, pair, len(states), heads, past + size, head_size)
        for row, state in enumerate(states):
            cache[:, :, row, :, : past - kept[row]] = 0  # masked, but 0 x NaN is NaN
            cache[:, :, row, :, past - kept[row] : past] = state.cache
        keys = torch.arange(-past, size, device=samples.device)
        real = keys >= -torch.tensor(kept, device=samples.device)[:, None]
        visible = self._visible(keys[past:], keys, size) & real[:, None, None]
        hidden, _ = self.encoder(features, visible, cache)
        for row, state in enumerate(states):
            frames = min(kept[row] + size, self.config.past_frames)
            state.cache = cache[:, :, row, :, past + size - frames :].clone()
            state.left = samples[row, samples.shape[1] - self.config.left_pad :].clone()
        return hidden

    def _visible(self, queries: Tensor, keys: Tensor, block: Frames) -> Tensor:
        """(queries, keys) bool from frame indices: bidirectional inside a block, causal across,
        within the window.
        """
        starts = queries.div(block, rounding_mode="floor") * block
        first = self.config.first_visible(queries, starts)
        return (keys >= first[:, None]) & (keys < (starts + block)[:, None])


class ConvLayer(nn.Module):
    """Convolution over time, layer norm over channels, GELU."""

    def __init__(self, channels: tuple[int, int], kernel: int, stride: int, bias: bool) -> None:
        super().__init__()
        self.conv = nn.Conv1d(*channels, kernel, stride, bias=bias)
        self.layer_norm = nn.LayerNorm(channels[1])

    def forward(self, signal: Tensor) -> Tensor:
        """(batch, channels, time) to (batch, channels, time / stride)."""
        normed = self.layer_norm(self.conv(signal).transpose(1, 2)).transpose(1, 2)
        return F.gelu(normed.contiguous())  # one layout forward and backward: twice as fast on CPU


class FeatureExtractor(nn.Module):
    """Seven convolutions from samples to 20 ms frames, receptive field 400 samples."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        channels = (1, *config.conv_channels)
        pairs = pairwise(channels)
        self.conv_layers = nn.ModuleList(
            ConvLayer(pair, kernel, stride, config.conv_bias)
            for pair, kernel, stride in zip(pairs, KERNELS, STRIDES, strict=True)
        )

    def forward(self, samples: Tensor) -> Tensor:
        """(batch, n) to (batch, channels, (n - 80) // 320)."""
        signal = samples[:, None]
        for layer in self.conv_layers:
            signal = layer(signal)
        return signal


class FeatureProjection(nn.Module):
    """From convolution channels to the hidden size."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(config.conv_channels[-1])
        self.projection = nn.Linear(config.conv_channels[-1], config.hidden)

    def forward(self, features: Tensor) -> Tensor:
        """(batch, frames, channels) to (batch, frames, hidden)."""
        return self.projection(self.layer_norm(features))


class Layers(nn.Module):
    """The transformer: pre-norm layers and a last norm."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.layer_norm = nn.LayerNorm(config.hidden)

    def forward(self, x: Tensor, visible: Tensor, cache: Tensor | None) -> tuple[Tensor, Tensor]:
        """Run all layers.

        Args:
            x: (batch, new, hidden).
            visible: (new, keys) or (batch, 1, new, keys) bool, keys = past + new.
            cache: (layers, 2, batch, heads, keys, head size), whose last positions are written;
                None: no past.

        Returns:
            (batch, new, hidden) of the last layer, normalised, and of the middle layer.
        """
        dtype = torch.float64 if self.config.rope_angles == "exact" else torch.bfloat16
        rotation = rotary(
            visible.shape[-1], self.config.head_size, self.config.rope_base, dtype, x.device
        )
        mask = None if bool(visible.all()) else visible
        middle = x
        for index, layer in enumerate(self.layers):
            x = layer(x, mask, rotation, None if cache is None else cache[index])
            if index + 1 == len(self.layers) // 2:
                middle = x
        return self.layer_norm(x), middle


class Layer(nn.Module):
    """Pre-norm self-attention and feed-forward."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.layer_norm = nn.LayerNorm(config.hidden)
        self.feed_forward = FeedForward(config)
        self.final_layer_norm = nn.LayerNorm(config.hidden)

    def forward(
        self, x: Tensor, mask: Tensor | None, rotation: tuple[Tensor, Tensor], cache: Tensor | None
    ) -> Tensor:
        """See ``Layers``."""
        x = x + self.attention(self.layer_norm(x), mask, rotation, cache)
        return x + self.feed_forward(self.final_layer_norm(x))


class Attention(nn.Module):
    """Multi-head attention.

    Cached keys are not rotated (section 3.5): positions start at the oldest kept frame.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.q_proj = nn.Linear(config.hidden, config.hidden)
        self.k_proj = nn.Linear(config.hidden, config.hidden)
        self.v_proj = nn.Linear(config.hidden, config.hidden)
        self.out_proj = nn.Linear(config.hidden, config.hidden)

    def forward(
        self, x: Tensor, mask: Tensor | None, rotation: tuple[Tensor, Tensor], cache: Tensor | None
    ) -> Tensor:
        """See ``Layers``."""
        query, key, value = (
            self._split(projection(x)) for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        new = x.shape[1]
        if cache is not None:
            cache[0, :, :, -new:], cache[1, :, :, -new:] = key, value
            key, value = cache
        cos, sin = rotation
        attended = F.scaled_dot_product_attention(
            rotate(query, cos[-new:], sin[-new:]), rotate(key, cos, sin), value, attn_mask=mask
        )
        return self.out_proj(attended.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """Two linear layers around a GELU."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.intermediate_dense = nn.Linear(config.hidden, config.ff)
        self.output_dense = nn.Linear(config.ff, config.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, hidden) to the same."""
        return self.output_dense(F.gelu(self.intermediate_dense(x)))


def frequencies(head_size: int, base: float, device: torch.device | None = None) -> Tensor:
    """Rotary frequencies, (head_size / 2,) in double precision."""
    half = torch.arange(head_size // 2, dtype=torch.float64, device=device) / (head_size // 2)
    return base**-half


def rotary(
    positions: int, head_size: int, base: float, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Cosines and sines, (positions, head_size / 2) each; every step computed in ``dtype``."""
    places = torch.arange(positions, device=device).to(dtype)
    angles = places[:, None] * frequencies(head_size, base, device).to(dtype)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the two halves of the last dimension of (..., positions, head size)."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    cos, sin = cos.to(dtype), sin.to(dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)
