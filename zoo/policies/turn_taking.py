"""Turn taking (InfiniSST, section 3.5): the model itself ends its turn, so all it says is written."""

from typing import ClassVar

from zoo.policies.base import Asking, Policy
from zoo.streaming.session import Session
from zoo.types import Capability, Decision, Request


class TurnTaking(Policy):
    """Write every turn in full. Equation 1: the end-of-turn token means READ."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.TURNS})

    def decide(self, session: Session, state: None) -> Asking:
        """One turn per chunk."""
        hypothesis = yield Request()
        return Decision(write=hypothesis.new)
