"""Turn taking (InfiniSST, section 3.5): the model itself ends its turn, so all it says is written."""

from typing import ClassVar

from zoo.errors import ZooError
from zoo.policies.base import DecisionGenerator, Policy
from zoo.streaming.session import Session
from zoo.types import SAMPLE_RATE, Capability, Decision, Request, Seconds


class TurnTaking(Policy):
    """Write every turn in full. Equation 1: the end-of-turn token means READ.

    min_start: read at least this much of a source (or all of it) before its first turn, which then is about all that.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.TURNS})

    def __init__(self, min_start: Seconds = 0.0) -> None:
        if min_start < 0:
            raise ZooError(
                f"Policy TurnTaking needs a min_start of at least 0 seconds, not {min_start}."
            )
        self.min_start = min_start

    def decide(self, session: Session, state: None) -> DecisionGenerator:
        """One turn per chunk."""
        if session.received_samples < self.min_start * SAMPLE_RATE and not session.must_flush:
            return Decision(write=0)
        hypothesis = yield Request()
        return Decision(write=hypothesis.num_new_tokens)
