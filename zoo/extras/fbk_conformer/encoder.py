"""Conformer encoder (Gulati et al., 2020) in the variant that FBK trained in FBK-fairseq.

The layers are those of Gulati et al. with the relative positions of Transformer-XL (Dai et al.,
2019), but differ in details that the trained weights depend on: positions have one sinusoid per
frame instead of one per distance, and scores are scaled by the width of the model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import Speech2TextConfig
from transformers.models.speech_to_text.modeling_speech_to_text import Conv1dSubsampler

from zoo.backbones.architectures.encoder_decoder.layers import split_heads
from zoo.backbones.pretrained.loading import pad_batch, unpad_batch
from zoo.base.errors import ZooError, check_numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformerConfig:
    """Shape of the encoder. The defaults are those of FBK-fairseq's architecture ``conformer``.

    Attributes:
        bins: Number of mel bins.
        conv_channels: Channels between the two subsampling convolutions.
        conv_kernels: Kernel sizes of the subsampling convolutions, odd numbers.
        width: Size of the hidden states.
        layers: Number of layers.
        heads: Number of attention heads.
        ff: Width of the feed-forward blocks.
        kernel: Kernel size of the convolution in a layer, an odd number.
        half_step: Whether the feed-forward blocks count half.
        scaled: Whether the subsampled features are multiplied by the square root of ``width``.
    """

    bins: int = 80
    conv_channels: int = 1024
    conv_kernels: Sequence[int] = (5, 5)
    width: int = 512
    layers: int = 12
    heads: int = 8
    ff: int = 2048
    kernel: int = 31
    half_step: bool = True
    scaled: bool = True

    def __post_init__(self) -> None:
        """Raises ZooError for sizes that do not form an encoder with frames of 40 ms."""
        check_numbers("A Conformer", least=1, layers=self.layers, heads=self.heads)
        if len(self.conv_kernels) != 2:
            raise ZooError(
                f"A Conformer needs 2 subsampling convolutions (frames of 40 ms), not "
                f"{len(self.conv_kernels)}."
            )
        if any(kernel % 2 == 0 for kernel in (*self.conv_kernels, self.kernel)):
            raise ZooError("A Conformer needs convolutions with odd kernel sizes.")
        if self.width % self.heads or self.width % 2:
            raise ZooError(
                f"A Conformer needs an even width that its heads divide: {self.width} and "
                f"{self.heads} do not fit."
            )


class ConformerEncoder(nn.Module):
    """Features of 10 ms to frames of 40 ms."""

    def __init__(self, config: ConformerConfig) -> None:
        super().__init__()
        self.config = config
        self.subsampling = Conv1dSubsampler(
            Speech2TextConfig(
                num_conv_layers=len(config.conv_kernels),
                input_feat_per_channel=config.bins,
                conv_channels=config.conv_channels,
                conv_kernel_sizes=list(config.conv_kernels),
                d_model=config.width,
            )
        )
        self.layers = nn.ModuleList(ConformerLayer(config) for _ in range(config.layers))

    def subsample(self, features: Tensor) -> Tensor:
        """Apply the convolutions to the features of one stream.

        Args:
            features: (n, bins) normalised features.

        Returns:
            (frames, width); frames is a quarter of n, rounded up.
        """
        hidden: Tensor = self.subsampling(features[None])[0]
        return hidden * math.sqrt(self.config.width) if self.config.scaled else hidden

    def forward(self, hidden: Sequence[Tensor]) -> list[Tensor]:
        """Run the layers on streams of different lengths, as one batch.

        Args:
            hidden: (frames, width) output of ``subsample`` of each stream, at least one frame.

        Returns:
            (frames, width) of each stream, independent of the other streams.
        """
        padded, mask = pad_batch(hidden)
        lengths = torch.tensor([len(frames) for frames in hidden], device=padded.device)
        context = BatchContext(
            positions=sinusoids(padded.shape[1], self.config.width).to(padded),
            shift=shift_index(lengths, padded.shape[1]),
            visible=None if mask is None else mask.bool(),
        )
        for layer in self.layers:
            padded = layer(padded, context)
        return unpad_batch(padded, hidden)


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What all layers know of a batch.

    Attributes:
        positions: (frames, width) sinusoids.
        shift: (batch, frames x frames) result of ``shift_index``.
        visible: (batch, frames) bool mask, False in padding. None if no stream is padded.
    """

    positions: Tensor
    shift: Tensor
    visible: Tensor | None


class ConformerLayer(nn.Module):
    """Half a feed-forward block, attention, convolution, half a feed-forward block, layer norm."""

    def __init__(self, config: ConformerConfig) -> None:
        super().__init__()
        self.factor = 0.5 if config.half_step else 1.0
        self.first_feed_forward = ConformerFeedForward(config)
        self.attention = RelativeAttention(config)
        self.convolution = Convolution(config)
        self.second_feed_forward = ConformerFeedForward(config)
        self.norm = nn.LayerNorm(config.width)

    def forward(self, hidden: Tensor, context: BatchContext) -> Tensor:
        """Transform a batch (batch, frames, width)."""
        hidden = hidden + self.factor * self.first_feed_forward(hidden)
        hidden = hidden + self.attention(hidden, context)
        hidden = hidden + self.convolution(hidden, context.visible)
        hidden = hidden + self.factor * self.second_feed_forward(hidden)
        normed: Tensor = self.norm(hidden)
        return normed


