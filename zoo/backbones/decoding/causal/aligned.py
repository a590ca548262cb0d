"""Branches of a causal LM whose self-attention to the speech positions aligns the tokens."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from zoo.backbones.decoding.alignment import AlignmentConfig, Heads
from zoo.backbones.decoding.causal.branches import CausalBranches, Prefilled, empty_cache
from zoo.backbones.decoding.continuation import Answer
from zoo.backbones.decoding.partial_text import PartialText
from zoo.backbones.decoding.static_steps import StaticSteps
from zoo.base.types import Hypothesis


class AlignedBranches(CausalBranches):
    """Branches of a causal LM that record the attention of text positions to speech positions.

    Each prompt consists of the instruction, the speech embeddings and the kept text.
    """

    def __init__(
        self,
        decoder: PreTrainedModel,
        prompts: Sequence[Tensor],
        *,
        prefixes: Sequence[int],
        speech: Sequence[Tensor],
        heads: Heads | None,
        caches: Sequence[Tensor | None] | None = None,
        drafts: Sequence[list[int]] | None = None,
        steps: StaticSteps | None = None,
    ) -> None:
        """Run the decoder over the prompts and drafts.

        Args:
            decoder: Causal LM.
            prompts: (n, embedding) embeddings of each stream, kept text included.
            prefixes: Number of kept tokens at the end of each prompt.
            speech: (frames,) int64 position of the speech embedding of each source frame of each
                stream, counted from the instruction on. Frames may share an embedding.
            heads: Heads whose attention is recorded, by layer index. None records no attention.
            caches: (layers, 2, heads, n, head size) keys and values of the positions before each
                prompt, which then include the speech. None means that nothing is cached.
            drafts: Ids that may follow each prompt, without ``heads``. None: no drafts.
            steps: Static memory and captured steps of the backbone.
        """
        empty = empty_cache(decoder)
        texts = [
            Prefilled(empty if cache is None else cache)
            for cache in caches or [None] * len(prompts)
        ]
        recorded = max(prefixes) + 1
        super().__init__(
            decoder, texts, prompts, heads=heads, recorded=recorded, drafts=drafts, steps=steps
        )

        # All streams record as many rows as the longest kept text needs; skip the surplus rows.
        self._skipped = [self.recorded - 1 - prefix for prefix in prefixes]

        # Cache position where each stream begins, after the padding on the left.
        past = max(text.num_cached for text in texts)
        stream_starts = [
            past - text.num_cached if text.num_cached else self.prefix - len(prompt)
            for text, prompt in zip(texts, prompts, strict=True)
        ]
        # (frames,) cache positions of the speech of each stream
        self._speech = [
            start + positions.to(self.visible.device)
            for start, positions in zip(stream_starts, speech, strict=True)
        ]
        # (streams, longest), with position 0 in place of the frames that a stream does not have
        self._speech_positions = pad_sequence(self._speech, batch_first=True)

    def generated(self, row: int) -> Tensor:
        """Return the attention to the speech, (1 + prefix + n, heads, frames).

        The first dimension is the position before the text, the kept tokens, and the n tokens fed
        to ``row``. Without recorded heads, the tensor is empty.
        """
        if self.heads is None:
            return torch.empty(0)
        stream = self.live[row // self.beams]
        weights = self.attention(row)  # (recorded + n, heads, prefix)
        return weights[self._skipped[stream] :, :, self._speech[stream]]

    def newest_attention(self) -> Tensor:
        """Return the attention of the newest position of each row to the speech.

        The shape is (rows, heads, longest). Columns after a stream's speech are padding.
        """
        newest = self._attention.newest  # (live streams, positions, heads, prefix)
        if len(self._attention) == 1:  # the prompts, which the beams of a stream share
            newest = newest[:, -1:].expand(-1, self.beams, -1, -1)
        speech_positions = self._speech_positions[self.live]
        positions = speech_positions[:, None, None].expand(-1, *newest.shape[1:3], -1)
        return newest.gather(-1, positions).flatten(0, 1)

    def prompt_attention(self, stream: int) -> Tensor:
        """Return the attention of the position before the text and of the kept tokens.

        The shape is (1 + prefix, heads, frames).
        """
        weights = self._attention.of(stream)[self._skipped[stream] : self.recorded]
        return weights[..., self._speech[stream]]

    def hypotheses(
        self,
        texts: Sequence[PartialText],
        answers: Sequence[Answer],
        *,
        limit: int,
        alignment: AlignmentConfig | None,
    ) -> list[Hypothesis]:
        """Build one hypothesis per answer of a search.

        Args:
            texts: Partial texts that the search continued.
            answers: One answer per text.
            limit: Maximum number of ids that the search could generate.
            alignment: Configuration that turns attention into an alignment. None returns hypotheses
                without an alignment.
        """
        hypotheses = [
            text.hypothesis(answer, limit=limit)
            for text, answer in zip(texts, answers, strict=True)
        ]
        if alignment is None:
            return hypotheses
        return [
            text.aligned(hypothesis, alignment, answer.generated, opening=1)
            for text, answer, hypothesis in zip(texts, answers, hypotheses, strict=True)
        ]
