"""Search branches of a causal LM, whose prompts are embeddings after cached positions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.decoding.branches import ROOM, Branches, KeyValueCache, added_mask
from zoo.backbones.decoding.causal.decoder import Recorder
from zoo.backbones.decoding.causal.layers import fast_layers
from zoo.backbones.decoding.static_memory import PlacedCache
from zoo.backbones.decoding.static_steps import (
    Computation,
    StaticSteps,
    StepInputs,
    Stepped,
    recorded_heads,
)
from zoo.backbones.decoding.step_records import StepRecords
from zoo.streaming.stages import stage

FULL, SLIDING = "full_attention", "sliding_attention"  # kinds of layers in Transformers' configs


class CachedText(Protocol):
    """Cached positions of a stream before a prompt."""

    cache: Tensor  # (layers, 2, heads, kept, head size), keys and values

    @property
    def num_cached(self) -> int:
        """Number of cached positions."""

    @property
    def next_position(self) -> int:
        """Position of the first prompt token."""


@dataclass(slots=True)
class Prefilled:
    """A ``CachedText`` whose cache begins at position 0.

    Attributes:
        cache: (layers, 2, heads, kept, head size) keys and values.
    """

    cache: Tensor

    @property
    def num_cached(self) -> int:
        """Number of cached positions."""
        return self.cache.shape[3]

    @property
    def next_position(self) -> int:
        """Position of the next token."""
        return self.num_cached


def empty_cache(decoder: PreTrainedModel) -> Tensor:
    """Create an empty cache (layers, 2, heads, 0, head size) in the decoder's dtype and device."""
    layers = decoder.model.layers
    heads = decoder.model.config.num_key_value_heads
    shape = (len(layers), 2, heads, 0, layers[0].self_attn.head_dim)
    return torch.zeros(shape, dtype=decoder.model.dtype, device=decoder.model.device)


def combine_caches(
    texts: Sequence[CachedText],
    new: int,
    *,
    decoder: PreTrainedModel,
    steps: StaticSteps | None = None,
) -> KeyValueCache:
    """Combine the caches of several streams into one batch, padded on the left.

    Args:
        texts: Cached positions of each stream.
        new: Number of positions that are allocated in addition.
        decoder: Causal LM that continues the texts.
        steps: Provides the memory of static steps. None: the batch gets memory of its own.
    """
    layers, pair, heads, _, size = texts[0].cache.shape
    length = max(text.num_cached for text in texts)
    shape = (layers, pair, len(texts), heads, length + new + ROOM, size)
    like = texts[0].cache
    if steps is None:
        cache = KeyValueCache(like.new_empty(shape))
    else:
        cache = steps.cache(decoder.model, shape, like)
        if steps.holds(cache):
            # A static step multiplies all positions, also those that are not written yet
            cache.data[..., length:, :] = 0
    for row, text in enumerate(texts):
        padding = length - text.num_cached
        # Uninitialised memory may hold NaN, and 0 x NaN is NaN
        cache.data[:, :, row, :, :padding] = 0
        cache.data[:, :, row, :, padding:length] = text.cache
    cache.length = length
    return cache


