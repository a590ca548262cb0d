"""Transformers' decoders with cross-attention, run layer by layer.

Their own ``forward`` derives positions from the length of the cache and returns attention weights
of all layers or of none. Streams of different lengths and beams that are branches of one sequence
need explicit positions and masks, and alignment needs the weights of a few heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.backbones.common.alignment import Heads
from zoo.backbones.common.branches import ROOM, KeyValueCache
from zoo.backbones.common.teacher_forcing import IGNORED, at_least_float32
from zoo.errors import ZooError


@dataclass(frozen=True, slots=True)
class Family:
    """How a decoder of Transformers differs from the others; all normalise before each block.

    Attributes:
        cross: Name of a layer's cross-attention.
        cross_norm: Name of the layer norm before the cross-attention.
        ffn_norm: Name of the layer norm before the feed-forward block.
        scaled: Whether embeddings are scaled outside the embedding module.
        learned: Whether positions have a learned table, from 0; otherwise they are sinusoids, from
            the padding id + 1.
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


@dataclass(frozen=True, slots=True)
class Memory:
    """Keys and values of the cross-attention, padded on the right.

    Attributes:
        keys: Per layer (streams, heads, frames, head size).
        values: Per layer (streams, heads, frames, head size).
        visible: (streams, 1, 1, frames) bool, or None without padding.
    """

    keys: Sequence[Tensor]
    values: Sequence[Tensor]
    visible: Tensor | None


class Decoder(nn.Module):
    """A decoder of Transformers and its output layer.

    Training calls ``module`` and ``head`` directly.

    Attributes:
        module: The decoder of Transformers.
        head: Hidden states to logits of the vocabulary.
        depth: Number of layers.
        heads: Attention heads per layer.
        width: Size of hidden states.
    """

    module: Any

    def __init__(self, module: nn.Module, head: nn.Linear) -> None:
        """Raises ZooError for a decoder that is not in ``FAMILIES``."""
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
        """Most positions of a text (None: any number)."""
        return int(self.module.embed_positions.weight.shape[0]) if self.family.learned else None

    def cache(self, *, streams: int, room: int) -> KeyValueCache:
        """An empty cache for so many streams, with room for ``room`` positions."""
        size = self.width // self.heads
        shape = (self.depth, 2, streams, self.heads, room + ROOM, size)
        return KeyValueCache(self.head.weight.new_zeros(shape))

    def project_memories(self, memories: Sequence[Tensor]) -> Memory:
        """Keys and values of encoder memories (frames, width), one per stream."""
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
        cache: KeyValueCache,
        memory: Memory,
        heads: Heads,
    ) -> tuple[Tensor, Tensor]:
        """Append tokens to the cache.

        Args:
            ids: (streams, new).
            positions: (streams, new).
            visible: (streams, new, cached + new) bool, the positions that each new one attends to.
            cache: Keys and values of the text; written in place.
            memory: Keys and values of the encoder's frames.
            heads: Per layer the heads whose cross-attention is returned; other layers compute no
                weights.

        Returns:
            Hidden states (streams, new, width) and attention weights (streams, new, heads, frames)
            of ``heads``, layer by layer.
        """
        cache.reserve(ids.shape[1])
        hidden = self._embed(ids, positions)
        recorded: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            hidden = hidden + self._attend_text(number, layer, hidden, visible[:, None], cache)
            normed = getattr(layer, self.family.cross_norm)(hidden)
            attention = getattr(layer, self.family.cross)
            query = self._split(attention.q_proj(normed))
            if number in heads:
                recorded.append(
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
        return hidden, torch.cat(recorded, dim=2) if recorded else hidden.new_zeros(
            *ids.shape, 0, 0
        )

    def teacher_forced(
        self, inputs: Tensor, labels: Tensor, memory: Tensor, inside: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Run Transformers' own decoder over whole texts.

        Args:
            inputs: (batch, T) ids.
            labels: (batch, T), the id that each input predicts, or ``IGNORED``.
            memory: (batch, frames, width).
            inside: (batch, frames) int64, 0 in padding.

        Returns:
            Logits (n, vocabulary) and labels (n,) of the labelled positions.
        """
        states = self.module(
            input_ids=inputs,
            encoder_hidden_states=memory,
            encoder_attention_mask=inside,
            use_cache=False,
        ).last_hidden_state
        labelled = labels != IGNORED
        return self.head(states[labelled]), labels[labelled]

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        embeddings: Tensor = self.module.embed_tokens(ids)
        if self.family.scaled:
            embeddings = embeddings * self.module.embed_scale
        return embeddings + self._table(positions)

    def _table(self, positions: Tensor) -> Tensor:
        """Embeddings of positions; a table of sinusoids grows when it is too short."""
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
        self, number: int, layer: Any, hidden: Tensor, visible: Tensor, cache: KeyValueCache
    ) -> Tensor:
        attention, normed = layer.self_attn, layer.self_attn_layer_norm(hidden)
        keys, values = cache.update(
            self._split(attention.k_proj(normed)), self._split(attention.v_proj(normed)), number
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
    """Attention weights (streams, new, heads, frames) of ``heads`` (None: all), at least in
    float32.
    """
    if heads is not None:
        chosen = torch.tensor(heads, device=query.device)
        query, keys = query[:, chosen], keys[:, chosen]
    scores = (query * scale) @ keys.transpose(2, 3)
    scores = at_least_float32(scores)
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return scores.softmax(dim=-1).transpose(1, 2)
