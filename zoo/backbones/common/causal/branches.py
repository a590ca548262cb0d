"""One turn of several streams through the causal LM: prefill once, then token by token. Knows no search, no audio.

The beams of a stream are branches of a tree. All its tokens stand in one sequence, and each branch sees the prefix and
the tokens it grew from. So the prefix is there once for all beams, and beams change places without a copy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.common.causal.decoder import Recorder

ROOM = 64  # positions


class Kept(Protocol):
    """What a stream brings. cache: (layers, 2, heads, kept, head size), keys and values."""

    cache: Tensor

    @property
    def kept(self) -> int:
        """Cached positions."""

    @property
    def next_position(self) -> int:
        """Position of the first token of the prompt."""


@dataclass(slots=True)
class Cached:
    """What has been fed of a turn, from its first position on: keys and values (layers, 2, heads, kept, head size)."""

    cache: Tensor

    @property
    def kept(self) -> int:
        """Cached positions."""
        return self.cache.shape[3]

    @property
    def next_position(self) -> int:
        """Position of what follows."""
        return self.kept


def empty_cache(decoder: PreTrainedModel) -> Tensor:
    """(layers, 2, heads, 0, head size) of zeros, in the decoder's type and on its device."""
    layers, heads = decoder.model.layers, decoder.model.config.num_key_value_heads
    shape = (len(layers), 2, heads, 0, layers[0].self_attn.head_dim)
    return torch.zeros(shape, dtype=decoder.model.dtype, device=decoder.model.device)


