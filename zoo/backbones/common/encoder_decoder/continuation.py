"""Texts of several streams through an encoder-decoder: what is forced in one pass, then token by token.

Knows no search and no audio. The beams of a stream are branches of a tree: all tokens stand in one sequence, each
branch sees the prompt and the tokens it grew from, and all branches read one memory. Nothing is copied for a beam.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.common.alignment import Heads
from zoo.backbones.common.encoder_decoder.decoder import Cache, Decoder


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a text stands: the ``places`` of its tokens after the prompt of stream number ``stream`` of ``texts``."""

    texts: "Continuation"
    stream: int
    places: Tensor


class Continuation:
    """Texts in progress. ``log_probs``: (rows, vocabulary), of each row's next token; rows are streams x beams.

    ``visible``: (rows, positions) bool, the positions that a row continues.
    """

    def __init__(
        self,
        decoder: Decoder,
        memories: Sequence[Tensor],
        prompts: Sequence[list[int]],
        *,
        heads: Heads,
        states: bool = False,
    ) -> None:
        """memories: (frames, width) per stream, at least one frame. prompts: ids before the answer, at least one each.

        heads: whose cross-attention is kept (none of no layer). states: keep hidden states, too. Memories and prompts
        may differ in length from stream to stream.
        """
        self.decoder = decoder
        self.streams = len(prompts)
        self.beams = 1
        self.prefix = max(len(prompt) for prompt in prompts)
        self.frames = [len(memory) for memory in memories]
        self._heads = heads
        self._memory = decoder.memorise(memories)
        self._cache = Cache(decoder, streams=self.streams, room=self.prefix)
        device = memories[0].device
        ids = torch.zeros(self.streams, self.prefix, dtype=torch.long, device=device)
        self.visible = torch.zeros(self.streams, self.prefix, dtype=torch.bool, device=device)
        positions = torch.zeros_like(ids)
        for stream, prompt in enumerate(prompts):
            ids[stream, self.prefix - len(prompt) :] = torch.tensor(prompt, device=device)
            self.visible[stream, self.prefix - len(prompt) :] = True
            positions[stream, self.prefix - len(prompt) :] = torch.arange(
                len(prompt), device=device
            )
        self._lengths = [len(prompt) for prompt in prompts]
        self._next = positions[:, -1:] + 1
        order = torch.arange(self.prefix, device=device)
        itself = (
            order == order[:, None]
        )  # padding looks at itself: a row that sees nothing would be NaN
        seen = (order <= order[:, None]) & self.visible[:, None] | itself
        hidden, rows = decoder(
            ids, positions, seen, cache=self._cache, memory=self._memory, heads=self._heads
        )
        self._rows = [rows]  # of the prompt, then per step: (streams, new, heads, frames)
        self._states = [hidden] if states else []  # (streams, new, width)
        self.log_probs = decoder.log_probs(hidden[:, -1])

    def fork(self, beams: int) -> None:
        """Give each stream ``beams`` rows that continue from the same prompt. Only before the first step."""
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
        hidden = self._feed(
            ids, self._next.expand(-1, self.beams), self.visible.view(self.streams, self.beams, -1)
        )
        self.log_probs = self.decoder.log_probs(hidden.flatten(0, 1))
        self._next = self._next + 1
        if self.decoder.room is not None:  # finished streams go on while others need it
            self._next = self._next.clamp(max=self.decoder.room - 1)

    def generated(self, row: int) -> Tensor:
        """(n,) places of the tokens that ``row`` has been given, for ``looked``, ``states`` and ``end_with``."""
        return self.visible[row, self.prefix :].nonzero().flatten()

    def looked(self, stream: int, places: Tensor) -> Tensor:
        """(prompt + n, heads, frames): what the kept heads looked at when prompt and these tokens were fed."""
        return self._told(self._rows, stream, places)[..., : self.frames[stream]]

    def states(self, stream: int, places: Tensor) -> Tensor:
        """(prompt + n, width): the hidden states of prompt and these tokens, where they are kept."""
        return self._told(self._states, stream, places)

    def end_with(self, tokens: list[int], branches: Sequence[Tensor]) -> Tensor:
        """Feed each stream one token after the places of a branch: its (streams, 1) new places.

        The text stays as it was: other rows do not see the token.
        """
        device = self.visible.device
        visible = torch.zeros(self.streams, self._cache.length + 1, dtype=torch.bool, device=device)
        visible[:, : self.prefix] = self.visible[:: self.beams, : self.prefix]
        visible[:, -1] = True
        positions = torch.zeros(self.streams, 1, dtype=torch.long, device=device)
        for stream, places in enumerate(branches):
            visible[stream, self.prefix + places] = True
            positions[stream] = self._lengths[stream] + len(places)
        new = self._cache.length - self.prefix
        self._feed(torch.tensor(tokens, device=device)[:, None], positions, visible[:, None])
        self.visible = F.pad(self.visible, (0, 1))
        return torch.full((self.streams, 1), new, device=device)

    def _feed(self, ids: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        """Append tokens (streams, new) to the tree: their hidden states."""
        hidden, rows = self.decoder(
            ids, positions, visible, cache=self._cache, memory=self._memory, heads=self._heads
        )
        self._rows.append(rows)
        if self._states:
            self._states.append(hidden)
        return hidden

    def _told(self, told: Sequence[Tensor], stream: int, places: Tensor) -> Tensor:
        every = torch.cat([new[stream] for new in told])
        return torch.cat(
            [every[self.prefix - self._lengths[stream] : self.prefix], every[self.prefix + places]]
        )
