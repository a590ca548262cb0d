"""The layers of a decoder with cross-attention, with few operations per decoded token.

At small batch sizes, a decoding step is bound by the number of operations. Here one product gives
queries, keys and values; keys and values are written at once, and modules are looked up once per
search. The weights are those of the Transformers module, which still trains and saves them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.backbones.decoding.alignment import Heads
from zoo.backbones.decoding.branches import LayerCache
from zoo.backbones.decoding.teacher_forcing import at_least_float32
from zoo.base.machine.weight_layout import Joined, Product, join_linear
from zoo.base.types import Frames


@dataclass(frozen=True, slots=True)
class Family:
    """Attribute names and options of one Transformers decoder class.

    All supported classes apply layer norm before each block.

    Attributes:
        cross: Attribute name of the cross-attention in a layer.
        cross_norm: Attribute name of the layer norm before the cross-attention.
        ffn_norm: Attribute name of the layer norm before the feed-forward block.
        self_norm: Attribute name of the layer norm before the self-attention.
        output: Attribute name of the output projection of an attention.
        last_norm: Attribute name of the layer norm after the last layer.
        scaled: Whether token embeddings are scaled outside the embedding module.
        positions: Kind of the position embeddings.
            growing: a table of sines that is extended for late positions; positions count from the
            padding id + 1.
            learned: a table of fixed length; positions count from 0.
            sines: a table of sines of fixed length, with a layer norm after the sum of token and
            position embeddings; positions count from 0.
    """

    cross: str
    cross_norm: str
    ffn_norm: str
    self_norm: str = "self_attn_layer_norm"
    output: str = "out_proj"
    last_norm: str = "layer_norm"
    scaled: bool = False
    positions: Literal["growing", "learned", "sines"] = "growing"


FAMILIES = {
    "Speech2TextDecoder": Family(
        "encoder_attn", "encoder_attn_layer_norm", "final_layer_norm", scaled=True
    ),
    "WhisperDecoder": Family(
        "encoder_attn", "encoder_attn_layer_norm", "final_layer_norm", positions="learned"
    ),
    "SeamlessM4TDecoder": Family("cross_attention", "cross_attention_layer_norm", "ffn_layer_norm"),
    "SeamlessM4Tv2Decoder": Family(
        "cross_attention", "cross_attention_layer_norm", "ffn_layer_norm"
    ),
    "CanaryDecoder": Family(
        "encoder_attn",
        "post_attention_layernorm",
        "final_layernorm",
        self_norm="input_layernorm",
        output="o_proj",
        last_norm="norm",
        positions="sines",
    ),
}


@dataclass(frozen=True, slots=True)
class CrossMemory:
    """Cross-attention keys and values of the encoder output, padded on the right.

    Attributes:
        keys: One tensor (streams, heads, frames, head size) per layer.
        values: One tensor (streams, heads, frames, head size) per layer.
        mask: (streams, 1, 1, frames) added to the scores, -inf in padding. None if no stream is
            padded.
    """

    keys: Sequence[Tensor]
    values: Sequence[Tensor]
    mask: Tensor | None

    def first(self, streams: int) -> "CrossMemory":
        """Return views of the first streams."""
        return CrossMemory(
            keys=[layer[:streams] for layer in self.keys],
            values=[layer[:streams] for layer in self.values],
            mask=None if self.mask is None else self.mask[:streams],
        )

    def exchange(self, indices: Sequence[int], others: Sequence[int]) -> None:
        """Exchange the streams with these indices for those with the indices ``others``."""
        masks = [] if self.mask is None else [self.mask]
        for tensor in [*self.keys, *self.values, *masks]:
            tensor[[*indices, *others]] = tensor[[*others, *indices]]


@dataclass(frozen=True, slots=True)
class KnownFrames:
    """Last frames of an encoder output, whose cross-attention keys and values are known.

    Attributes:
        first: Index of the first of these frames in the encoder output.
        memory: Keys and values (1, heads, frames, head size) of a whole encoder output; those
            before ``first`` are not of this one.
    """

    first: Frames
    memory: CrossMemory


class DecoderLayer:
    """One layer, with its products and norms as they are now.

    Attributes:
        number: Index of the layer.
        heads: Number of attention heads.
        records: Whether cross-attention weights are computed.
        recorded: Indices of the heads whose weights are computed; None: all heads, in order.
    """

    def __init__(
        self, layer: Any, family: Family, *, number: int, head_count: int, heads: Heads
    ) -> None:
        """Look up the modules of a layer.

        Args:
            layer: Layer of Transformers.
            family: Names of its modules.
            number: Index of the layer.
            head_count: Number of its heads.
            heads: Heads whose cross-attention weights are returned, by layer index.
        """
        attention, cross_attention = layer.self_attn, getattr(layer, family.cross)
        self.number = number
        self.heads = head_count
        self.records = number in heads
        recorded = heads.get(number)
        is_all = recorded is not None and [*recorded] == [*range(head_count)]
        self.recorded = None if is_all else recorded
        self.self_norm = normalisation(getattr(layer, family.self_norm))
        self.qkv = join_linear([attention.q_proj, attention.k_proj, attention.v_proj])
        self.self_scale = attention.scaling
        self.self_output = product(getattr(attention, family.output))
        self.cross_norm = normalisation(getattr(layer, family.cross_norm))
        self.query = product(cross_attention.q_proj)
        self.cross_scale = cross_attention.scaling
        self.cross_output = product(getattr(cross_attention, family.output))
        # the feed-forward block is a module of the layer, or two linear layers
        block = getattr(layer, "ffn", None) or getattr(layer, "mlp", None) or layer
        self.ffn_norm = normalisation(getattr(layer, family.ffn_norm))
        self.widen = product(block.fc1)
        self.activation = block.act if hasattr(block, "act") else block.activation_fn
        self.narrow = product(block.fc2)

    def __call__(
        self, hidden: Tensor, mask: Tensor, cache: LayerCache, memory: CrossMemory
    ) -> tuple[Tensor, Tensor | None]:
        """Run the layer over new positions and write their keys and values to the cache.

        Args:
            hidden: (streams, new, width).
            mask: (streams, 1, new, cached + new) added to the scores of the self-attention.
            cache: Keys and values of this layer.
            memory: Cross-attention keys and values.

        Returns:
            Hidden states after the layer, and cross-attention weights (streams, new, heads,
            frames) or None.
        """
        streams, new, _ = hidden.shape
        qkv = self.qkv(self.self_norm(hidden)).view(streams, new, 3, self.heads, -1)
        qkv = qkv.permute(2, 0, 3, 1, 4)  # (3, streams, heads, new, head size)
        cache.write(qkv[1:])
        attended = F.scaled_dot_product_attention(
            qkv[0], cache.keys, cache.values, attn_mask=mask, scale=self.self_scale
        )
        hidden = hidden + self.self_output(attended.transpose(1, 2).flatten(2))

        query = self.query(self.cross_norm(hidden)).view(streams, new, self.heads, -1)
        query = query.transpose(1, 2)
        keys, values = memory.keys[self.number], memory.values[self.number]
        cross_weights = None
        if self.records:
            cross_weights = weights(query, keys, memory.mask, self.cross_scale, self.recorded)
        attended = F.scaled_dot_product_attention(
            query, keys, values, attn_mask=memory.mask, scale=self.cross_scale
        )
        hidden = hidden + self.cross_output(attended.transpose(1, 2).flatten(2))
        widened = self.activation(self.widen(self.ffn_norm(hidden)))
        return hidden + self.narrow(widened), cross_weights


def split_heads(hidden: Tensor, heads: int) -> Tensor:
    """Reshape (streams, positions, width) to (streams, heads, positions, head size)."""
    split: Tensor = hidden.unflatten(2, (heads, -1))
    return split.transpose(1, 2)


def append_known(computed: Tensor, known: Mapping[int, tuple[Frames, Tensor]]) -> Tensor:
    """Return keys or values of one layer for all frames of each encoder output.

    Args:
        computed: (streams, heads, frames, head size) of the frames that are not known, padded.
        known: First known frame, and values (1, heads, frames, head size) of a whole output, by
            stream.
    """
    streams, heads, frames, size = computed.shape
    longest = max(frames, *(values.shape[2] for _, values in known.values()))
    complete = computed.new_zeros(streams, heads, longest, size)
    complete[:, :, :frames] = computed
    for stream, (first, values) in known.items():
        complete[stream, :, first : values.shape[2]] = values[0, :, first:]
    return complete


def product(linear: nn.Module) -> Product:
    """Return the product of a linear layer, without the calls of a module where it is plain."""
    if type(linear) is not nn.Linear or not is_plain(linear):
        return linear
    return Joined(linear.weight.detach(), linear.bias)


def normalisation(norm: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return the function of a norm, without the calls of a module where it is plain."""
    if type(norm) is not nn.LayerNorm or not is_plain(norm):
        return norm
    return partial(
        torch.layer_norm,
        normalized_shape=norm.normalized_shape,
        weight=norm.weight,
        bias=norm.bias,
        eps=norm.eps,
    )


def is_plain(module: nn.Linear | nn.LayerNorm) -> bool:
    """Whether a module has its weight, and no strategy or user acts when it is called."""
    hooks = module._forward_pre_hooks or module._forward_hooks
    return not hooks and type(module.weight.data) is Tensor


def weights(
    query: Tensor, keys: Tensor, mask: Tensor | None, scale: float, heads: Sequence[int] | None
) -> Tensor:
    """Compute cross-attention weights, at least in float32.

    Args:
        query: (streams, heads, new, head size).
        keys: (streams, heads, frames, head size).
        mask: (streams, 1, 1, frames) added to the scores. None if no stream is padded.
        scale: Factor on the query.
        heads: Indices of n heads. None selects all heads.

    Returns:
        (streams, new, heads, frames) weights of the selected heads.
    """
    query, keys = query * scale, keys.transpose(2, 3)
    if heads is None:
        scores = query @ keys
    else:  # by head, because an index of several heads would copy their keys in every step
        scores = torch.stack([query[:, head] @ keys[:, head] for head in heads], dim=1)
    scores = at_least_float32(scores)
    if mask is not None:
        scores = scores + mask
    return scores.softmax(dim=-1).transpose(1, 2)
