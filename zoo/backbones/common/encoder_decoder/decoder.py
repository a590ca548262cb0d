"""Transformers' decoders with cross-attention, run layer by layer.

``forward`` of a Transformers decoder derives positions from the length of the cache, and returns
attention weights of either all layers or no layer. Streaming needs explicit positions and masks,
because a batch contains streams of different lengths and several beams share one cached sequence.
The alignment needs the attention weights of a few heads only.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from zoo.backbones.common.alignment import Heads
from zoo.backbones.common.branches import ROOM, KeyValueCache, added_mask
from zoo.backbones.common.encoder_decoder.layers import FAMILIES, DecoderLayer, Memory
from zoo.backbones.common.teacher_forcing import IGNORED
from zoo.errors import ZooError


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

    def prepare(self, heads: Heads) -> list[DecoderLayer]:
        """Return the layers with their present weights, for the steps of one search.

        Args:
            heads: Heads whose cross-attention weights are returned, by layer index. No weights are
                computed for all other layers.
        """
        return [
            DecoderLayer(layer, self.family, number=number, head_count=self.heads, heads=heads)
            for number, layer in enumerate(self.layers)
        ]

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        visible: Tensor,
        *,
        cache: KeyValueCache,
        memory: Memory,
        layers: Sequence[DecoderLayer],
    ) -> tuple[Tensor, Tensor]:
        """Run the decoder over new tokens and append their keys and values to the cache.

        Args:
            ids: (streams, new) token ids.
            positions: (streams, new) position of each token in its text.
            visible: (streams, new, cached + new) bool self-attention mask of the new tokens.
            cache: Self-attention keys and values; written in place.
            memory: Cross-attention keys and values.
            layers: Result of ``prepare``.

        Returns:
            Hidden states (streams, new, width), and attention weights (streams, new, heads, frames)
            whose heads are ordered by layer.
        """
        new = ids.shape[1]
        hidden = self._embed(ids, positions, room=cache.length + new)
        mask = added_mask(visible[:, None], hidden.dtype)
        recorded: list[Tensor] = []
        for layer, own in zip(layers, cache.layers(new), strict=True):
            hidden, found = layer(hidden, mask, own, memory)
            if found is not None:
                recorded.append(found)
        cache.length += new
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

    def _split(self, hidden: Tensor) -> Tensor:
        """Reshape (streams, positions, width) to (streams, heads, positions, head size)."""
        heads: Tensor = hidden.unflatten(2, (self.heads, -1))
        return heads.transpose(1, 2)
