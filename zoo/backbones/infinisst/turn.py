"""One turn of several streams through the causal LM: prefill once, then token by token. Knows no search, no audio."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.infinisst.window import StreamState


class TurnCache:
    """Keys and values of a turn, in the shape Transformers asks a cache for.

    past: (layers, 2, streams, heads, keys, head size), shared by a stream's beams. new: per layer
    (2, rows, heads, keys, head size), what has come since, rows = streams x beams.
    """

    def __init__(self, past: Tensor) -> None:
        self.past = past
        self.beams = 1
        self.new: list[Tensor] = [past[layer, :, :, :, :0] for layer in range(past.shape[0])]

    def update(self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append (rows, heads, new, head size) and return all keys and values of the layer."""
        self.new[layer] = torch.cat([self.new[layer], torch.stack([key, value])], dim=3)
        past = self.past[layer].repeat_interleave(self.beams, dim=1) if self.beams > 1 else self.past[layer]
        keys, values = torch.cat([past, self.new[layer]], dim=3)
        return keys, values

    def settle(self) -> None:
        """What is new becomes the past that beams share."""
        self.past = torch.cat([self.past, torch.stack(self.new)], dim=4)
        self.new = [new[:, :, :, :0] for new in self.new]

    def fork(self, beams: int) -> None:
        """From one row per stream to ``beams`` rows, right after ``settle``."""
        self.beams = beams
        self.new = [new.repeat_interleave(beams, dim=1) for new in self.new]

    def reorder(self, rows: Tensor) -> None:
        """Row i continues what was row ``rows[i]``."""
        self.new = [new.index_select(1, rows) for new in self.new]


class Turn:
    """A turn in progress for a batch of streams. ``log_probs``: (rows, vocabulary), of each row's next token."""

    def __init__(self, decoder: PreTrainedModel, states: Sequence[StreamState], prompts: Sequence[Tensor]) -> None:
        """prompts: (n, embedding) per stream. Caches and prompts of different lengths are padded on the left."""
        self.decoder = decoder
        device = prompts[0].device
        past, new = max(state.kept for state in states), max(len(prompt) for prompt in prompts)
        cache = torch.stack([F.pad(state.cache, (0, 0, past - state.kept, 0)) for state in states], dim=2)
        embeddings = torch.stack([F.pad(prompt, (0, 0, new - len(prompt), 0)) for prompt in prompts])
        real = torch.zeros(len(states), past + new, dtype=torch.bool, device=device)
        positions = torch.zeros(len(states), new, dtype=torch.long, device=device)
        for row, (state, prompt) in enumerate(zip(states, prompts, strict=True)):
            real[row, past - state.kept : past] = True
            real[row, past + new - len(prompt) :] = True
            positions[row, new - len(prompt) :] = torch.arange(len(prompt), device=device) + state.next_position
        self._real = real
        self._next = positions[:, -1:] + 1
        self._cache = TurnCache(cache)
        order = torch.arange(past + new, device=device)
        causal = order <= order[past:, None]
        itself = order == order[past:, None]  # padding looks at itself: a row that sees nothing would be NaN
        self.log_probs = self._run(embeddings, positions, (causal & real[:, None] | itself)[:, None])
        self._cache.settle()

    def fork(self, beams: int) -> None:
        """Give each stream ``beams`` rows that continue from the same prompt."""
        self._cache.fork(beams)
        self._real = self._real.repeat_interleave(beams, dim=0)
        self._next = self._next.repeat_interleave(beams, dim=0)
        self.log_probs = self.log_probs.repeat_interleave(beams, dim=0)

    def step(self, tokens: list[int], rows: list[int] | None = None) -> None:
        """Row i continues row ``rows[i]`` (None: itself) with ``tokens[i]``."""
        if rows is not None:
            self._cache.reorder(torch.tensor(rows, device=self._real.device))
        self._real = F.pad(self._real, (0, 1), value=True)
        ids = torch.tensor(tokens, device=self._real.device)[:, None]
        self.log_probs = self._run(self.decoder.get_input_embeddings()(ids), self._next, self._real[:, None, None])
        self._next = self._next + 1

    def prefilled(self, stream: int) -> Tensor:
        """(layers, 2, heads, kept + prompt, head size) of one stream, without padding."""
        past = self._cache.past
        real = self._real[stream * self._cache.beams, : past.shape[4]]
        return past[:, :, stream, :, real]

    def generated(self, row: int) -> Tensor:
        """(layers, 2, heads, n, head size) of the n tokens ``row`` has been given."""
        return torch.stack([new[:, row] for new in self._cache.new])

    def _run(self, embeddings: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        hidden = self.decoder.model(
            inputs_embeds=embeddings,
            attention_mask=visible,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
        ).last_hidden_state[:, -1]
        logits = self.decoder.get_output_embeddings()(hidden)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