class TurnCache:
    """Keys and values of a turn, in the shape Transformers asks a cache for; what is new is written in place.

    data: (layers, 2, streams, heads, room, head size), of which the first ``length`` positions are in use.
    """

    def __init__(self, states: Sequence[Kept], new: int) -> None:
        """Caches of different lengths are padded on the left. new: positions to make room for."""
        layers, pair, heads, _, size = states[0].cache.shape
        self.length = max(state.kept for state in states)
        shape = (layers, pair, len(states), heads, self.length + new + ROOM, size)
        self.data = states[0].cache.new_empty(shape)
        for row, state in enumerate(states):
            padding = self.length - state.kept
            self.data[:, :, row, :, :padding] = 0  # no one sees it, but it must be a number
            self.data[:, :, row, :, padding : self.length] = state.cache

    def reserve(self, new: int) -> None:
        """Make room for ``new`` more positions."""
        if self.length + new > self.data.shape[4]:
            self.data = F.pad(self.data, (0, 0, 0, new + max(ROOM, self.length // 4)))

    def update(
        self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write (streams, heads, new, head size) behind what is in use and return all keys and values of the layer."""
        end = self.length + key.shape[2]
        keys, values = self.data[layer, :, :, :, :end]
        keys[:, :, self.length :] = key
        values[:, :, self.length :] = value
        return keys, values


class Turn:
    """A turn in progress for a batch of streams. ``log_probs``: (rows, vocabulary), of each row's next token.

    Rows are streams x beams. ``visible``: (rows, positions) bool, the cached positions that a row continues.
    """

    def __init__(
        self,
        decoder: PreTrainedModel,
        states: Sequence[Kept],
        prompts: Sequence[Tensor],
        *,
        heads: Mapping[int, Sequence[int] | None] | None = None,
        recorded: int = 1,
    ) -> None:
        """prompts: (n, embedding) per stream. Caches and prompts of different lengths are padded on the left.

        heads: per layer those (None: all) whose attention is kept for ``attended``. recorded: of a prompt's last
        positions, so many.
        """
        self.decoder = decoder
        self.heads = heads
        self.recorded = recorded
        self._attention: list[Tensor] = []
        self.streams = len(states)
        self.beams = 1
        device = prompts[0].device
        new = max(len(prompt) for prompt in prompts)
        self._cache = TurnCache(states, new)
        past = self._cache.length
        self.prefix = past + new
        embeddings = torch.stack(
            [F.pad(prompt, (0, 0, new - len(prompt), 0)) for prompt in prompts]
        )
        self.visible = torch.zeros(len(states), past + new, dtype=torch.bool, device=device)
        positions = torch.zeros(len(states), new, dtype=torch.long, device=device)
        for row, (state, prompt) in enumerate(zip(states, prompts, strict=True)):
            self.visible[row, past - state.kept : past] = True
            self.visible[row, past + new - len(prompt) :] = True
            positions[row, new - len(prompt) :] = (
                torch.arange(len(prompt), device=device) + state.next_position
            )
        self._next = positions[:, -1:] + 1
        order = torch.arange(past + new, device=device)
        causal = order <= order[past:, None]
        itself = (
            order == order[past:, None]
        )  # padding looks at itself: a row that sees nothing would be NaN
        self._begin(
            self._run(embeddings, positions, causal & self.visible[:, None] | itself, recorded)
        )

    def _begin(self, hidden: Tensor) -> None:
        """Go on after the prompts, whose last hidden states are (streams, new, embedding)."""
        self.log_probs = self._predict(hidden[:, -1])

    def fork(self, beams: int) -> None:
        """Give each stream ``beams`` rows that continue from the same prompt."""
        self.beams = beams
        self.visible = self.visible.repeat_interleave(beams, dim=0)
        self.log_probs = self.log_probs.repeat_interleave(beams, dim=0)

    def step(self, tokens: list[int], rows: list[int] | None = None) -> None:
        """Row i continues row ``rows[i]`` of its stream (None: itself) with ``tokens[i]``."""
        device = self.visible.device
        if rows is not None:
            self.visible = self.visible[torch.tensor(rows, device=device)]
        itself = torch.eye(self.beams, dtype=torch.bool, device=device).repeat(self.streams, 1)
        self.visible = torch.cat([self.visible, itself], dim=1)
        ids = torch.tensor(tokens, device=device).view(self.streams, self.beams)
        hidden = self._run(
            self.decoder.get_input_embeddings()(ids),
            self._next.expand(-1, self.beams),
            self.visible.view(self.streams, self.beams, -1),
            self.beams,
        )
        self.log_probs = self._predict(hidden.flatten(0, 1))
        self._next = self._next + 1

    def prefilled(self, stream: int) -> Tensor:
        """(layers, 2, heads, kept + prompt, head size) of one stream, without padding; a view where it can be."""
        prefix = self._cache.data[:, :, stream]
        mine = self.visible[stream * self.beams, : self.prefix].nonzero().flatten()
        first, last = int(mine[0]), int(mine[-1])
        if len(mine) == last - first + 1:
            return prefix[:, :, :, first : last + 1]
        return prefix[:, :, :, mine]

    def generated(self, row: int) -> Tensor:
        """(layers, 2, heads, n, head size) of the n tokens ``row`` has been given."""
        new = self._cache.data[:, :, row // self.beams, :, self.prefix : self._cache.length]
        return new[..., self.visible[row, self.prefix :], :]

    def attended(self, row: int) -> Tensor:
        """(recorded + n, heads, prefix), what the last positions of the prompt and the n tokens of ``row`` attend to.

        Of the ``prefix`` positions, the stream's own stand last.
        """
        seen = torch.cat([weights[row // self.beams] for weights in self._attention])
        tokens = self.visible[row, self.prefix :].nonzero().flatten()
        return torch.cat([seen[: self.recorded], seen[self.recorded + tokens]])

    def _run(self, embeddings: Tensor, positions: Tensor, visible: Tensor, recorded: int) -> Tensor:
        """Append (streams, new, embedding) to the cache; the last hidden states. visible: (streams, new, keys)."""
        self._cache.reserve(embeddings.shape[1])
        mask = embeddings.new_zeros(visible.shape).masked_fill_(
            ~visible, -torch.inf
        )  # once for all layers
        recorder = None if self.heads is None else Recorder(self.heads, recorded)
        hidden = self.decoder.model(
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

    def _predict(self, hidden: Tensor) -> Tensor:
        logits = self._logits(hidden)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.decoder.get_output_embeddings()(hidden)
        return logits
