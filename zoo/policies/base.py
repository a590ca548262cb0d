"""The interface of a policy."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, ClassVar

from zoo.base.types import Capability, Decision, Hypothesis, Request, Samples, StreamOutline
from zoo.streaming.session import Session

DecisionGenerator = Generator[Request, Hypothesis, Decision]


class Policy(ABC):
    """Decides after each chunk how many new tokens are written.

    A decision is a generator: ``hypothesis = yield Request(...)`` sends a request to the backbone
    and receives its answer, and ``return Decision(...)`` ends the generator. The system answers
    the requests of all live streams as one batch. A policy may send several requests per
    decision, or none.

    One policy serves all streams, so the memory of a stream is the object that :meth:`open`
    returns.

    Attributes:
        needs: Capabilities that the policy requires of the backbone.
        revises: Whether the policy deletes emitted text. Each of its translations begins anew: no
            text is kept as a prefix.
        writes_at_end: Whether the policy writes only at the end of the source or of a segment.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset()
    revises: ClassVar[bool] = False
    writes_at_end: ClassVar[bool] = False

    def open(self) -> Any:
        """Return the policy's state for a new stream or segment. None: no state."""
        return None

    @abstractmethod
    def decide(self, session: Session, state: Any) -> DecisionGenerator:
        """Decide what to write after a chunk.

        Args:
            session: The stream. If ``session.must_flush`` is True, all visible audio must be
                translated and written now.
            state: The object that :meth:`open` returned for this stream.

        Returns:
            A generator of requests that returns the decision. ``Decision.write`` counts new tokens
            of the last translation received.
        """

    def longest_audio(self, outline: StreamOutline) -> Samples:
        """Return the length of the longest audio of a request if the history drops nothing."""
        return outline.duration
