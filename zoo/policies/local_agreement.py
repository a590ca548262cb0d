"""Local agreement (Liu et al., 2020, "Low-Latency Sequence-to-Sequence Speech Recognition and Translation by Partial
Hypothesis Selection"). Knows nothing of sound: it compares what was said with what is said now."""

from dataclasses import dataclass
from itertools import takewhile
from typing import ClassVar

from torch import Tensor

from zoo.errors import ZooError
from zoo.policies.base import DecisionGenerator, Policy
from zoo.streaming.session import Session
from zoo.types import Capability, Decision, Hypothesis, Request


@dataclass(slots=True)
class Said:
    """What one look said beyond what is written by now: ids (n,), where a word begins (n,), whether that was all."""

    token_ids: Tensor
    starts: Tensor
    finished: bool

    def after(self, written: int) -> "Said":
        """The same without its first ``written`` tokens."""
        return Said(self.token_ids[written:], self.starts[written:], self.finished)

    def ends_word(self, tokens: int) -> bool:
        """Is there no word in part after so many tokens?"""
        return self.finished if tokens == len(self.starts) else bool(self.starts[tokens])


class LocalAgreement(Policy):
    """Write the longest prefix in whole words that the last ``n`` looks share, each conditioned on what is written."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PREFIX})

    def __init__(self, *, n: int = 2) -> None:
        """n: hypotheses that must agree. Raises ZooError below 2."""
        if n < 2:
            raise ZooError(f"LocalAgreement needs n of at least 2, not {n}.")
        self.n = n

    def open(self) -> list[Said]:
        """No look yet; the newest comes last."""
        return []

    def decide(self, session: Session, state: list[Said]) -> DecisionGenerator:
        """One look per chunk; a word that is agreed upon only in part waits."""
        hypothesis = yield Request()
        if session.must_flush:
            return Decision(write=hypothesis.num_new_tokens)
        state.append(_said(hypothesis))
        del state[: -self.n]
        write = _agreed(state) if len(state) == self.n else 0
        state[:] = [said.after(write) for said in state]
        return Decision(write=write)


def _said(hypothesis: Hypothesis) -> Said:
    return Said(
        hypothesis.token_ids,
        hypothesis.word_starts[hypothesis.prefix_length :],
        hypothesis.finished,
    )


def _agreed(looks: list[Said]) -> int:
    """Tokens in the longest common prefix after which no look has a word in part."""
    ids = zip(*(said.token_ids.tolist() for said in looks), strict=False)
    common = sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, ids))
    whole = (
        tokens for tokens in range(common, 0, -1) if all(said.ends_word(tokens) for said in looks)
    )
    return next(whole, 0)
