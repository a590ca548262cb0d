"""Branches of a causal LM whose self-attention to the speech is the alignment."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.common.alignment import AlignmentConfig, Heads
from zoo.backbones.common.causal.branches import CausalBranches, Prefilled, empty_cache
from zoo.backbones.common.partial_text import PartialText
from zoo.backbones.common.search import Answer
from zoo.types import Hypothesis


class AlignedBranches(CausalBranches):
    """Branches that start with instruction, speech and kept text, and record attention to the
    speech.
    """

    def __init__(
        self,
        decoder: PreTrainedModel,
        prompts: Sequence[Tensor],
        *,
        prefixes: Sequence[int],
        speech: Sequence[tuple[int, int]],
        heads: Heads | None,
        caches: Sequence[Tensor | None] | None = None,
    ) -> None:
        """Feed the prompts.

        Args:
            decoder: The causal LM.
            prompts: (n, embedding) per stream, kept text included.
            prefixes: How many of each prompt's last positions are kept text.
            speech: First position and length of the speech in each stream.
            heads: Heads whose attention is recorded (None: of no layer).
            caches: (layers, 2, heads, n, head size) of the positions before each prompt, speech
                included (None: the prompt begins the stream).
        """
        empty = empty_cache(decoder)
        texts = [
            Prefilled(empty if cache is None else cache)
            for cache in caches or [None] * len(prompts)
        ]
        super().__init__(decoder, texts, prompts, heads=heads, recorded=max(prefixes) + 1)

        # rows that were recorded for a longer text of another stream
        self._skipped = [self.recorded - 1 - prefix for prefix in prefixes]
        past = max(text.kept for text in texts)
        begins = [
            past - text.kept if text.kept else self.prefix - len(prompt)
            for text, prompt in zip(texts, prompts, strict=True)
        ]
        self._speech = [
            slice(begin + first, begin + first + size)
            for begin, (first, size) in zip(begins, speech, strict=True)
        ]

    def generated(self, row: int) -> Tensor:
        """Attention to the speech, (1 + prefix + n, heads, frames).

        Rows are the position before the text, the kept tokens and the n tokens fed to ``row``.
        """
        if self.heads is None:
            return torch.empty(0)
        stream = row // self.beams
        return self.attention(row)[self._skipped[stream] :, :, self._speech[stream]]

    def hypotheses(
        self,
        texts: Sequence[PartialText],
        answers: Sequence[Answer],
        *,
        limit: int,
        alignment: AlignmentConfig | None,
    ) -> list[Hypothesis]:
        """The answers of a search as a policy receives them.

        Args:
            texts: That were continued.
            answers: One per text.
            limit: Most ids of an answer.
            alignment: How attention becomes an alignment (None: no alignment).
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
