"""Branches of texts that a causal LM continues: prompts as embeddings, cached positions before
them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.common.branches import ROOM, Branches, KeyValueCache
from zoo.backbones.common.causal.decoder import Recorder


class CachedText(Protocol):
    """What a stream has in its cache before a prompt."""

    cache: Tensor  # (layers, 2, heads, kept, head size), keys and values

    @property
    def kept(self) -> int:
        """Cached positions."""

    @property
    def next_position(self) -> int:
        """Position of the prompt's first token."""


@dataclass(slots=True)
class Prefilled:
    """A text that is cached from its first position on.

    Attributes:
        cache: (layers, 2, heads, kept, head size), keys and values.
    """

    cache: Tensor

    @property
    def kept(self) -> int:
        """Cached positions."""
        return self.cache.shape[3]

    @property
    def next_position(self) -> int:
        """Position of the next token."""
        return self.kept


def empty_cache(decoder: PreTrainedModel) -> Tensor:
    """(layers, 2, heads, 0, head size) in the decoder's dtype and on its device."""
    layers, heads = decoder.model.layers, decoder.model.config.num_key_value_heads
    shape = (len(layers), 2, heads, 0, layers[0].self_attn.head_dim)
    return torch.zeros(shape, dtype=decoder.model.dtype, device=decoder.model.device)


def batched(texts: Sequence[CachedText], new: int) -> KeyValueCache:
    """The caches of several streams as one, padded on the left, with room for ``new`` positions."""
    layers, pair, heads, _, size = texts[0].cache.shape
    length = max(text.kept for text in texts)
    shape = (layers, pair, len(texts), heads, length + new + ROOM, size)
    data = texts[0].cache.new_empty(shape)
    for row, text in enumerate(texts):
        padding = length - text.kept
        data[:, :, row, :, :padding] = 0  # masked, but 0 x NaN is NaN
        data[:, :, row, :, padding:length] = text.cache
    return KeyValueCache(data, length)


class CausalBranches(Branches):
    """Branches of a causal LM whose attention is ``zoo_grouped`` (``causal.decoder``)."""

    def __init__(
        self,
        decoder: PreTrainedModel,
        texts: Sequence[CachedText],
        prompts: Sequence[Tensor],
        *,
        heads: Mapping[int, Sequence[int] | None] | None = None,
        recorded: int = 1,
    ) -> None:
        """Feed the prompts.

        Args:
            decoder: The causal LM.
            texts: What each stream has cached.
            prompts: (n, embedding) per stream, at least one position each.
            heads: Per layer the heads (None: all) whose attention is recorded; None: of no layer.
            recorded: Last positions of a prompt whose attention is recorded.
        """
        self.decoder = decoder
        self.heads = heads
        self.recorded = recorded
        self._attention: list[Tensor] = []
        lengths = [len(prompt) for prompt in prompts]
        new = max(lengths)
        super().__init__(
            batched(texts, new),
            lengths,
            device=prompts[0].device,
            cached=[text.kept for text in texts],
            first=[text.next_position for text in texts],
        )

        padded = [F.pad(prompt, (0, 0, new - len(prompt), 0)) for prompt in prompts]
        self._begin(self._run(torch.stack(padded), self._positions, self._prompt_mask(), recorded))

    def _begin(self, hidden: Tensor) -> None:
        """Set ``log_probs`` from the prompts' last hidden states (streams, new, embedding)."""
        self.log_probs = self._predict(hidden[:, -1])

    def prefilled(self, stream: int) -> Tensor:
        """(layers, 2, heads, kept + prompt, head size) of one stream, without padding.

        A view where the positions lie side by side.
        """
        prefix = self._cache.data[:, :, stream]
        mine = self.visible[stream * self.beams, : self.prefix].nonzero().flatten()
        first, last = int(mine[0]), int(mine[-1])
        if len(mine) == last - first + 1:
            return prefix[:, :, :, first : last + 1]
        return prefix[:, :, :, mine]

    def generated(self, row: int) -> Tensor:
        """(layers, 2, heads, n, head size): keys and values of the n tokens fed to ``row``."""
        new = self._cache.data[:, :, row // self.beams, :, self.prefix : self._cache.length]
        return new[..., self.visible[row, self.prefix :], :]

    def attention(self, row: int) -> Tensor:
        """Attention weights over the prefix; the stream's own positions are the last of it.

        Returns:
            (recorded + n, heads, prefix), of the prompt's last positions and of the n tokens fed to
            ``row``.
        """
        weights = torch.cat([weights[row // self.beams] for weights in self._attention])
        return torch.cat([weights[: self.recorded], weights[self.recorded + self.places(row)]])

    def _feed(self, ids: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        embeddings = self.decoder.get_input_embeddings()(ids)
        return self._run(embeddings, positions, visible, self.beams)

    def _run(self, embeddings: Tensor, positions: Tensor, visible: Tensor, recorded: int) -> Tensor:
        """Append (streams, new, embedding) to the cache; return the last hidden states.

        The attention of the last ``recorded`` positions is kept if there are ``heads``.
        """
        self._cache.reserve(embeddings.shape[1])
        mask = embeddings.new_zeros(visible.shape).masked_fill_(~visible, -torch.inf)
        recorder = None if self.heads is None else Recorder(self.heads, recorded)
        hidden: Tensor = self.decoder.model(
            inputs_embeds=embeddings,
            attention_mask=mask[:, None],
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            recorder=recorder,
        ).last_hidden_state
        if recorder is not None:
            self._attention.append(recorder.weights()[..., : self.prefix])
        self._cache.length += embeddings.shape[1]
        return hidden

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.decoder.get_output_embeddings()(hidden)
        return logits