class ConformerFeedForward(nn.Module):
    """Layer norm and two linear layers with a SiLU."""

    def __init__(self, config: ConformerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.first = nn.Linear(config.width, config.ff)
        self.second = nn.Linear(config.ff, config.width)

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform a batch (batch, frames, width)."""
        transformed: Tensor = self.second(F.silu(self.first(self.norm(hidden))))
        return transformed


class Convolution(nn.Module):
    """Gated pointwise convolution, depthwise convolution with batch norm, pointwise convolution."""

    def __init__(self, config: ConformerConfig) -> None:
        super().__init__()
        width = config.width
        self.norm = nn.LayerNorm(width)
        self.gated = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(
            width, width, config.kernel, padding=config.kernel // 2, groups=width, bias=False
        )
        self.batch_norm = nn.BatchNorm1d(width)
        self.pointwise = nn.Conv1d(width, width, 1)

    def forward(self, hidden: Tensor, visible: Tensor | None) -> Tensor:
        """Transform a batch.

        Args:
            hidden: (batch, frames, width).
            visible: (batch, frames) bool mask, False in padding. None if no stream is padded.

        Returns:
            (batch, frames, width); a stream is convolved with zeros after its end.
        """
        channels = F.glu(self.gated(self.norm(hidden).transpose(1, 2)), dim=1)
        if visible is not None:
            channels = channels.masked_fill(~visible[:, None], 0.0)
        channels = F.silu(self.batch_norm(self.depthwise(channels)))
        convolved: Tensor = self.pointwise(channels).transpose(1, 2)
        return convolved


class RelativeAttention(nn.Module):
    """Self-attention whose scores are the sum of a content part and a position part."""

    def __init__(self, config: ConformerConfig) -> None:
        super().__init__()
        width, heads = config.width, config.heads
        self.heads = heads
        self.scale = 1 / math.sqrt(width)  # of the whole width, not of a head's
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.position = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width)
        self.content_bias = nn.Parameter(torch.zeros(heads, width // heads))
        self.position_bias = nn.Parameter(torch.zeros(heads, width // heads))

    def forward(self, hidden: Tensor, context: BatchContext) -> Tensor:
        """Attend to all frames of a stream; hidden and result are (batch, frames, width)."""
        normed = self.norm(hidden)
        query = self.query(normed).unflatten(2, (self.heads, -1))  # (batch, frames, heads, size)
        key, value = (split_heads(linear(normed), self.heads) for linear in (self.key, self.value))
        # (1, heads, frames, size)
        positions = split_heads(self.position(context.positions)[None], self.heads)

        by_position = (query + self.position_bias).transpose(1, 2) @ positions.transpose(2, 3)
        bias = self.scale * relative_shift(by_position, context.shift)
        if context.visible is not None:
            bias = bias.masked_fill(~context.visible[:, None, None], -torch.inf)
        attended = F.scaled_dot_product_attention(
            (query + self.content_bias).transpose(1, 2),
            key,
            value,
            attn_mask=bias,
            scale=self.scale,
        )
        output: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return output


def sinusoids(frames: int, width: int) -> Tensor:
    """Return (frames, width) sinusoids, sines and cosines in turn.

    They are computed in float32, as the trained models have received them.
    """
    frequencies = torch.exp(torch.arange(0, width, 2).float() * (-math.log(10_000.0) / width))
    angles = torch.arange(frames).float()[:, None] * frequencies  # (frames, width / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)


def shift_index(lengths: Tensor, frames: int) -> Tensor:
    """Return the indices that ``relative_shift`` gathers its scores from.

    Transformer-XL's shift puts a column of zeros before the scores of a stream, (n, n + 1), reads
    them as n + 1 rows of n scores, and drops the first row. In a batch, each stream is shifted by
    its own length n.

    Args:
        lengths: (batch,) frames of each stream.
        frames: Frames of the padded batch.

    Returns:
        (batch, frames x frames) int64 indices in a flat (frames, frames + 1) matrix. Indices of
        padding are 0.
    """
    rows = torch.arange(frames, device=lengths.device)[:, None]  # of queries
    columns = rows.T  # of keys
    count = lengths[:, None, None]  # (batch, 1, 1)
    flat_index = (rows + 1) * count + columns
    index = (flat_index // (count + 1)) * (frames + 1) + flat_index % (count + 1)
    within = (rows < count) & (columns < count)
    return torch.where(within, index, 0).flatten(1)


def relative_shift(scores: Tensor, index: Tensor) -> Tensor:
    """Apply Transformer-XL's shift.

    Args:
        scores: (batch, heads, frames, frames) scores of queries and positions.
        index: (batch, frames x frames) result of ``shift_index``.

    Returns:
        (batch, heads, frames, frames) scores of queries and keys.
    """
    flat = F.pad(scores, (1, 0)).flatten(2)
    expanded = index[:, None].expand(-1, scores.shape[1], -1)
    return flat.gather(2, expanded).view_as(scores)
