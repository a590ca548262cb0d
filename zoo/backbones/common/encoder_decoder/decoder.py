"""Transformers' decoders for speech, layer by layer: any positions, any mask, caches of ours. Knows no stream.

Their own ``forward`` derives positions from the length of the cache and keeps attention weights of all layers or none;
streams of different lengths, beams that are branches of one sequence and one layer's weights need more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.backbones.common.alignment import Heads
from zoo.errors import ZooError

ROOM = 64  # positions


@dataclass(frozen=True, slots=True)
class Family:
    """Names and habits of a decoder's modules; all of them normalise before each block.

    scaled: its embeddings are multiplied outside the embedding module. learned: positions have a learned table, from
    0; otherwise sines, from the padding id + 1.
    """

    cross: str
    cross_norm: str
    ffn_norm: str
    scaled: bool = False
    learned: bool = False


FAMILIES = {
    "Speech2TextDecoder": Family(
        "encoder_attn", "encoder_attn_layer_norm", "final_layer_norm", scaled=True
    ),
    "WhisperDecoder": Family(
        "encoder_attn", "encoder_attn_layer_norm", "final_layer_norm", learned=True
    ),
    "SeamlessM4TDecoder": Family("cross_attention", "cross_attention_layer_norm", "ffn_layer_norm"),
    "SeamlessM4Tv2Decoder": Family(
        "cross_attention", "cross_attention_layer_norm", "ffn_layer_norm"
    ),
}


class Cache:
    """Keys and values of the text so far; what is new is written in place.

    data: (layers, 2, streams, heads, room, head size), of which the first ``length`` positions are in use.
    """

    def __init__(self, decoder: "Decoder", *, streams: int, room: int) -> None:
        weight = decoder.head.weight
        shape = (
            decoder.depth,
            2,
            streams,
            decoder.heads,
            room + ROOM,
            decoder.width // decoder.heads,
        )
        self.data = weight.new_zeros(shape)
        self.length = 0

    def reserve(self, new: int) -> None:
        """Make room for ``new`` more positions."""
        if self.length + new > self.data.shape[4]:
            self.data = F.pad(self.data, (0, 0, 0, new + max(ROOM, self.length // 4)))

    def write(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write (streams, heads, new, head size) behind what is in use; all keys and values of the layer."""
        end = self.length + key.shape[2]
        keys, values = self.data[layer, :, :, :, :end]
        keys[:, :, self.length :] = key
        values[:, :, self.length :] = value
        return keys, values


@dataclass(frozen=True, slots=True)
class Memory:
    """What the cross-attention of each layer reads: (streams, heads, frames, head size), padded on the right.

    visible: (streams, 1, 1, frames) bool, or None where nothing is padded.
    """

    keys: Sequence[Tensor]
    values: Sequence[Tensor]
    visible: Tensor | None


