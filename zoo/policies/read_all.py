"""Offline translation as a policy: the upper bound of what waiting can give."""

from typing import ClassVar

from zoo.policies.base import DecisionGenerator, Policy
from zoo.streaming.session import Session
from zoo.types import Capability, Decision, Request


class ReadAll(Policy):
    """READ until the source, or its present segment, has ended, then write all of its translation.

    It needs a backbone that hears all kept audio at every look (PREFIX); one that takes turns has no offline mode.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PREFIX})

    def decide(self, session: Session, state: None) -> DecisionGenerator:
        """One look in all."""
        if not session.must_flush:
            return Decision(write=0)
        hypothesis = yield Request()
        return Decision(write=hypothesis.num_new_tokens)
