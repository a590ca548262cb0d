"""One look of a batch of streams: instruction, speech and kept text in one pass, then token by token.

Knows no search and no audio.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.infinisst.encoder import EncoderState
from zoo.backbones.infinisst.turn import Turn
from zoo.backbones.infinisst.window import StreamState, empty_cache
from zoo.backbones.seq2seq.alignment import Heads


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
    ) -> None:
        """prompts: (n, width) per stream, kept text included. prefixes: how many of their last positions are text.

        speech: where the speech begins in each, and its length. heads: whose attention is kept (None: of none).
        """
        cache = empty_cache(decoder)
        unused = EncoderState(left=torch.empty(0), cache=torch.empty(0))
        states = [StreamState(encoder=unused, cache=cache) for _ in prompts]
        super().__init__(decoder, states, prompts, heads=heads, recorded=max(prefixes) + 1)
        self._before = [self.recorded - 1 - prefix for prefix in prefixes]  # recorded rows of other streams' texts
        starts = [self.prefix - len(prompt) + first for prompt, (first, _) in zip(prompts, speech, strict=True)]
        self._speech = [slice(start, start + size) for start, (_, size) in zip(starts, speech, strict=True)]

    def generated(self, row: int) -> Tensor:
        """(1 + prefix + n, heads, frames): what the position before the text, the kept and the n new ids attend to."""
        if self.heads is None:
            return torch.empty(0)
        stream = row // self.beams
        return self.attended(row)[self._before[stream] :, :, self._speech[stream]]
