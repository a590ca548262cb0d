"""A partial target text that a search continues, and the hypothesis built from the result."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.continuation import Answer, Stop
from zoo.backbones.text.vocabulary import Vocabulary
from zoo.base.types import Frames, Hypothesis


@dataclass(frozen=True, slots=True)
class PartialText:
    """A target text whose first tokens are already emitted.

    Attributes:
        opening: Decoder ids before the text, such as start and language ids.
        prefix: Ids of the kept text, which the search continues.
        vocabulary: Word and sentence boundaries in the language of the text.
        frames: Number of source frames that an alignment covers.
    """

    opening: list[int]
    prefix: list[int]
    vocabulary: Vocabulary
    frames: Frames

    def stop(self, max_words: int | None) -> Stop | None:
        """Return the condition that ends an answer after ``max_words`` complete words.

        A word is complete as soon as the first token of the next word is generated. None for
        ``max_words`` means no such condition.
        """
        if max_words is None:
            return None
        return lambda tokens: self.vocabulary.words(tokens) >= max_words

    def hypothesis(self, answer: Answer, *, limit: int) -> Hypothesis:
        """Build the hypothesis without an alignment.

        Args:
            answer: Result of the search.
            limit: Maximum number of ids that the search could generate.
        """
        ids = torch.tensor(self.prefix + answer.tokens, dtype=torch.long)
        truncated = not answer.finished and len(answer.tokens) >= limit
        return Hypothesis(
            token_ids=ids[len(self.prefix) :],
            word_starts=self.vocabulary.word_starts(ids),
            prefix_length=len(self.prefix),
            finished=answer.finished or truncated,
            truncated=truncated,
            must_restart=answer.looped,
            sentence_ends=self.vocabulary.sentence_ends(ids),
        )

    def aligned(
        self, hypothesis: Hypothesis, alignment: AlignmentConfig, attention: Tensor, *, opening: int
    ) -> Hypothesis:
        """Return the hypothesis with its alignment.

        Args:
            hypothesis: Hypothesis of this text.
            alignment: Configuration that turns attention weights into an alignment.
            attention: (positions, heads, frames) weights, as ``AlignmentConfig.align`` takes them.
            opening: Number of positions of ``attention`` before the text.
        """
        rows = alignment.align(
            attention, opening=opening, prefix=len(self.prefix), new=hypothesis.num_new_tokens
        )
        return replace(hypothesis, alignment=rows.cpu())

    def unchanged(self, *, aligned: bool) -> Hypothesis:
        """Return the hypothesis for audio that is too short for one frame: no new token.

        If ``aligned``, all alignment weights of the kept tokens are 0.
        """
        hypothesis = self.hypothesis(Answer([], True, torch.empty(0)), limit=1)
        if not aligned:
            return hypothesis
        return replace(hypothesis, alignment=torch.zeros(len(self.prefix), max(1, self.frames)))
