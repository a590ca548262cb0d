"""A target text that a search continues, and its answer as a policy receives it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from zoo.backbones.common.alignment import AlignmentConfig
from zoo.backbones.common.search import Answer, Stop
from zoo.backbones.common.text.vocabulary import Vocabulary
from zoo.types import Frames, Hypothesis


@dataclass(frozen=True, slots=True)
class PartialText:
    """A text of which a prefix is there.

    Attributes:
        opening: Ids before the text.
        prefix: Ids of the kept text.
        vocabulary: Word and sentence boundaries of the text's language.
        frames: Source frames that an alignment covers.
    """

    opening: list[int]
    prefix: list[int]
    vocabulary: Vocabulary
    frames: Frames

    def stop(self, max_words: int | None) -> Stop | None:
        """The condition that ends an answer early: ``max_words`` words and the token after them."""
        if max_words is None:
            return None
        return lambda tokens: self.vocabulary.words(tokens) >= max_words

    def hypothesis(self, answer: Answer, *, limit: int) -> Hypothesis:
        """The answer without an alignment; ``limit`` is the most ids that it could have."""
        ids = torch.tensor(self.prefix + answer.tokens, dtype=torch.long)
        cut = not answer.finished and len(answer.tokens) >= limit
        return Hypothesis(
            token_ids=ids[len(self.prefix) :],
            word_starts=self.vocabulary.word_starts(ids),
            prefix_length=len(self.prefix),
            finished=answer.finished or cut,
            truncated=cut,
            sentence_ends=self.vocabulary.sentence_ends(ids),
        )

    def aligned(
        self, hypothesis: Hypothesis, alignment: AlignmentConfig, attention: Tensor, *, opening: int
    ) -> Hypothesis:
        """The hypothesis with its alignment.

        Args:
            hypothesis: Of this text.
            alignment: How attention becomes an alignment.
            attention: (positions, heads, frames), see ``AlignmentConfig.align``.
            opening: Positions of ``attention`` before the text.
        """
        rows = alignment.align(
            attention, opening=opening, prefix=len(self.prefix), new=hypothesis.num_new_tokens
        )
        return replace(hypothesis, alignment=rows.cpu())

    def unchanged(self, *, aligned: bool) -> Hypothesis:
        """The answer to audio that is too short for a frame: no new token, and no aligned frame."""
        same = self.hypothesis(Answer([], True, torch.empty(0)), limit=1)
        if not aligned:
            return same
        return replace(same, alignment=torch.zeros(len(self.prefix), max(1, self.frames)))
