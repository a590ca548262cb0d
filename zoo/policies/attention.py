"""What AlignAtt and EDAtt share: write up to the first new token whose attention rests on the newest source.

Knows no layers and no heads: which attention makes the alignment is the backbone's choice.
"""

from abc import abstractmethod
from typing import ClassVar, Literal

from torch import Tensor

from zoo.errors import ZooError
from zoo.policies.base import DecisionGenerator, Policy
from zoo.streaming.session import Session
from zoo.types import Capability, Decision, Hypothesis, Request

LAST_WORD = ("whole", "dropped")
LastWord = Literal["whole", "dropped"]


class AttentionGuided(Policy):
    """Write up to the first unstable token and no word in part; everything when the source has ended, with ``flush``.

    flush: false: the end of the source is like any other moment, and what is withheld then is never written.
    last_word: what becomes of the word before the stop. ``whole``: it is written where the next token begins a word, or
    where the hypothesis is finished; ``dropped``: it always waits (FBK-fairseq and simulstream with words).
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.ALIGNMENT, Capability.PREFIX})

    def __init__(self, *, last_word: LastWord, flush: bool = True) -> None:
        """Raises ZooError for a ``last_word`` that is neither."""
        if last_word not in LAST_WORD:
            raise ZooError(
                f"{type(self).__name__} needs last_word to be {' or '.join(LAST_WORD)}, not {last_word}."
            )
        self.last_word = last_word
        self.flush = flush

    @abstractmethod
    def unstable(self, hypothesis: Hypothesis) -> Tensor:
        """(new,) bool: true where a new token depends on the newest source."""

    def decide(self, session: Session, state: None) -> DecisionGenerator:
        """One look per chunk."""
        hypothesis = yield Request()
        if session.must_flush and self.flush:
            return Decision(write=hypothesis.num_new_tokens)
        unstable = self.unstable(hypothesis)
        stop = int(unstable.nonzero()[0]) if bool(unstable.any()) else hypothesis.num_new_tokens
        if self.last_word == "dropped":
            begins = hypothesis.word_starts[hypothesis.prefix_length :][:stop].nonzero()
            return Decision(write=int(begins[-1]) if begins.numel() else 0)
        return Decision(write=hypothesis.floor_to_word(stop))
