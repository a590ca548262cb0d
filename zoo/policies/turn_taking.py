"""Turn taking (InfiniSST, section 3.5): the model ends its own turn, so each turn is written."""

from dataclasses import dataclass
from typing import ClassVar

from zoo.base.errors import check_numbers
from zoo.base.types import SAMPLE_RATE, Capability, Decision, Request, Seconds
from zoo.policies.base import DecisionGenerator, Policy
from zoo.streaming.session import Session


@dataclass(eq=False)
class TurnTaking(Policy):
    """Write every turn completely; an empty turn is a READ (equation 1).

    Args:
        min_start: Seconds of source to receive before the first turn, which then covers all of
            them. A shorter source gets its first turn at its end.

    Raises:
        ZooError: ``min_start`` is negative.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.TURNS})

    min_start: Seconds = 0.0

    def __post_init__(self) -> None:
        check_numbers("TurnTaking", least=0, min_start=self.min_start)

    def decide(self, session: Session, state: None) -> DecisionGenerator:
        """Request one turn per chunk."""
        if session.received_samples < self.min_start * SAMPLE_RATE and not session.must_flush:
            return Decision(write=0)
        hypothesis = yield Request()
        return Decision(write=hypothesis.num_new_tokens)
