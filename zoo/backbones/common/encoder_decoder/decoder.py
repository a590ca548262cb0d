"""Transformers' decoders with cross-attention, run layer by layer.

``forward`` of a Transformers decoder derives positions from the length of the cache, and returns
attention weights of either all layers or no layer. Streaming needs explicit positions and masks,
because a batch contains streams of different lengths and several beams share one cached sequence.
The alignment needs the attention weights of a few heads only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.backbones.common.alignment import Heads
from zoo.backbones.common.branches import ROOM, KeyValueCache
from zoo.backbones.common.teacher_forcing import IGNORED, at_least_float32
from zoo.errors import ZooError
from zoo.layout import Product, joined


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
class Memory:
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

    def first(self, streams: int) -> "Memory":
        """Return views of the first streams."""
        return Memory(
            keys=[layer[:streams] for layer in self.keys],
            values=[layer[:streams] for layer in self.values],
            mask=None if self.mask is None else self.mask[:streams],
        )

    def exchange(self, places: Sequence[int], others: Sequence[int]) -> None:
        """Exchange the streams at ``places`` for those at ``others``."""
        masks = [] if self.mask is None else [self.mask]
        for part in [*self.keys, *self.values, *masks]:
            part[[*places, *others]] = part[[*others, *places]]


class Decoder(nn.Module):
    """A decoder of Transformers with its output layer.

    ``forward`` decodes with a cache. ``teacher_forced`` runs training batches without a cache.

    Attributes:
        family: Attribute names and options of the decoder's class.
        module: Decoder module of Transformers.
        head: Output layer from hidden states to vocabulary logits.
        depth: Number of layers.
        heads: Number of attention heads per layer.
        width: Size of the hidden states.
    """

    module: Any

    def __init__(self, module: nn.Module, head: nn.Linear) -> None:
        """Wrap a decoder.

        Args:
            module: Decoder module of Transformers.
            head: Output layer from hidden states to vocabulary logits.

        Raises:
            ZooError: If the class of ``module`` is not in ``FAMILIES``.
        """
        super().__init__()
        kind = type(module).__name__
        if kind not in FAMILIES:
            raise ZooError(
                f"A {kind} does not fit as decoder; choose one of: {', '.join(FAMILIES)}."
            )
        self.family = FAMILIES[kind]
        self.module = module
        self.head = head
        self.depth = len(self.layers)
        attention = self.layers[0].self_attn
        self.heads = int(attention.q_proj.out_features) // int(attention.head_dim)
        self.width = int(attention.q_proj.in_features)

    @property
    def layers(self) -> Sequence[Any]:
        """Layers of the decoder, first to last."""
        return cast("Sequence[Any]", self.module.layers)

    @property
    def room(self) -> int | None:
        """Maximum number of decoder positions; None if the number is unlimited."""
        if self.family.positions == "growing":
            return None
        if self.family.positions == "sines":
            return int(self.module.pos_emb.length)
        return int(self.module.embed_positions.weight.shape[0])

    def cache(self, *, streams: int, room: int) -> KeyValueCache:
        """Create an empty key-value cache with space for ``room`` positions per stream."""
        size = self.width // self.heads
        shape = (self.depth, 2, streams, self.heads, room + ROOM, size)
        return KeyValueCache(self.head.weight.new_zeros(shape))

    def project_memories(self, memories: Sequence[Tensor]) -> Memory:
        """Compute the cross-attention keys and values of all layers.

        Args:
            memories: (frames, width) encoder output of each stream.
        """
        lengths = torch.tensor([len(memory) for memory in memories], device=memories[0].device)
        padded = nn.utils.rnn.pad_sequence(list(memories), batch_first=True).to(
            self.head.weight.dtype
        )
        visible = torch.arange(padded.shape[1], device=padded.device) < lengths[:, None]
        attentions = [getattr(layer, self.family.cross) for layer in self.layers]
        return Memory(
            keys=[self._split(attention.k_proj(padded)) for attention in attentions],
            values=[self._split(attention.v_proj(padded)) for attention in attentions],
            mask=None if bool(visible.all()) else added_mask(visible[:, None, None], padded.dtype),
        )

    def projections(self) -> list[Product]:
        """Return, for each layer, one product for queries, keys and values of the self-attention.

        They are those of the present weights.
        """
        attentions = [layer.self_attn for layer in self.layers]
        return [joined([one.q_proj, one.k_proj, one.v_proj]) for one in attentions]

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        visible: Tensor,
        *,
        cache: KeyValueCache,
        memory: Memory,
        projections: Sequence[Product],
        heads: Heads,
    ) -> tuple[Tensor, Tensor]:
        """Run the decoder over new tokens and append their keys and values to the cache.

        Args:
            ids: (streams, new) token ids.
            positions: (streams, new) position of each token in its text.
            visible: (streams, new, cached + new) bool self-attention mask of the new tokens.
            cache: Self-attention keys and values; written in place.
            memory: Cross-attention keys and values.
            projections: Result of ``projections``.
            heads: Heads whose cross-attention weights are returned, by layer index. No weights are
                computed for all other layers.

        Returns:
            Hidden states (streams, new, width), and attention weights (streams, new, heads, frames)
            whose heads are ordered by layer.
        """
        cache.reserve(ids.shape[1])
        hidden = self._embed(ids, positions, room=cache.length + ids.shape[1])
        mask = added_mask(visible[:, None], hidden.dtype)
        recorded: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            inputs = projections[number](getattr(layer, self.family.self_norm)(hidden))
            hidden = hidden + self._attend_text(number, layer.self_attn, inputs, mask, cache)
            normed = getattr(layer, self.family.cross_norm)(hidden)
            attention = getattr(layer, self.family.cross)
            query = self._split(attention.q_proj(normed))
            if number in heads:
                keys = memory.keys[number]
                recorded.append(weights(query, keys, memory.mask, attention.scaling, heads[number]))
            attended = F.scaled_dot_product_attention(
                query,
                memory.keys[number],
                memory.values[number],
                attn_mask=memory.mask,
                scale=attention.scaling,
            )
            hidden = hidden + getattr(attention, self.family.output)(self._merge(attended))
            hidden = hidden + self._transform(layer, getattr(layer, self.family.ffn_norm)(hidden))
        cache.length += ids.shape[1]
        hidden = getattr(self.module, self.family.last_norm)(hidden)
        if not recorded:
            return hidden, hidden.new_zeros(*ids.shape, 0, 0)
        return hidden, torch.cat(recorded, dim=2)

    def teacher_forced(
        self, inputs: Tensor, labels: Tensor, memory: Tensor, memory_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Run the Transformers decoder over whole texts for training, without a cache.

        Args:
            inputs: (batch, T) input ids.
            labels: (batch, T) labels. Label t is the id that follows input t, or ``IGNORED``.
            memory: (batch, frames, width) encoder output.
            memory_mask: (batch, frames) int64 mask: 1 for encoder frames, 0 for padding.

        Returns:
            Logits (n, vocabulary) and labels (n,) of the labelled positions.
        """
        states = self.module(
            input_ids=inputs,
            encoder_hidden_states=memory,
            encoder_attention_mask=memory_mask,
            use_cache=False,
        ).last_hidden_state
        labelled = labels != IGNORED
        return self.head(states[labelled]), labels[labelled]

    def _embed(self, ids: Tensor, positions: Tensor, *, room: int) -> Tensor:
        """Return token plus position embeddings (streams, new, width); positions < ``room``."""
        embeddings: Tensor = self.module.embed_tokens(ids)
        if self.family.scaled:
            embeddings = embeddings * self.module.embed_scale
        if self.family.positions == "sines":
            sines = self.module.pos_emb(positions).to(embeddings)
            return torch.as_tensor(self.module.embedding_layernorm(embeddings + sines))
        return embeddings + self._embed_positions(positions, room)

    def _embed_positions(self, positions: Tensor, room: int) -> Tensor:
        """Return position embeddings; a growing table is extended to ``room`` positions."""
        table = self.module.embed_positions
        if self.family.positions == "learned":
            return torch.as_tensor(table.weight[positions])
        indices = positions + table.padding_idx + 1
        needed_length = room + table.padding_idx + 1
        if needed_length > len(table.weights):
            with torch.inference_mode(False):
                table.make_weights(needed_length + ROOM, table.embedding_dim, table.padding_idx)
        return torch.as_tensor(table.weights[indices])

    def _attend_text(
        self, number: int, attention: Any, inputs: Tensor, mask: Tensor, cache: KeyValueCache
    ) -> Tensor:
        """Causal self-attention of layer ``number`` over cached and new positions.

        Args:
            number: Index of the layer.
            attention: Its self-attention.
            inputs: (streams, new, 3 x width) queries, keys and values side by side.
            mask: (streams, 1, new, cached + new) added to the scores.
            cache: Keys and values; written in place.
        """
        query, key, value = map(self._split, inputs.chunk(3, dim=-1))
        keys, values = cache.update(key, value, number)
        attended = F.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, scale=attention.scaling
        )
        return torch.as_tensor(getattr(attention, self.family.output)(self._merge(attended)))

    def _transform(self, layer: Any, hidden: Tensor) -> Tensor:
        """Apply the feed-forward block, which is a module of the layer or two linear layers."""
        for name in ("ffn", "mlp"):
            if hasattr(layer, name):
                return torch.as_tensor(getattr(layer, name)(hidden))
        return torch.as_tensor(layer.fc2(layer.activation_fn(layer.fc1(hidden))))

    def _split(self, hidden: Tensor) -> Tensor:
        """Reshape (streams, positions, width) to (streams, heads, positions, head size)."""
        heads: Tensor = hidden.unflatten(2, (self.heads, -1))
        return heads.transpose(1, 2)

    def _merge(self, attended: Tensor) -> Tensor:
        """Reshape (streams, heads, positions, head size) to (streams, positions, width)."""
        return attended.transpose(1, 2).flatten(2)


def added_mask(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask that is added to scores: 0 where a bool mask is True, -inf elsewhere."""
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return mask.masked_fill_(~visible, -torch.inf)


def weights(
    query: Tensor, keys: Tensor, mask: Tensor | None, scale: float, heads: Sequence[int] | None
) -> Tensor:
    """Compute cross-attention weights, at least in float32.

    Args:
        query: (streams, heads, new, head size).
        keys: (streams, heads, frames, head size).
        mask: (streams, 1, 1, frames) added to the scores. None if no stream is padded.
        scale: Factor on the query.
        heads: Indices of the heads. None selects all heads.

    Returns:
        (streams, new, heads, frames) weights of the selected heads.
    """
    if heads is not None:
        chosen = torch.tensor(heads, device=query.device)
        query, keys = query[:, chosen], keys[:, chosen]
    scores = (query * scale) @ keys.transpose(2, 3)
    scores = at_least_float32(scores)
    if mask is not None:
        scores = scores + mask
    return scores.softmax(dim=-1).transpose(1, 2)
