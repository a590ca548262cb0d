"""Transformers' decoders with cross-attention, run layer by layer.

``forward`` of a Transformers decoder derives positions from the length of the cache, and returns
attention weights of either all layers or no layer. Streaming needs explicit positions and masks,
because a batch contains streams of different lengths and several beams share one cached sequence.
The alignment needs the attention weights of a few heads only.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from zoo.backbones.architectures.encoder_decoder.layers import (
    FAMILIES,
    CrossMemory,
    DecoderLayer,
    KnownFrames,
    append_known,
    split_heads,
)
from zoo.backbones.decoding.alignment import Heads
from zoo.backbones.decoding.branches import ROOM, KeyValueCache, added_mask
from zoo.backbones.decoding.static_memory import StaticMemory, rounded_up
from zoo.backbones.decoding.static_steps import StaticSteps, Stepped
from zoo.backbones.decoding.teacher_forcing import IGNORED
from zoo.base.errors import ZooError


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
    def embedding_weight(self) -> Tensor:
        """Weight of the embedding, which always has the device and the type of activations."""
        return torch.as_tensor(self.module.embed_tokens.weight)

    def step_layers(self) -> Iterator[nn.Module]:
        """Yield the modules with weights that every step reads.

        Keys and values of the cross-attention are projected once per search, for many frames.
        """
        for layer in self.layers:
            cross = getattr(layer, self.family.cross)
            once = (cross.k_proj, cross.v_proj)
            yield from (module for module in layer.modules() if module not in once)
        yield self.head

    @property
    def room(self) -> int | None:
        """Maximum number of decoder positions; None if the number is unlimited."""
        if self.family.positions == "growing":
            return None
        if self.family.positions == "sines":
            return int(self.module.pos_emb.length)
        return int(self.module.embed_positions.weight.shape[0])

    def cache(self, *, streams: int, room: int, steps: StaticSteps | None = None) -> KeyValueCache:
        """Create an empty key-value cache.

        Args:
            streams: Number of streams.
            room: Number of positions per stream for which there is space.
            steps: Provides the memory of static steps. None: the cache gets memory of its own.
        """
        shape = self._cache_shape(streams, room + ROOM)
        if steps is None:
            return KeyValueCache(self.embedding_weight.new_zeros(shape))
        cache = steps.cache(self, shape, self.embedding_weight)
        cache.data.zero_()  # a static step multiplies all positions, and 0 x NaN is NaN
        return cache

    def project_memories(
        self,
        memories: Sequence[Tensor],
        steps: StaticSteps | None = None,
        known: Sequence[KnownFrames | None] | None = None,
    ) -> CrossMemory:
        """Compute the cross-attention keys and values of all layers.

        Args:
            memories: (frames, width) encoder output of each stream.
            steps: Static steps that hold the cache of the search, and provide static memory. None:
                the keys and values get memory of their own.
            known: Last frames of each encoder output whose keys and values are known. None: none.
        """
        known = known or [None] * len(memories)
        lengths = [len(memory) for memory in memories]
        ends = torch.tensor(lengths, device=memories[0].device)
        visible = torch.arange(max(lengths), device=ends.device) < ends[:, None]
        dtype = self.embedding_weight.dtype
        mask = None if bool(visible.all()) else added_mask(visible[:, None, None], dtype)
        unknown = [
            memory[: one.first] if one else memory
            for memory, one in zip(memories, known, strict=True)
        ]
        padded = nn.utils.rnn.pad_sequence(unknown, batch_first=True).to(dtype)
        projected = self._project(padded, known)
        if steps is None:
            keys, values = zip(*projected, strict=True)
            return CrossMemory(keys, values, mask)
        return self._in_static_memory(projected, mask, visible.shape, steps.memory)

    def _project(
        self, padded: Tensor, known: Sequence[KnownFrames | None]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield keys and values (streams, heads, frames, head size) of each layer.

        Args:
            padded: (streams, frames, width) encoder outputs before the known frames.
            known: Known frames after them.
        """
        for number, layer in enumerate(self.layers):
            attention = getattr(layer, self.family.cross)
            # Stored by head: steps read one head after the other, which takes twice as long if
            # the frames of a head lie apart in memory.
            keys = split_heads(attention.k_proj(padded), self.heads).contiguous()
            values = split_heads(attention.v_proj(padded), self.heads).contiguous()
            if any(known):
                rows = [(row, one) for row, one in enumerate(known) if one is not None]
                keys = append_known(
                    keys, {row: (one.first, one.memory.keys[number]) for row, one in rows}
                )
                values = append_known(
                    values, {row: (one.first, one.memory.values[number]) for row, one in rows}
                )
            yield keys, values

    def _in_static_memory(
        self,
        projected: Iterable[tuple[Tensor, Tensor]],
        mask: Tensor | None,
        shape: Sequence[int],
        memory: StaticMemory,
    ) -> CrossMemory:
        """Write cross-attention keys and values to static memory of a rounded number of frames.

        Args:
            projected: Keys and values (streams, heads, frames, head size) of each layer.
            mask: Mask of the frames; see ``CrossMemory``.
            shape: Number of streams and of frames.
            memory: Provides the memory.

        Returns:
            Views of the memory, with a mask that excludes the added frames.
        """
        streams, frames = shape
        room, like = rounded_up(frames), self.embedding_weight
        data = memory.region("source", self._cache_shape(streams, room), like)[..., :room, :]
        data[..., frames:, :] = 0  # masked positions are multiplied by 0, and 0 x NaN is NaN
        for layer, (key, value) in zip(data, projected, strict=True):
            layer[0, :, :, :frames] = key
            layer[1, :, :, :frames] = value
        masks = memory.region("source mask", (1, 1, streams, 1, room, 1), like)
        static_mask = masks[0, 0, :, :, None, :room, 0]  # (streams, 1, 1, room)
        static_mask[..., :frames] = 0 if mask is None else mask
        static_mask[..., frames:] = -torch.inf
        return CrossMemory(keys=list(data[:, 0]), values=list(data[:, 1]), mask=static_mask)

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
        memory: CrossMemory,
        layers: Sequence[DecoderLayer],
    ) -> Stepped:
        """Run the decoder over new tokens and write their keys and values to the cache.

        Args:
            ids: (streams, new) token ids.
            positions: (streams, new) position of each token in its text.
            visible: (streams, new, cached + new) bool self-attention mask of the new tokens.
            cache: Self-attention keys and values; written in place, its ``length`` is unchanged.
            memory: Cross-attention keys and values.
            layers: Result of ``prepare``.

        Returns:
            Hidden states (streams, new, width), and attention weights (streams, new, heads, frames)
            whose heads are ordered by layer; without recorded heads, weights of 0 frames.
        """
        mask = added_mask(visible[:, None], cache.data.dtype)
        table = self.position_table(cache.length + ids.shape[1])
        return self.run(
            ids, positions, mask, table=table, cache=cache, memory=memory, layers=layers
        )

    def run(
        self,
        ids: Tensor,
        positions: Tensor,
        mask: Tensor,
        *,
        table: Tensor | None,
        cache: KeyValueCache,
        memory: CrossMemory,
        layers: Sequence[DecoderLayer],
    ) -> Stepped:
        """Run the decoder with a prepared mask; for other arguments and results see ``forward``.

        Args:
            ids: (streams, new) token ids.
            positions: (streams, new) position of each token in its text.
            mask: (streams, 1, new, keys) added to the scores of the self-attention.
            table: Result of ``position_table`` with room for the positions.
            cache: Self-attention keys and values.
            memory: Cross-attention keys and values.
            layers: Result of ``prepare``.
        """
        hidden = self._embed(ids, positions, table)
        recorded: list[Tensor] = []
        for layer, layer_cache in zip(layers, cache.layers(ids.shape[1]), strict=True):
            hidden, cross_weights = layer(hidden, mask, layer_cache, memory)
            if cross_weights is not None:
                recorded.append(cross_weights)
        hidden = getattr(self.module, self.family.last_norm)(hidden)
        if not recorded:
            return Stepped(hidden, hidden.new_zeros(*ids.shape, 0, 0))
        return Stepped(hidden, torch.cat(recorded, dim=2))

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

    def position_table(self, room: int) -> Tensor | None:
        """Return the embeddings of at least ``room`` positions, or of all that the decoder has.

        A growing table is extended, which moves it; the result of an earlier call stays valid.

        Returns:
            (positions, width) table; None if the positions are computed by a module.
        """
        if self.family.positions == "sines":
            return None
        table = self.module.embed_positions
        if self.family.positions == "learned":
            return torch.as_tensor(table.weight)
        first = table.padding_idx + 1
        if first + room > len(table.weights):
            with torch.inference_mode(False):
                table.make_weights(first + room + ROOM, table.embedding_dim, table.padding_idx)
        return torch.as_tensor(table.weights[first:])

    def _embed(self, ids: Tensor, positions: Tensor, table: Tensor | None) -> Tensor:
        """Return token plus position embeddings (streams, new, width)."""
        embeddings: Tensor = self.module.embed_tokens(ids)
        if self.family.scaled:
            embeddings = embeddings * self.module.embed_scale
        if table is not None:
            return embeddings + table[positions]
        sines = self.module.pos_emb(positions).to(embeddings)
        return torch.as_tensor(self.module.embedding_layernorm(embeddings + sines))

    def _cache_shape(self, streams: int, positions: int) -> tuple[int, ...]:
        """Return the shape of keys and values of all layers."""
        return self.depth, 2, streams, self.heads, positions, self.width // self.heads
