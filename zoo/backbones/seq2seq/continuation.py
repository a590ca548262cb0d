"""Texts of several streams through an encoder-decoder: what is forced in one pass, then token by token.

Knows no search and no audio. The beams of a stream are branches of a tree: all tokens stand in one sequence, each
branch sees the prompt and the tokens it grew from, and all branches read one memory. Nothing is copied for a beam.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.backbones.seq2seq.alignment import Heads
from zoo.backbones.seq2seq.decoder import Cache, Decoder


class Continuation:
    """Texts in progress. ``log_probs``: (rows, vocabulary), of each row's next token; rows are streams x beams.

    ``visible``: (rows, positions) bool, the positions that a row continues.
    """

    def __init__(
        self, decoder: Decoder, memories: Sequence[Tensor], prompts: Sequence[list[int]], *, heads: Heads
    ) -> None:
        """memories: (frames, width) per stream, at least one frame. prompts: ids before the answer, at least one each.

        heads: whose cross-attention is kept (none of no layer). Both may differ in length from stream to stream.
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
            positions[stream, self.prefix - len(prompt) :] = torch.arange(len(prompt), device=device)
        self._lengths = [len(prompt) for prompt in prompts]
        self._next = positions[:, -1:] + 1
        order = torch.arange(self.prefix, device=device)
        itself = order == order[:, None]  # padding looks at itself: a row that sees nothing would be NaN
        seen = (order <= order[:, None]) & self.visible[:, None] | itself
        hidden, self._prompt_rows = decoder(
            ids, positions, seen, cache=self._cache, memory=self._memory, heads=self._heads
        )
        self._rows: list[Tensor] = []  # per step (streams, beams, heads, frames)
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
        hidden, looked = self.decoder(
            torch.tensor(tokens, device=device).view(self.streams, self.beams),
            self._next.expand(-1, self.beams),
            self.visible.view(self.streams, self.beams, -1),
            cache=self._cache,
            memory=self._memory,
            heads=self._heads,
        )
        self._rows.append(looked)
        self.log_probs = self.decoder.log_probs(hidden.flatten(0, 1))
        self._next = self._next + 1
        if self.decoder.room is not None:  # finished streams go on while others need it
            self._next = self._next.clamp(max=self.decoder.room - 1)

    def prompted(self, stream: int) -> Tensor:
        """(prompt, heads, frames): what the kept heads looked at when the stream's prompt was fed."""
        return self._prompt_rows[stream, self.prefix - self._lengths[stream] :, :, : self.frames[stream]]

    def generated(self, row: int) -> Tensor:
        """(n, heads, frames): what the kept heads looked at at each of the n tokens ``row`` has been given."""
        stream = row // self.beams
        places = self.visible[row, self.prefix :].nonzero().flatten().tolist()
        looked = [self._rows[place // self.beams][stream, place % self.beams] for place in places]
        rows = torch.stack(looked) if looked else self._prompt_rows[stream, :0]
        return rows[..., : self.frames[stream]]
