"""One look of a batch of streams: instruction, speech and kept text in one pass, then token by token.

Knows no search and no audio.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.common.alignment import AlignmentConfig, Heads
from zoo.backbones.common.causal.branches import Cached, Turn, empty_cache
from zoo.backbones.common.encoder_decoder.encoder_decoder import Text
from zoo.backbones.common.search import Answer
from zoo.types import Hypothesis


class Look(Turn):
    """A turn that starts from nothing, and whose answer keeps what it attends to instead of keys and values."""

    def __init__(
        self,
        decoder: PreTrainedModel,
        prompts: Sequence[Tensor],
        *,
        prefixes: Sequence[int],
        speech: Sequence[tuple[int, int]],
        heads: Heads | None,
        fed: Sequence[Tensor | None] | None = None,
    ) -> None:
        """prompts: (n, width) per stream, kept text included. prefixes: how many of their last positions are text.

        speech: where the speech begins in each, and its length. heads: whose attention is kept (None: of none).
        fed: keys and values of what stands before a prompt, the speech among it (None: nothing does).
        """
        fed = fed or [None] * len(prompts)
        empty = empty_cache(decoder)
        states = [Cached(empty if cache is None else cache) for cache in fed]
        super().__init__(decoder, states, prompts, heads=heads, recorded=max(prefixes) + 1)
        self._before = [
            self.recorded - 1 - prefix for prefix in prefixes
        ]  # recorded rows of other streams' texts
        past = max(state.kept for state in states)
        begins = [
            past - state.kept if state.kept else self.prefix - len(prompt)
            for state, prompt in zip(states, prompts, strict=True)
        ]
        self._speech = [
            slice(begin + first, begin + first + size)
            for begin, (first, size) in zip(begins, speech, strict=True)
        ]

    def generated(self, row: int) -> Tensor:
        """(1 + prefix + n, heads, frames): what the position before the text, the kept and the n new ids attend to."""
        if self.heads is None:
            return torch.empty(0)
        stream = row // self.beams
        return self.attended(row)[self._before[stream] :, :, self._speech[stream]]


def hypothesis(
    text: Text, answer: Answer, *, limit: int, alignment: AlignmentConfig | None
) -> Hypothesis:
    """What a search after a ``Look`` answered, as a policy sees it. alignment: what is told about it (None: nothing).

    limit: of ids in an answer.
    """
    said = text.hypothesis(answer, limit=limit)
    if alignment is None:
        return said
    rows = alignment.align(
        answer.generated, opening=1, prefix=len(text.prefix), new=said.num_new_tokens
    )
    return replace(said, alignment=rows.cpu())


def silence(text: Text, aligned: bool) -> Hypothesis:
    """Nothing new; what was written is aligned with no frame in particular."""
    said = text.hypothesis(Answer([], True, torch.empty(0)), limit=1)
    return replace(said, alignment=torch.zeros(len(text.prefix), 1)) if aligned else said
