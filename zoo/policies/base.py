"""When to write. A policy asks, is answered and decides; it sees sessions and hypotheses, never a network."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, ClassVar

from zoo.streaming.session import Session
from zoo.types import Capability, Decision, Hypothesis, Request

DecisionGenerator = Generator[Request, Hypothesis, Decision]


class Policy(ABC):
    """A small coroutine per decision: ``hypothesis = yield Request(...)`` asks, ``return Decision(...)`` decides.

    The system answers the requests of all live streams in one batch. ``Decision.write`` counts new tokens of the
    last translation that was answered. What a stream must remember between decisions lives in the state of ``open``.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset()

    def open(self) -> Any:
        """State of a new stream (None: the policy remembers nothing)."""
        return None

    @abstractmethod
    def decide(self, session: Session, state: Any) -> DecisionGenerator:
        """Decide what to write now. ``session.must_flush``: everything must be written."""
