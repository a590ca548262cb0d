"""Turn taking (InfiniSST, section 3.5): the model ends its own turn, so each turn is written."""

from typing import ClassVar

from zoo.errors import ZooError
from zoo.policies.base import DecisionGenerator, Policy
from zoo.streaming.session import Session
from zoo.types import SAMPLE_RATE, Capability, Decision, Request, Seconds


class TurnTaking(Policy):
    """Write every turn completely; an empty turn is a READ (equation 1).

    Args:
        min_start: Seconds of source to receive before the first turn, which then covers all of
            them. A shorter source gets its first turn at its end.

    Raises:
        ZooError: ``min_start`` is negative.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.TURNS})

    def __init__(self, min_start: Seconds = 0.0) -> None:
        if min_start < 0:
            raise ZooError(
                f"Policy TurnTaking needs a min_start of at least 0 seconds, not {min_start}."
            )
        self.min_start = min_start

    def decide(self, session: Session, state: None) -> DecisionGenerator:
        """Request one turn per chunk."""
        if session.received_samples < self.min_start * SAMPLE_RATE and not session.must_flush:
            return Decision(write=0)
        hypothesis = yield Request()
        return Decision(write=hypothesis.num_new_tokens)
