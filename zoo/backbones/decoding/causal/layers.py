"""The layers of a Llama-shaped causal LM with few operations per decoded token.

At small batch sizes, a decoding step is bound by the number of operations. Here one product gives
queries, keys and values, one gives the two halves of the feed-forward layer, residuals are added by
the products, and masks and rotary tables are prepared once per step. The weights are those of the
Transformers module, which still trains and saves them.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from zoo.backbones.decoding.branches import KeyValueCache
from zoo.backbones.decoding.causal.decoder import Recorder
from zoo.backbones.pretrained.lora import is_adapter
from zoo.base.machine.weight_layout import (
    Joined,
    PackedLinear,
    PackedWeight,
    Product,
    arrange_linear,
    can_pack,
    fits,
    join_linear,
    weight_state,
)

KINDS = {  # layers that differ only in the names and the number of their products
    f"{name}DecoderLayer"
    for name in ("Llama", "Mistral", "Qwen2", "Qwen3", "Phi3", "Phi4Multimodal", "Qwen2_5Omni")
}

KEPT = "_zoo_layers"  # attribute of a network that keeps its packed layers


def fast_layers(decoder: PreTrainedModel) -> "FastLayers | None":
    """Return the layers of a causal LM, for inference; None if it is not one of ``KINDS``.

    The layers that ``arrange`` keeps are returned as long as the weights do not change.
    """
    network: Any = decoder.model
    packed_layers: FastLayers | None = vars(network).get(KEPT)
    if packed_layers is not None and packed_layers.state == layer_state(network):
        return packed_layers
    if type(network.layers[0]).__name__ not in KINDS:
        return None
    # Older versions of Transformers combine the three positions of this LM in each layer.
    omni = "Omni" in type(network).__name__
    if omni and not hasattr(network.rotary_emb, "recomposition_frequencies"):
        return None
    return FastLayers(network)


def step_layers(decoder: Any) -> Iterator[nn.Module]:
    """Yield the modules of a causal LM with weights that every step reads, without adapters.

    Args:
        decoder: Causal LM with an attribute ``model``, and its output layer.
    """
    for layer in decoder.model.layers:
        for name, module in layer.named_modules():
            if not is_adapter(f"{name}."):
                yield module
    yield decoder.get_output_embeddings()


def arrange(backbone: nn.Module, decoder: PreTrainedModel) -> None:
    """Choose the layout of the weights of a backbone with a causal LM, see ``weight_layout``.

    Weights that the layers join get packed copies of their own, which are kept with the layers.
    """
    network: Any = decoder.model
    layers = fast_layers(decoder) if fits(backbone) else None
    if layers is None:
        arrange_linear(backbone)
        return
    if layers is not vars(network).get(KEPT):
        layers = FastLayers(network, packed=True)
        vars(network)[KEPT] = layers
    arrange_linear(backbone, packed=[linear for layer in layers.layers for linear in layer.packed])
    layers.state = layer_state(network)


def layer_state(network: Any) -> list[tuple[Any, ...]]:
    """Identify the values of the weights that ``FastLayers`` uses.

    This runs once per search, so it leaves out the encoders that the network of a speech LLM has.
    """
    return [*weight_state(network.layers), *weight_state(network.norm)]


class FastLayers:
    """Runs all layers and the last norm over new positions.

    The products are prepared at construction, so an instance lives as long as one search, or as its
    weights stay what they are.

    Attributes:
        state: State of the weights at construction.
    """

    def __init__(self, network: Any, *, packed: bool = False) -> None:
        """Join the products of each layer.

        Args:
            network: Causal LM without its output layer, a module of Transformers.
            packed: Whether large joined weights get a packed copy, see ``weight_layout``.
        """
        self.rotary = network.rotary_emb
        self.norm = network.norm
        self.layers = [FastLayer(layer, packed=packed) for layer in network.layers]
        self.state = layer_state(network)

    def __call__(
        self,
        embeddings: Tensor,
        positions: Tensor,
        mask: Tensor,
        cache: KeyValueCache,
        recorder: Recorder | None,
    ) -> Tensor:
        """Run the layers and write keys and values to the cache.

        Args:
            embeddings: (streams, new, width).
            positions: (streams, new) rotary positions.
            mask: (streams, 1, new, keys) added to the scores.
            cache: Keys and values of earlier positions.
            recorder: Recorder of attention weights, or None.

        Returns:
            (streams, new, width) hidden states after the last norm.
        """
        cos, sin = self.rotary(embeddings, position_ids=positions)  # (streams, new, rotated)
        half = sin.shape[-1] // 2
        # rotate_half(x) * sin = roll(x) * signed sin
        sin = torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)
        tables = cos[:, :, None], sin[:, :, None]  # (streams, new, 1, rotated)

        # The query heads that share a key-value head are folded into one head with more positions.
        groups = self.layers[0].groups
        folded = mask if groups == 1 else mask.repeat(1, 1, groups, 1)
        hidden = embeddings.flatten(0, 1)  # (streams x new, width)
        for layer in self.layers:
            hidden = layer(hidden, tables, mask, folded, cache, recorder)
        return rms_norm(self.norm, hidden).view(embeddings.shape)


class FastLayer:
    """One layer: self-attention and feed-forward block, each after a norm.

    Attributes:
        packed: Linear layers whose weights are part of a packed copy.
    """

    def __init__(self, layer: Any, *, packed: bool = False) -> None:
        """Join the products of a Transformers layer, in packed copies if wanted."""
        self.packed: list[nn.Module] = []
        attention, mlp = layer.self_attn, layer.mlp
        self.attention = attention
        self.groups = int(attention.num_key_value_groups)
        self.attention_norm = layer.input_layernorm
        self.mlp_norm = layer.post_attention_layernorm
        if hasattr(attention, "qkv_proj"):
            self.qkv: Product = attention.qkv_proj
        else:
            projections = [attention.q_proj, attention.k_proj, attention.v_proj]
            self.qkv = self._joined(projections, packed)
        if hasattr(mlp, "gate_up_proj"):
            self.gate_up: Product = mlp.gate_up_proj
        else:
            self.gate_up = self._joined([mlp.gate_proj, mlp.up_proj], packed)
        self.activation = mlp.act_fn if hasattr(mlp, "act_fn") else mlp.activation_fn
        self.down = mlp.down_proj

    def _joined(self, linears: Sequence[nn.Module], packed: bool) -> Product:
        """Return one product for linear layers, in a packed copy if wanted and possible."""
        product = join_linear(linears)
        if not packed or not isinstance(product, Joined) or not can_pack(product.weight):
            return product
        self.packed += linears
        copy, bias = PackedWeight(product.weight), product.bias
        return lambda inputs: copy.product(inputs, bias)

    def __call__(
        self,
        hidden: Tensor,
        tables: tuple[Tensor, Tensor],
        mask: Tensor,
        folded: Tensor,
        cache: KeyValueCache,
        recorder: Recorder | None,
    ) -> Tensor:
        """Return the hidden states after this layer.

        Args:
            hidden: (streams x new, width).
            tables: Cosines and signed sines, (streams, new, 1, rotated) each.
            mask: (streams, 1, new, keys) added to the scores.
            folded: (streams, 1, groups x new, keys) the same mask for folded query heads.
            cache: Keys and values, written in place.
            recorder: Recorder of attention weights, or None.
        """
        attention = self.attention
        streams, _, new, _ = mask.shape
        qkv = self.qkv(rms_norm(self.attention_norm, hidden))
        heads = qkv.view(streams, new, -1, attention.head_dim)
        shared = heads.shape[2] // (self.groups + 2)  # number of key heads, and of value heads
        rotated = rotate(self._normed(heads[:, :, :-shared], shared), *tables).transpose(1, 2)
        query, key = rotated[:, :-shared], rotated[:, -shared:]
        layer = cast("int", attention.layer_idx)
        keys, values = cache.update(key, heads[:, :, -shared:].transpose(1, 2), layer)
        if recorder is not None:
            recorder.record(layer, query, keys, mask, attention.scaling)
        attended = F.scaled_dot_product_attention(
            query.reshape(streams, shared, self.groups * new, -1),
            keys,
            values,
            attn_mask=folded,
            scale=attention.scaling,
        )
        attended = attended.view(query.shape).transpose(1, 2).reshape(len(hidden), -1)
        hidden = added(hidden, attention.o_proj, attended)

        gate, up = self.gate_up(rms_norm(self.mlp_norm, hidden)).chunk(2, dim=-1)
        return added(hidden, self.down, self.activation(gate) * up)

    def _normed(self, heads: Tensor, shared: int) -> Tensor:
        """Apply the norms of query and key heads (streams, new, heads, size), where there are."""
        if not hasattr(self.attention, "q_norm"):
            return heads
        query = rms_norm(self.attention.q_norm, heads[:, :, :-shared])
        key = rms_norm(self.attention.k_norm, heads[:, :, -shared:])
        return torch.cat([query, key], dim=2)


def rms_norm(norm: Any, hidden: Tensor) -> Tensor:
    """Apply an RMS norm of Transformers as one operation.

    In float64, Transformers' own norm is used: it computes in float32, and comparisons in float64
    are exact only if all forms of a network do.
    """
    if hidden.dtype == torch.float64:
        return torch.as_tensor(norm(hidden))
    return F.rms_norm(hidden, norm.weight.shape, norm.weight, norm.variance_epsilon)


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate heads to their positions.

    Args:
        heads: (streams, new, heads, size).
        cos: (streams, new, 1, rotated) cosines; only the first elements of a head are rotated if
            ``rotated`` is smaller than the size.
        sin: (streams, new, 1, rotated) sines, the first half negated.
    """
    size = cos.shape[-1]
    turned = heads[..., :size]
    rotated = torch.addcmul(turned * cos, turned.roll(size // 2, dims=-1), sin)
    if size == heads.shape[-1]:
        return rotated
    return torch.cat([rotated, heads[..., size:]], dim=-1)


def added(hidden: Tensor, linear: nn.Module, inputs: Tensor) -> Tensor:
    """Return ``hidden + linear(inputs)`` of (n, width) tensors."""
    if type(linear) is nn.Linear and linear.bias is None:
        return torch.addmm(hidden, inputs, linear.weight.T)
    if type(linear) is PackedLinear and linear.bias is None:
        return linear.packed.added(hidden, inputs)
    return torch.as_tensor(hidden + linear(inputs))
