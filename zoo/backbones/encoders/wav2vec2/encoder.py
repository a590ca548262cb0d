"""Streaming wav2vec 2.0 encoder (InfiniSST, sections 3.2 and 3.5).

The encoder has block-causal attention, rotary positions and a sliding window over the past.

Parameters have the names of Hugging Face's ``Wav2Vec2Model`` (layer-norm variant), without
``encoder.pos_conv_embed``, which rotary positions replace.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zoo.base.errors import ZooError
from zoo.base.types import Frames, Samples
from zoo.streaming.stages import stage

CHUNK_SAMPLES: Samples = 15_360  # 960 ms
CHUNK_FRAMES: Frames = 48  # 960 ms
FRAME_SAMPLES: Samples = 320  # 20 ms
KERNELS = (10, 3, 3, 3, 3, 2, 2)
STRIDES = (5, 2, 2, 2, 2, 2, 2)


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """Configuration of the encoder.

    Attributes:
        conv_channels: Number of output channels of each convolution.
        conv_bias: Whether the convolutions have a bias.
        hidden: Size of the hidden states.
        layers: Number of Transformer layers.
        heads: Number of attention heads per layer.
        ff: Inner size of the feed-forward layers.
        window: Size of the attention window over the past; see ``first_visible``.
        window_unit: Counting of ``window``. chunks (paper): ``window - 1`` chunks
            before the query's block. frames (released code): ``48 window`` frames before the
            query.
        left_pad: Number of samples of left context before each block. The first block of a stream
            has zeros as left context. A value from 80 to 399 yields 48 frames per chunk of 15 360
            samples. Models trained with this repository use 80, released checkpoints use 399.
            Released offline checkpoints use 0 and encode whole signals only.
        rope_base: Base of the rotary frequencies.
        rope_angles: Precision of the rotary angles. exact: double precision. bfloat16: positions,
            frequencies and angles are rounded to bfloat16, as in the released code that trained
            the released checkpoints. With bfloat16, neighbouring frames beyond frame 256 share a
            position. Positions count from the oldest kept frame, so rounded angles depend on the
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
        """Raises ZooError for a size or a ``left_pad`` that the encoder cannot have."""
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
        """Number of frames before a block that a stream must keep for the block's queries."""
        past_chunks = self.window - 1 if self.window_unit == "chunks" else self.window
        return CHUNK_FRAMES * past_chunks

    def first_visible(self, frames: Tensor, block_starts: Tensor) -> Tensor:
        """Return the earliest frame that each query attends to.

        With ``window_unit`` chunks (InfiniSST, section 3.5), a query attends to its own block and
        to the ``window - 1`` chunks of 960 ms before the block. With ``window_unit`` frames
        (released code), a query attends to the ``48 window`` frames before the query and to the
        rest of its block.

        Args:
            frames: (queries,) frame index of each query.
            block_starts: (queries,) index of the first frame of each query's block.

        Returns:
            (queries,) frame indices, which may be negative.
        """
        window_ends = block_starts if self.window_unit == "chunks" else frames
        return window_ends - self.past_frames


class Encoded(NamedTuple):
    """Output of the encoder.

    Attributes:
        hidden: (batch, frames, hidden) output of the last layer, after the final layer norm.
        middle: (batch, frames, hidden) output of the middle layer, without layer norm.
    """

    hidden: Tensor
    middle: Tensor


@dataclass(slots=True)
class EncoderState:
    """State of one stream between blocks.

    Attributes:
        left: (left_pad,) samples before the next block.
        cache: (layers, 2, heads, frames, head size) keys and values. The keys are not rotated.
    """

    left: Tensor
    cache: Tensor


