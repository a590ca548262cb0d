"""Branches of texts that an encoder-decoder continues: prompts as ids, one encoder memory per
stream.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.common.alignment import Heads
from zoo.backbones.common.branches import Branches
from zoo.backbones.common.encoder_decoder.decoder import Decoder


class EncoderDecoderBranches(Branches):
    """Branches that share one memory per stream.

    What is kept of a row are the places of its tokens.
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
        """Feed the prompts.

        Args:
            decoder: The decoder.
            memories: (frames, width) per stream, at least one frame each.
            prompts: Ids before the answer, at least one each.
            heads: Per layer the heads whose cross-attention is recorded (empty: none).
            states: Whether hidden states are kept.
        """
        self.decoder = decoder
        self._heads = heads
        self._keep_states = states
        self._frames = [len(memory) for memory in memories]
        self._lengths = [len(prompt) for prompt in prompts]
        self._attention: list[
            Tensor
        ] = []  # of prompts, then per step: (streams, new, heads, frames)
        self._states: list[Tensor] = []  # likewise: (streams, new, width)
        device = memories[0].device
        super().__init__(
            decoder.cache(streams=len(prompts), room=max(self._lengths)),
            self._lengths,
            device=device,
            max_positions=decoder.room,
        )

        self._memory = decoder.project_memories(memories)
        ids = torch.zeros(self.streams, self.prefix, dtype=torch.long, device=device)
        for stream, prompt in enumerate(prompts):
            ids[stream, self.prefix - len(prompt) :] = torch.tensor(prompt, device=device)
        hidden = self._feed(ids, self._positions, self._prompt_mask())
        self.log_probs = self._predict(hidden[:, -1])

    def generated(self, row: int) -> Tensor:
        """(n,) places of the tokens fed to ``row``: for ``attention``, ``states``, ``append``."""
        return self.places(row)

    def attention(self, stream: int, places: Tensor) -> Tensor:
        """(prompt + n, heads, frames): cross-attention of the prompt and of the tokens at
        ``places``.
        """
        return self._gather(self._attention, stream, places)[..., : self._frames[stream]]

    def states(self, stream: int, places: Tensor) -> Tensor:
        """(prompt + n, width): hidden states of the prompt and of the tokens at ``places``."""
        return self._gather(self._states, stream, places)

    def append(self, tokens: list[int], branches: Sequence[Tensor]) -> Tensor:
        """Feed each stream one token after a branch; all rows stay as they are.

        Args:
            tokens: One id per stream.
            branches: (n,) places of each stream's branch.

        Returns:
            (streams, 1) places of the new tokens.
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
        hidden, attention = self.decoder(
            ids, positions, visible, cache=self._cache, memory=self._memory, heads=self._heads
        )
        self._attention.append(attention)
        if self._keep_states:
            self._states.append(hidden)
        return hidden

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.decoder.head(hidden)
        return logits

    def _gather(self, steps: Sequence[Tensor], stream: int, places: Tensor) -> Tensor:
        every = torch.cat([step[stream] for step in steps])
        prompt = every[self.prefix - self._lengths[stream] : self.prefix]
        return torch.cat([prompt, every[self.prefix + places]])


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch of a batch of texts.

    Attributes:
        texts: The batch.
        stream: Number of the stream in the batch.
        places: (n,) places of the branch's tokens after the prompt.
    """

    texts: EncoderDecoderBranches
    stream: int
    places: Tensor