class Decoder(nn.Module):
    """``module``: a decoder of Transformers. ``head``: its hidden states to scores of the vocabulary.

    For training, ``module`` and ``head`` run as Transformers runs them. Raises ZooError for a decoder of another kind.
    """

    module: Any

    def __init__(self, module: nn.Module, head: nn.Linear) -> None:
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
        self.heads = int(self.layers[0].self_attn.num_heads)
        self.width = int(self.layers[0].self_attn.embed_dim)

    @property
    def layers(self) -> Sequence[Any]:
        """The module's layers, first to last."""
        return cast("Sequence[Any]", self.module.layers)

    @property
    def room(self) -> int | None:
        """How many positions a text can have (None: any number)."""
        return int(self.module.embed_positions.weight.shape[0]) if self.family.learned else None

    def memorise(self, memories: Sequence[Tensor]) -> Memory:
        """Keys and values of encoder memories (frames, width), one per stream, once for all that is said about them."""
        lengths = torch.tensor([len(memory) for memory in memories], device=memories[0].device)
        padded = nn.utils.rnn.pad_sequence(list(memories), batch_first=True).to(
            self.head.weight.dtype
        )
        visible = torch.arange(padded.shape[1], device=padded.device) < lengths[:, None]
        attentions = [getattr(layer, self.family.cross) for layer in self.layers]
        return Memory(
            keys=[self._split(attention.k_proj(padded)) for attention in attentions],
            values=[self._split(attention.v_proj(padded)) for attention in attentions],
            visible=None if bool(visible.all()) else visible[:, None, None],
        )

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        visible: Tensor,
        *,
        cache: Cache,
        memory: Memory,
        heads: Heads,
    ) -> tuple[Tensor, Tensor]:
        """Append tokens to the cache: their hidden states (streams, new, width) and what ``heads`` look at.

        ids, positions: (streams, new). visible: (streams, new, keys) bool, which of the cached and new positions each
        one sees. heads: whose cross-attention is told, as (streams, new, heads, frames), layer by layer; those of no
        layer cost nothing.
        """
        cache.reserve(ids.shape[1])
        hidden = self._embed(ids, positions)
        looked: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            hidden = hidden + self._attend_text(number, layer, hidden, visible[:, None], cache)
            normed = getattr(layer, self.family.cross_norm)(hidden)
            attention = getattr(layer, self.family.cross)
            query = self._split(attention.q_proj(normed))
            if number in heads:
                looked.append(
                    weights(
                        query, memory.keys[number], memory.visible, attention.scaling, heads[number]
                    )
                )
            attended = F.scaled_dot_product_attention(
                query,
                memory.keys[number],
                memory.values[number],
                attn_mask=memory.visible,
                scale=attention.scaling,
            )
            hidden = hidden + attention.out_proj(self._merge(attended))
            hidden = hidden + self._transform(layer, getattr(layer, self.family.ffn_norm)(hidden))
        cache.length += ids.shape[1]
        hidden = self.module.layer_norm(hidden)
        return hidden, torch.cat(looked, dim=2) if looked else hidden.new_zeros(*ids.shape, 0, 0)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """(..., vocabulary), at least in float32."""
        logits: Tensor = self.head(hidden)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        embeddings: Tensor = self.module.embed_tokens(ids)
        if self.family.scaled:
            embeddings = embeddings * self.module.embed_scale
        return embeddings + self._table(positions)

    def _table(self, positions: Tensor) -> Tensor:
        """Embeddings of positions from 0 on; a table of sines grows where it is too short."""
        table = self.module.embed_positions
        if self.family.learned:
            return torch.as_tensor(table.weight[positions])
        places = positions + table.padding_idx + 1
        most = int(places.max()) + 1
        if most > len(table.weights):
            with torch.inference_mode(False):
                table.make_weights(most + ROOM, table.embedding_dim, table.padding_idx)
        return torch.as_tensor(table.weights[places])

    def _attend_text(
        self, number: int, layer: Any, hidden: Tensor, visible: Tensor, cache: Cache
    ) -> Tensor:
        attention, normed = layer.self_attn, layer.self_attn_layer_norm(hidden)
        keys, values = cache.write(
            number, self._split(attention.k_proj(normed)), self._split(attention.v_proj(normed))
        )
        attended = F.scaled_dot_product_attention(
            self._split(attention.q_proj(normed)),
            keys,
            values,
            attn_mask=visible,
            scale=attention.scaling,
        )
        return torch.as_tensor(attention.out_proj(self._merge(attended)))

    def _transform(self, layer: Any, hidden: Tensor) -> Tensor:
        if hasattr(layer, "ffn"):
            return torch.as_tensor(layer.ffn(hidden))
        return torch.as_tensor(layer.fc2(layer.activation_fn(layer.fc1(hidden))))

    def _split(self, hidden: Tensor) -> Tensor:
        """(streams, positions, width) to (streams, heads, positions, head size)."""
        return hidden.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def _merge(self, attended: Tensor) -> Tensor:
        return attended.transpose(1, 2).flatten(2)


def weights(
    query: Tensor, keys: Tensor, visible: Tensor | None, scale: float, heads: Sequence[int] | None
) -> Tensor:
    """Attention weights (streams, new, heads, frames) of the chosen heads (None: all); at least in float32."""
    if heads is not None:
        chosen = torch.tensor(heads, device=query.device)
        query, keys = query[:, chosen], keys[:, chosen]
    scores = (query * scale) @ keys.transpose(2, 3)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return scores.softmax(dim=-1).transpose(1, 2)