class StreamingEncoder(nn.Module):
    """Encoder from a 16 kHz waveform to one hidden state per 20 ms.

    ``forward`` encodes whole signals, and ``stream`` encodes a stream block by block with a cache.
    Both methods use the same layers.

    Args:
        config: Sizes, attention window and positions.
        layer_drop: Probability from 0 to below 1 with which a step of a training leaves out a
            Transformer layer; see ``Layers``.
        gradient_checkpointing: Whether training recomputes activations instead of keeping them.

    Raises:
        ZooError: ``layer_drop`` is no such probability.
    """

    chunk_samples: Samples = CHUNK_SAMPLES
    frame_samples: Samples = FRAME_SAMPLES

    def __init__(
        self,
        config: EncoderConfig,
        *,
        layer_drop: float = 0.0,
        gradient_checkpointing: bool = False,
    ) -> None:
        super().__init__()
        if not 0 <= layer_drop < 1:
            raise ZooError(
                f"The encoder's layer_drop is a probability from 0 to below 1, not {layer_drop}."
            )
        self.config = config
        self.feature_extractor = FeatureExtractor(config, recomputed=gradient_checkpointing)
        self.feature_projection = FeatureProjection(config)
        self.encoder = Layers(config, drop=layer_drop, recomputed=gradient_checkpointing)

    def forward(self, samples: Tensor, multiplier: int, lengths: Tensor | None = None) -> Encoded:
        """Encode whole signals.

        Args:
            samples: (batch, n) samples from the start of each stream.
            multiplier: Latency multiplier m, the number of chunks per block.
            lengths: (batch,) number of frames before the padding of each signal. None means that no
                signal is padded.
        """
        features = self.features(F.pad(samples, (self.config.left_pad, 0)))
        return self.contextualise(features, multiplier, lengths)

    def features(self, samples: Tensor) -> Tensor:
        """Apply the convolutions and the feature projection.

        Args:
            samples: (batch, n) samples, left context included.

        Returns:
            (batch, (n - 80) // 320, hidden).
        """
        channels: Tensor = self.feature_extractor(samples)  # (batch, channels, frames)
        features: Tensor = self.feature_projection(channels.transpose(1, 2))
        return features

    def contextualise(
        self, features: Tensor, multiplier: int, lengths: Tensor | None = None
    ) -> Encoded:
        """Apply the Transformer layers to the features of whole signals.

        Args:
            features: (batch, frames, hidden) output of ``features``.
            multiplier: Latency multiplier m, the number of chunks per block.
            lengths: (batch,) number of frames before the padding of each signal. None means that no
                signal is padded.
        """
        frames = torch.arange(features.shape[1], device=features.device)
        block = CHUNK_FRAMES * multiplier
        visible = self.visible(frames, frames, block)
        if lengths is not None and _shares_a_block(lengths, len(frames), block):
            real = frames < lengths[:, None]
            itself = frames[:, None] == frames  # padding attends to itself: no empty softmax
            visible = (visible & real[:, None, None]) | itself
        hidden, middle = self.encoder(features, visible, None)
        return Encoded(hidden, middle)

    def open(self) -> EncoderState:
        """Create the state of a new stream. Raises ZooError if ``left_pad`` is 0."""
        if self.config.left_pad == 0:
            raise ZooError(
                "An encoder with left_pad=0 encodes whole signals only; it cannot encode a stream."
            )
        cache = self.empty_cache()
        return EncoderState(left=cache.new_zeros(self.config.left_pad), cache=cache)

    def empty_cache(self) -> Tensor:
        """Create keys and values of no frame, (layers, 2, heads, 0, head size)."""
        config, weight = self.config, self.feature_projection.projection.weight
        return weight.new_zeros(config.layers, 2, config.heads, 0, config.head_size)

    @stage("encoder")
    def stream(self, states: Sequence[EncoderState], blocks: Sequence[Tensor]) -> list[Tensor]:
        """Encode one new block per stream.

        Blocks of equal length are encoded as one batch, in which caches of different lengths are
        padded and masked. With rounded rotary angles, the caches of a batch must also have equal
        lengths, because padding shifts the positions.

        Args:
            states: State of each stream; changed in place.
            blocks: (n,) samples of each stream; n is a multiple of 15 360.

        Returns:
            (n / 320, hidden) of each stream.
        """
        encoded: dict[int, Tensor] = {}
        rounded = self.config.rope_angles != "exact"
        batch_keys = [
            (block.numel(), state.cache.shape[3] if rounded else 0)
            for state, block in zip(states, blocks, strict=True)
        ]
        for batch_key in set(batch_keys):
            rows = [row for row, key in enumerate(batch_keys) if key == batch_key]
            hidden = self._stream(
                [states[row] for row in rows], torch.stack([blocks[row] for row in rows])
            )
            encoded |= dict(zip(rows, hidden, strict=True))
        return [encoded[row] for row in range(len(blocks))]

    def _stream(self, states: Sequence[EncoderState], samples: Tensor) -> Tensor:
        """Encode blocks of equal length, samples (streams, n), to (streams, n / 320, hidden)."""
        left = torch.stack([state.left for state in states])
        samples = torch.cat([left, samples.to(left)], dim=1)
        features = self.features(samples)
        size = features.shape[1]
        num_past = [state.cache.shape[3] for state in states]
        cache = joined_caches([state.cache for state in states], size)
        past = cache.shape[4] - size

        keys = torch.arange(-past, size, device=samples.device)
        real = keys >= -torch.tensor(num_past, device=samples.device)[:, None]
        visible = self.visible(keys[past:], keys, size) & real[:, None, None]
        hidden: Tensor = self.encoder(features, visible, cache)[0]

        for row, state in enumerate(states):
            frames = min(num_past[row] + size, self.config.past_frames)
            state.cache = cache[:, :, row, :, past + size - frames :].clone()
            state.left = samples[row, samples.shape[1] - self.config.left_pad :].clone()
        return hidden

    def visible(self, queries: Tensor, keys: Tensor, block: Frames) -> Tensor:
        """Return the block-causal attention mask with a sliding window.

        Attention is bidirectional inside a block and causal across blocks.

        Args:
            queries: (queries,) frame indices.
            keys: (keys,) frame indices.
            block: Number of frames per block.

        Returns:
            (queries, keys) bool.
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
        # The same memory layout forward and backward is twice as fast on CPUs.
        return F.gelu(normed.contiguous())


class FeatureExtractor(nn.Module):
    """Seven convolutions from samples to 20 ms frames, receptive field 400 samples.

    Args:
        config: Channels and biases.
        recomputed: Whether training recomputes activations instead of keeping them.
    """

    def __init__(self, config: EncoderConfig, *, recomputed: bool = False) -> None:
        super().__init__()
        self.recomputed = recomputed
        channels = (1, *config.conv_channels)
        pairs = pairwise(channels)
        self.conv_layers = nn.ModuleList(
            ConvLayer(pair, kernel, stride, config.conv_bias)
            for pair, kernel, stride in zip(pairs, KERNELS, STRIDES, strict=True)
        )

    @stage("features")
    def forward(self, samples: Tensor) -> Tensor:
        """(batch, n) to (batch, channels, (n - 80) // 320)."""
        signal = samples[:, None]
        recomputed = self.recomputed and is_trained(self)
        for layer in self.conv_layers:
            signal = run(layer, signal, recomputed=recomputed)
        return signal


class FeatureProjection(nn.Module):
    """From convolution channels to the hidden size."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(config.conv_channels[-1])
        self.projection = nn.Linear(config.conv_channels[-1], config.hidden)

    def forward(self, features: Tensor) -> Tensor:
        """(batch, frames, channels) to (batch, frames, hidden)."""
        hidden: Tensor = self.projection(self.layer_norm(features))
        return hidden


class Layers(nn.Module):
    """Stack of pre-norm Transformer layers with a final layer norm.

    With layer drop (wav2vec 2.0, section 4.2; LayerDrop, Fan et al., 2020), each training step
    leaves out each layer with the same probability. A layer that is left out runs, but its input is
    passed on, so its gradients are zeros. All ranks of a training thus run and update the same
    layers, as strategies that shard weights need it, although each rank draws its own.

    Args:
        config: Sizes and positions.
        drop: Probability with which a layer is left out.
        recomputed: Whether training recomputes activations instead of keeping them.
    """

    def __init__(
        self, config: EncoderConfig, *, drop: float = 0.0, recomputed: bool = False
    ) -> None:
        super().__init__()
        self.config = config
        self.drop = drop
        self.recomputed = recomputed
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.layer_norm = nn.LayerNorm(config.hidden)

    def forward(self, x: Tensor, visible: Tensor, cache: Tensor | None) -> tuple[Tensor, Tensor]:
        """Run all layers.

        Args:
            x: (batch, new, hidden) features.
            visible: (new, keys) or (batch, 1, new, keys) bool attention mask, keys = past + new.
            cache: (layers, 2, batch, heads, keys, head size) keys and values, whose last ``new``
                positions are overwritten. None means that there are no past frames.

        Returns:
            Output of the last layer after the final layer norm, and output of the middle layer
            without layer norm, (batch, new, hidden) each.
        """
        dtype = torch.float64 if self.config.rope_angles == "exact" else torch.bfloat16
        rotation = rotary(
            visible.shape[-1], self.config.head_size, self.config.rope_base, dtype, x.device
        )
        mask = None if bool(visible.all()) else visible  # attention without a mask is faster

        trained = is_trained(self)
        middle = x
        for index, layer in enumerate(self.layers):
            layer_cache = None if cache is None else cache[index]
            output = run(
                layer, x, mask, rotation, layer_cache, recomputed=trained and self.recomputed
            )
            if trained and self.drop:
                keeps_layer = torch.rand((), device=x.device) >= self.drop
                output = torch.where(keeps_layer, output, x)
            x = output
            if index + 1 == len(self.layers) // 2:
                middle = x
        return self.layer_norm(x), middle


class Layer(nn.Module):
    """Pre-norm Transformer layer: self-attention and feed-forward block."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.layer_norm = nn.LayerNorm(config.hidden)
        self.feed_forward = FeedForward(config)
        self.final_layer_norm = nn.LayerNorm(config.hidden)

    def forward(
        self, x: Tensor, mask: Tensor | None, rotation: tuple[Tensor, Tensor], cache: Tensor | None
    ) -> Tensor:
        """Apply self-attention and the feed-forward block, each with a residual connection.

        Args:
            x: (batch, new, hidden) output of the previous layer.
            mask: (new, keys) or (batch, 1, new, keys) bool attention mask, keys = past + new. None
                means that every position is visible.
            rotation: Cosines and sines, (keys, head size / 2) each.
            cache: (2, batch, heads, keys, head size) keys and values of this layer, whose last
                ``new`` positions are overwritten. None means that there are no past frames.

        Returns:
            (batch, new, hidden).
        """
        x = x + self.attention(self.layer_norm(x), mask, rotation, cache)
        update: Tensor = self.feed_forward(self.final_layer_norm(x))
        return x + update


class Attention(nn.Module):
    """Multi-head self-attention with rotary positions.

    Cached keys are stored without rotation, because positions count from the oldest kept frame and
    therefore change when the window moves (InfiniSST, section 3.5).
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
        """Attend to the past frames and the visible new frames.

        Args:
            x: (batch, new, hidden) input after the layer norm.
            mask: (new, keys) or (batch, 1, new, keys) bool attention mask, keys = past + new. None
                means that every position is visible.
            rotation: Cosines and sines, (keys, head size / 2) each.
            cache: (2, batch, heads, keys, head size) keys and values of this layer, whose last
                ``new`` positions are overwritten. None means that there are no past frames.

        Returns:
            (batch, new, hidden).
        """
        query, key, value = (
            self._split(projection(x)) for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        new = x.shape[1]
        if cache is not None:  # (2, batch, heads, keys, head size)
            cache[0, :, :, -new:] = key
            cache[1, :, :, -new:] = value
            key, value = cache
        cos, sin = rotation
        attended = F.scaled_dot_product_attention(
            rotate(query, cos[-new:], sin[-new:]), rotate(key, cos, sin), value, attn_mask=mask
        )
        output: Tensor = self.out_proj(attended.transpose(1, 2).flatten(2))
        return output

    def _split(self, x: Tensor) -> Tensor:
        heads: Tensor = x.unflatten(2, (self.heads, -1))
        return heads.transpose(1, 2)


class FeedForward(nn.Module):
    """Feed-forward block: two linear layers with a GELU in between."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.intermediate_dense = nn.Linear(config.hidden, config.ff)
        self.output_dense = nn.Linear(config.ff, config.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Transform (batch, frames, hidden) to (batch, frames, hidden)."""
        output: Tensor = self.output_dense(F.gelu(self.intermediate_dense(x)))
        return output


def joined_caches(caches: Sequence[Tensor], new: Frames) -> Tensor:
    """Join the caches of streams, padded on the left, with space for new frames.

    Args:
        caches: (layers, 2, heads, frames, head size) keys and values of each stream.
        new: Number of new frames.

    Returns:
        (layers, 2, streams, heads, longest + new, head size).
    """
    layers, pair, heads, _, head_size = caches[0].shape
    past = max(cache.shape[3] for cache in caches)
    batch = caches[0].new_empty(layers, pair, len(caches), heads, past + new, head_size)
    for row, cache in enumerate(caches):
        # Padding is masked, but uninitialised memory may hold NaN, and 0 x NaN is NaN.
        batch[:, :, row, :, : past - cache.shape[3]] = 0
        batch[:, :, row, :, past - cache.shape[3] : past] = cache
    return batch


def _shares_a_block(lengths: Tensor, frames: Frames, block: Frames) -> bool:
    """Return whether padding is in one block with frames of a signal, which would attend to it.

    Padding in later blocks needs no mask per signal, because blocks attend to earlier ones only.

    Args:
        lengths: (batch,) number of frames before the padding of each signal.
        frames: Number of frames of the padded signals.
        block: Number of frames per block.
    """
    return bool(((lengths < frames) & (lengths % block > 0)).any())


def is_trained(module: nn.Module) -> bool:
    """Return whether a module runs a training step: in training mode and with gradients."""
    return module.training and torch.is_grad_enabled()


def run(layer: nn.Module, *inputs: Any, recomputed: bool) -> Tensor:
    """Run a layer.

    Args:
        layer: Layer without randomness.
        inputs: Arguments of the layer.
        recomputed: Whether the backward pass runs the layer again instead of keeping activations.
    """
    if recomputed:
        output: Tensor = checkpoint(layer, *inputs, use_reentrant=False, preserve_rng_state=False)
    else:
        output = layer(*inputs)
    return output


def frequencies(head_size: int, base: float, device: torch.device | None = None) -> Tensor:
    """Compute the rotary frequencies.

    Args:
        head_size: Size of one attention head.
        base: Base of the rotary frequencies.
        device: Device of the result.

    Returns:
        (head_size / 2,) in double precision.
    """
    half = head_size // 2
    exponents = torch.arange(half, dtype=torch.float64, device=device) / half
    return base**-exponents


def rotary(
    positions: int, head_size: int, base: float, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Compute the rotary cosines and sines, every step in ``dtype``.

    Args:
        positions: Number of positions, from 0.
        head_size: Size of one attention head.
        base: Base of the rotary frequencies.
        dtype: Dtype of positions, frequencies and angles.
        device: Device of the result.

    Returns:
        Cosines and sines, (positions, head_size / 2) each.
    """
    indices = torch.arange(positions, device=device).to(dtype)
    angles = indices[:, None] * frequencies(head_size, base, device).to(dtype)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply the rotary embedding, computed at least in float32.

    Element i of the first half of the last dimension is rotated together with element i of the
    second half.

    Args:
        x: (..., positions, head size) queries or keys.
        cos: (positions, head size / 2) cosines.
        sin: (positions, head size / 2) sines.

    Returns:
        Rotated ``x``, with the shape and the dtype of ``x``.
    """
    dtype = torch.promote_types(x.dtype, torch.float32)
    cos, sin = cos.to(dtype), sin.to(dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)