class CausalBranches(Branches):
    """Search branches of a causal LM from ``causal.decoder.build_decoder``."""

    @stage("prefill")
    def __init__(
        self,
        decoder: PreTrainedModel,
        texts: Sequence[CachedText],
        prompts: Sequence[Tensor],
        *,
        heads: Mapping[int, Sequence[int] | None] | None = None,
        recorded: int = 1,
        drafts: Sequence[list[int]] | None = None,
        steps: StaticSteps | None = None,
    ) -> None:
        """Run the decoder over the prompts and drafts.

        Args:
            decoder: Causal LM.
            texts: Cached positions of each stream.
            prompts: (n, embedding) embeddings of each stream, at least one position.
            heads: Heads whose attention is recorded, by layer index; a value of None records all
                heads of the layer. None instead of a mapping records no attention.
            recorded: Number of final prompt positions whose attention is recorded.
            drafts: Ids that may follow each prompt, for a search without recorded attention. None:
                no drafts.
            steps: Static memory and captured steps of the backbone. None: every step is a plain
                one.
        """
        self.decoder = decoder
        self._layers = fast_layers(decoder)
        if self._layers is None:
            steps = None
        self.heads = heads
        self._kind = recorded_heads(heads)
        self.recorded = recorded
        self._attention = StepRecords()
        lengths = [len(prompt) for prompt in prompts]
        new = max(lengths)
        drafted = max(len(draft) for draft in drafts) if drafts else 0
        cache = combine_caches(texts, new + drafted, decoder=decoder, steps=steps)
        self._steps = steps if steps is not None and steps.holds(cache) else None
        super().__init__(
            cache,
            lengths,
            device=prompts[0].device,
            cached=[text.num_cached for text in texts],
            first=[text.next_position for text in texts],
            drafts=drafts,
        )

        self._lengths = [
            text.num_cached + length for text, length in zip(texts, lengths, strict=True)
        ]
        padded = [F.pad(prompt, (0, 0, new - len(prompt), 0)) for prompt in prompts]
        embeddings = torch.stack(padded)  # (streams, new, embedding)
        if self._longest_draft:
            ids = torch.zeros(self.streams, self._longest_draft, dtype=torch.long)
            for stream, draft in enumerate(self.drafts):
                ids[stream, : len(draft)] = torch.tensor(draft, dtype=torch.long)
            drafted = decoder.get_input_embeddings()(ids.to(embeddings.device))
            embeddings = torch.cat([embeddings, drafted.to(embeddings)], dim=1)
        stepped = self._run(embeddings, self._positions, self._prompt_mask(), recorded)
        self._begin(self._append(stepped, embeddings.shape[1]))

    def prefilled(self, stream: int) -> Tensor:
        """Return the cache of one stream up to the end of its prompt, without padding.

        Returns:
            (layers, 2, heads, kept + prompt, head size) keys and values. The tensor is a view if
            the positions are contiguous in a cache that no other search will use, otherwise a copy.
        """
        stream_cache = self._cache.data[:, :, self._rows.index(stream), :, : self.prefix]
        visible = self._prompt_visible[stream]
        length = self._lengths[stream]
        first = int(visible.int().argmax())
        if self._steps is None and bool(visible[first : first + length].all()):
            return stream_cache[:, :, :, first : first + length]
        return stream_cache[:, :, :, visible]

    def generated(self, row: int) -> Tensor:
        """Return the keys and values of the n tokens fed to ``row``.

        The shape is (layers, 2, heads, n, head size).
        """
        generated = self._cache.data[:, :, row // self.beams, :, self.prefix : self._cache.length]
        return generated[..., self.visible[row, self.prefix :], :]

    def attention(self, row: int) -> Tensor:
        """Return the recorded attention weights of one row over the prefix positions.

        Prefix positions include padding.

        Returns:
            (recorded + n, heads, prefix) weights of the final ``recorded`` prompt positions and of
            the n tokens fed to ``row``.
        """
        weights = self._attention.of(self.live[row // self.beams])
        prompt_weights = weights[: self.recorded]
        return torch.cat([prompt_weights, weights[self.recorded + self.fed_positions(row)]])

    def _feed(self, ids: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        def plain() -> Stepped:
            embeddings = self.decoder.get_input_embeddings()(ids)
            return self._run(embeddings, positions, visible, self.beams)

        if self._steps is None:
            stepped = plain()
        else:
            stepped = self._steps.step(
                self._cache,
                ids,
                positions,
                visible,
                kind=self._kind,
                recorded=self.prefix,
                prepare=self._computation,
                plain=plain,
            )
        return self._append(stepped, ids.shape[1])

    def _computation(self, live: int, beams: int, keys: int) -> Computation:
        """Return the decoder's computation for one shape; see ``static_steps.Prepare``."""
        layers, embed, heads = self._layers, self.decoder.get_input_embeddings(), self.heads
        assert layers is not None  # otherwise no step is static

        def compute(inputs: StepInputs, cache: PlacedCache) -> Stepped:
            recorder = None if heads is None else Recorder(heads, beams)
            hidden = layers(embed(inputs.ids), inputs.positions, inputs.mask, cache, recorder)
            return Stepped(hidden, None if recorder is None else recorder.weights())

        return compute

    def _append(self, stepped: Stepped, new: int) -> Tensor:
        """Count new positions of the cache, keep their attention and return their states."""
        if stepped.weights is not None:
            self._attention.append(stepped.weights[..., : self.prefix], self.live)
        self._cache.length += new
        return stepped.hidden

    def _run(
        self, embeddings: Tensor, positions: Tensor, visible: Tensor, recorded: int
    ) -> Stepped:
        """Run the decoder over new embeddings and write their keys and values to the cache.

        Args:
            embeddings: (streams, new, embedding).
            positions: (streams, new) rotary position of each embedding.
            visible: (streams, new, cached + new) bool attention mask.
            recorded: Number of final positions whose attention is recorded.

        Returns:
            (streams, new, embedding) hidden states of the last layer, and their attention.
        """
        self._cache.reserve(embeddings.shape[1])
        mask = added_mask(visible[:, None], embeddings.dtype)
        recorder = None if self.heads is None else Recorder(self.heads, recorded)
        hidden: Tensor
        if self._layers is not None:
            hidden = self._layers(embeddings, positions, mask, self._cache, recorder)
        else:
            hidden = self.decoder.model(
                inputs_embeds=embeddings,
                attention_mask=self._layer_masks(visible, mask),
                position_ids=positions,
                past_key_values=self._cache,
                use_cache=True,
                recorder=recorder,
            ).last_hidden_state
        return Stepped(hidden, None if recorder is None else recorder.weights())

    def _layer_masks(self, visible: Tensor, mask: Tensor) -> Tensor | dict[str, Tensor]:
        """Return the mask of all layers, or masks by kind of layer if some have a sliding window.

        A window counts the positions that a query sees, its own included. Positions of a cache are
        those of several beams, so distances in the cache are no distances in the text.

        Args:
            visible: (streams, new, keys) bool attention mask.
            mask: (streams, 1, new, keys) the same as a mask that is added to scores.
        """
        config = self.decoder.model.config
        if SLIDING not in (getattr(config, "layer_types", None) or ()):
            return mask
        distance = visible.flip(-1).cumsum(dim=-1).flip(-1)  # 1 for a query itself
        within = visible & (distance <= config.sliding_window)
        return {FULL: mask, SLIDING: added_mask(within[:, None], mask.dtype)}

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.decoder.get_output_embeddings()(hidden)
        return logits
