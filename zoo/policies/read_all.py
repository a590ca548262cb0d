"""Offline translation as a policy: an upper bound for the quality that waiting can reach."""

from typing import ClassVar

from zoo.base.types import Capability, Decision, Request
from zoo.policies.base import DecisionGenerator, Policy
from zoo.streaming.session import Session


class ReadAll(Policy):
    """READ until the source or its current segment has ended, then write the whole translation.

    Requires a backbone that decodes from all kept audio (PREFIX). A backbone that translates in
    turns has no offline mode.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PREFIX})
    writes_at_end = True

    def decide(self, session: Session, state: None) -> DecisionGenerator:
        """Request one translation per segment, at its end."""
        if not session.must_flush:
            return Decision(write=0)
        hypothesis = yield Request()
        return Decision(write=hypothesis.num_new_tokens)
