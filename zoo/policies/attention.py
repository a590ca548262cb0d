"""Common part of AlignAtt and EDAtt: write until a token attends to the newest source frames.

The backbone decides which layers and heads form the alignment.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from zoo.base.errors import check_choice
from zoo.base.types import Capability, Decision, Hypothesis, Request
from zoo.policies.base import DecisionGenerator, Policy
from zoo.streaming.session import Session

LastWord = Literal["whole", "dropped"]


@dataclass(kw_only=True, eq=False)
class AttentionGuided(Policy):
    """Write the complete words before the first unstable token.

    Args:
        last_word: Treatment of the word before the first unstable token. ``whole``: write it if
            the unstable token begins a new word or the hypothesis is finished. ``dropped``: never
            write it (FBK-fairseq and simulstream with words). Parts of words are never written
            (SimulStreaming writes them, FBK-fairseq's agents for SimulEval 1.0.2 force them).
        flush: Decode once more and write everything when the source or its segment has ended
            (simulstream writes its previous hypothesis). False: apply the policy at the end too
            (SimulStreaming: f = 4), so the remaining tokens are never written.

    Raises:
        ZooError: ``last_word`` is not one of these choices.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.ALIGNMENT, Capability.PREFIX})

    last_word: LastWord = "whole"
    flush: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        check_choice(f"last_word of {type(self).__name__}", self.last_word, get_args(LastWord))

    @abstractmethod
    def attends_to_newest(self, attention: Tensor, frames: Tensor) -> Tensor:
        """Mark the tokens that depend on the newest source frames.

        Args:
            attention: (n, longest) alignment weights, one token per row.
            frames: (n,) number of frames of each row; later columns are padding.

        Returns:
            (n,) bool.
        """

    def unstable(self, hypothesis: Hypothesis) -> Tensor:
        """Return (new,) bool, True for each new token that must not be written."""
        attention = hypothesis.require_alignment()[hypothesis.prefix_length :]
        return self.attends_to_newest(
            attention, torch.full((len(attention),), hypothesis.num_frames)
        )

    def decide(self, session: Session, state: None) -> DecisionGenerator:
        """Request one translation, up to its first unstable token, and write the words before."""
        if session.must_flush and self.flush:
            hypothesis = yield Request()
            return Decision(write=hypothesis.num_new_tokens)

        hypothesis = yield Request(stop_at=self.attends_to_newest)

        unstable = self.unstable(hypothesis)
        stable = int(unstable.nonzero()[0]) if bool(unstable.any()) else hypothesis.num_new_tokens
        if self.last_word == "whole":
            return Decision(write=hypothesis.floor_to_word(stable))

        word_starts = hypothesis.word_starts[hypothesis.prefix_length :][:stable].nonzero()
        return Decision(write=int(word_starts[-1]) if word_starts.numel() else 0)
