"""The network of Hibiki: a Transformer over frames, and one over the codebooks of a frame.

The names of the modules are those of the published weights. Steps process one position of each
stream of a batch; keys and values of earlier positions are in caches outside of the network.
"""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.extras.hibiki.config import HibikiConfig, Stack

Choose = Callable[[Tensor, int], Tensor]  # (streams, scores) of stream 1, 2, ... -> (streams,) ids


class Cache(Protocol):
    """Keys and values of the earlier positions of one layer."""

    def attend(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Append a position and attend to all of them.

        Args:
            query: (streams, heads, size).
            keys: (streams, groups, size) of the new position.
            values: (streams, groups, size) of the new position.

        Returns:
            (streams, heads, size).
        """


class Ring:
    """Keys and values of the last positions of one stream in one layer.

    Memory grows up to ``context`` positions; then a new position takes the place of the oldest. The
    order does not matter, because keys are rotated when they are stored.
    """

    def __init__(self, context: int) -> None:
        self.context = context
        self.position = 0  # positions stored so far
        self.stored: Tensor | None = None  # (2, groups, places, size)

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store a position (groups, size) and return all kept (groups, kept, size)."""
        new = torch.stack([keys, values])
        if self.stored is None:
            self.stored = new.new_empty(*new.shape[:2], min(64, self.context), new.shape[2])
        places = self.stored.shape[2]
        if self.position == places < self.context:
            more = min(places, self.context - places)
            self.stored = F.pad(self.stored, (0, 0, 0, more))
        self.stored[:, :, self.position % self.context] = new
        self.position += 1
        kept_keys, kept_values = self.stored[:, :, : min(self.position, self.context)]
        return kept_keys, kept_values


class Rings:
    """The rings of the streams of a batch in one layer, of any lengths."""

    def __init__(self, rings: Sequence[Ring]) -> None:
        self.rings = rings

    def attend(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attend stream by stream; see ``Cache``."""
        streams = zip(self.rings, query, keys, values, strict=True)
        return torch.cat([attention(q[None], *ring.append(k, v)) for ring, q, k, v in streams])


class Steps:
    """The steps of one frame, of which all streams have equally many."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def attend(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attend to all steps; see ``Cache``."""
        self.keys.append(keys)
        self.values.append(values)
        return attention(query, torch.stack(self.keys, dim=2), torch.stack(self.values, dim=2))


def attention(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return (streams, heads, size); keys and values are ([streams,] groups, positions, size)."""
    if keys.dim() == 3:
        keys, values = keys[None], values[None]
    attended = F.scaled_dot_product_attention(query[:, :, None], keys, values, enable_gqa=True)
    return attended[:, :, 0]


class RMSNorm(nn.Module):
    """Divides by the root mean square, computed in float32 or better."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, 1, width))

    def forward(self, hidden: Tensor) -> Tensor:
        """Normalise (streams, width)."""
        exact = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
        scale = torch.rsqrt(exact.square().mean(dim=-1, keepdim=True) + 1e-8)
        return (exact * (self.alpha[0].to(exact) * scale)).to(hidden)


class Embedding(nn.Embedding):
    """An embedding table, optionally of low rank with a projection."""

    def __init__(self, ids: int, width: int, rank: int | None = None) -> None:
        super().__init__(ids, rank or width)
        self.low_rank = nn.Linear(rank, width, bias=False) if rank else None

    def forward(self, ids: Tensor) -> Tensor:
        """Return (streams, width) of ids (streams,)."""
        embedded = super().forward(ids)
        if self.low_rank is not None:
            embedded = self.low_rank(embedded)
        return embedded


class Attention(nn.Module):
    """Self-attention with grouped keys and values."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.stack = stack
        self.size = stack.width // stack.heads
        projected = (stack.heads + 2 * stack.groups) * self.size
        sets = range(max(stack.weights) + 1)
        self.in_projs = nn.ModuleList(nn.Linear(stack.width, projected, bias=False) for _ in sets)
        self.out_projs = nn.ModuleList(
            nn.Linear(stack.width, stack.width, bias=False) for _ in sets
        )

    def forward(self, hidden: Tensor, cache: Cache, positions: Tensor | None, index: int) -> Tensor:
        """Attend from (streams, width) with weights ``index``; see ``Layer``."""
        heads, groups = self.stack.heads, self.stack.groups
        projected = self.in_projs[index](hidden).unflatten(-1, (-1, self.size))
        query, keys, values = projected.split([heads, groups, groups], dim=1)
        if positions is not None:
            query, keys = (rotate(one, positions, self.stack) for one in (query, keys))
        output: Tensor = self.out_projs[index](cache.attend(query, keys, values).flatten(1))
        return output


def rotate(vectors: Tensor, positions: Tensor, stack: Stack) -> Tensor:
    """Rotate pairs of numbers by angles that grow with the position.

    Args:
        vectors: (streams, heads, size).
        positions: (streams,) positions.
        stack: Period and kind of the pairs.
    """
    size = vectors.shape[-1]
    exact = torch.promote_types(vectors.dtype, torch.float32)
    indices = torch.arange(size // 2, device=vectors.device, dtype=exact)
    frequencies = torch.exp(indices * (-2 * math.log(stack.period or 1) / size))
    angles = positions.to(exact)[:, None, None] * frequencies
    pairs = vectors.to(exact)
    pairs = pairs.unflatten(-1, (2, -1)) if stack.halves else pairs.unflatten(-1, (-1, 2)).mT
    first, second = pairs.unbind(dim=-2)
    cos, sin = angles.cos(), angles.sin()
    rotated = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-2)
    return (rotated if stack.halves else rotated.mT).flatten(-2).to(vectors)


class Gating(nn.Module):
    """Feed-forward block with a gate."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.linear_in = nn.Linear(stack.width, 2 * stack.hidden, bias=False)
        self.linear_out = nn.Linear(stack.hidden, stack.width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform (streams, width)."""
        gate, linear = self.linear_in(hidden).chunk(2, dim=-1)
        output: Tensor = self.linear_out(F.silu(gate) * linear)
        return output


class Layer(nn.Module):
    """A Transformer layer; steps may have weights of their own."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.self_attn = Attention(stack)
        self.norm1 = RMSNorm(stack.width)
        self.norm2 = RMSNorm(stack.width)
        self.gating = nn.ModuleList(Gating(stack) for _ in range(max(stack.weights) + 1))

    def forward(self, hidden: Tensor, cache: Cache, positions: Tensor | None, index: int) -> Tensor:
        """Process one position of each stream.

        Args:
            hidden: (streams, width).
            cache: Earlier positions.
            positions: (streams,) rotary positions; None: without.
            index: Set of weights.
        """
        hidden = hidden + self.self_attn(self.norm1(hidden), cache, positions, index)
        output: Tensor = hidden + self.gating[index](self.norm2(hidden))
        return output


class Layers(nn.Module):
    """A stack of layers."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(stack) for _ in range(stack.layers))

    def forward(
        self, hidden: Tensor, caches: Sequence[Cache], positions: Tensor | None, index: int
    ) -> Tensor:
        """Process one position of each stream; ``caches`` has one per layer. See ``Layer``."""
        for layer, cache in zip(self.layers, caches, strict=True):
            hidden = layer(hidden, cache, positions, index)
        return hidden


class Description(nn.Module):
    """Embeds a description of the quality of the training data."""

    def __init__(self, ids: int, size: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(ids + 1, size)
        self.output_proj = nn.Linear(size, width, bias=False)
        self.learnt_padding = nn.Parameter(torch.zeros(1, 1, width))  # of no description

    def forward(self, index: int) -> Tensor:
        """Return (width,)."""
        output: Tensor = self.output_proj(self.embed.weight[index])
        return output


class HibikiNetwork(nn.Module):
    """Text, target speech and source speech as parallel streams of tokens (RQ-Transformer)."""

    def __init__(self, config: HibikiConfig) -> None:
        super().__init__()
        self.config = config
        temporal, depth, codes = config.temporal, config.depth, config.codes
        self.emb = nn.ModuleList(
            Embedding(codes + 1, temporal.width) for _ in range(config.targets + config.sources)
        )
        self.text_emb = Embedding(config.text + 1, temporal.width)
        self.transformer = Layers(temporal)
        self.out_norm = RMSNorm(temporal.width)
        self.text_linear = nn.Linear(temporal.width, config.text, bias=False)
        self.depformer_in = nn.ModuleList(
            nn.Linear(temporal.width, depth.width, bias=False)
            for _ in range(max(depth.weights) + 1)
        )
        rank = config.low_rank
        self.depformer_emb = nn.ModuleList(
            Embedding(codes + 1, depth.width, rank) for _ in range(config.targets - 1)
        )
        self.depformer_text_emb = Embedding(config.text + 1, depth.width, rank)
        self.depformer = Layers(depth)
        norm = nn.LayerNorm if config.depth_norm else nn.Identity
        self.depformer_norms = nn.ModuleList(norm(depth.width) for _ in range(config.targets))
        self.linears = nn.ModuleList(
            nn.Linear(depth.width, codes, bias=False) for _ in range(config.targets)
        )
        if config.description:
            description = Description(*config.description[:2], temporal.width)
            conditioners = nn.ModuleDict({"description": description})
            self.condition_provider = nn.ModuleDict({"conditioners": conditioners})
        else:
            self.condition_provider = nn.ModuleDict()

    def step(self, tokens: Tensor, rings: Sequence[Sequence[Ring]], positions: Tensor) -> Tensor:
        """Process one frame of each stream by the temporal Transformer.

        Args:
            tokens: (streams, 1 + codebooks) ids of text, target and source.
            rings: Rings of each stream, one per layer.
            positions: (streams,) number of earlier frames.

        Returns:
            (streams, width) hidden states, from which text and target codes of the frame follow.
        """
        hidden = self.text_emb(tokens[:, 0])
        for index, embedding in enumerate(self.emb):
            hidden = hidden + embedding(tokens[:, 1 + index])
        if self.config.description:
            describe = self.condition_provider["conditioners"]["description"]  # type: ignore[index]
            hidden = hidden + describe(self.config.description[2]).to(hidden)
        caches = [Rings(layer) for layer in zip(*rings, strict=True)]
        output: Tensor = self.out_norm(self.transformer(hidden, caches, positions, 0))
        return output

    def generate(self, hidden: Tensor, choose: Choose) -> tuple[Tensor, Tensor]:
        """Generate the text and the target codes of a frame.

        Args:
            hidden: (streams, width) output of ``step``.
            choose: Chooses ids by their scores; 0 is the text, k the k-th codebook.

        Returns:
            (streams,) text ids and (streams, targets) codes.
        """
        text = token = choose(self.text_linear(hidden), 0)
        caches = [Steps() for _ in self.depformer.layers]
        codes = []
        for index, weights in enumerate(self.config.depth.weights):
            embed = self.depformer_emb[index - 1] if index else self.depformer_text_emb
            inputs = self.depformer_in[weights](hidden) + embed(token)
            output = self.depformer(inputs, caches, None, weights)
            token = choose(self.linears[index](self.depformer_norms[index](output)), 1 + index)
            codes.append(token)
        return text, torch.stack(codes, dim=1)
