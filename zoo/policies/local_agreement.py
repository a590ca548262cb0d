"""Local agreement (Liu et al., 2020, "Low-Latency Sequence-to-Sequence Speech Recognition and Translation by Partial
Hypothesis Selection"). Knows nothing of sound: it compares what was said with what is said now."""

from itertools import takewhile
from typing import ClassVar

from zoo.errors import ZooError
from zoo.policies.base import Asking, Policy
from zoo.streaming.session import Session
from zoo.types import Capability, Decision, Request

Said = list[list[int]]  # the newest hypotheses, oldest first, without what has been written since


class LocalAgreement(Policy):
    """Write the longest common prefix of the last ``n`` hypotheses, each conditioned on what is written."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PREFIX})

    def __init__(self, *, n: int = 2) -> None:
        """n: hypotheses that must agree. Raises ZooError below 2."""
        if n < 2:
            raise ZooError(f"LocalAgreement needs n of at least 2, not {n}.")
        self.n = n

    def open(self) -> Said:
        """No hypothesis yet."""
        return []

    def decide(self, session: Session, state: Said) -> Asking:
        """One look per chunk; a word that is agreed upon only in part waits."""
        hypothesis = yield Request()
        if session.ended:
            return Decision(write=hypothesis.new)
        state.append(hypothesis.token_ids.tolist())
        del state[: -self.n]
        write = hypothesis.whole_words(_agreed(state)) if len(state) == self.n else 0
        state[:] = [said[write:] for said in state]
        return Decision(write=write)


def _agreed(said: Said) -> int:
    """Length of the longest common prefix."""
    return sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, zip(*said, strict=False)))
