"""AlignAtt (Papi et al., 2023, "AlignAtt: Using Attention-based Audio-Translation Alignments as a Guide for SimulST").

Knows no layers and no heads: which attention makes the alignment is the backbone's choice.
"""

from typing import ClassVar

from zoo.errors import ZooError
from zoo.policies.base import Asking, Policy
from zoo.streaming.session import Session
from zoo.types import Capability, Decision, Frames, Request


class AlignAtt(Policy):
    """Write up to the first token that attends most to one of the last ``frames`` source frames (section 3)."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.ALIGNMENT, Capability.PREFIX})

    def __init__(self, *, frames: Frames) -> None:
        """frames: f of the paper, in frames of the backbone; larger waits longer. Raises ZooError below 1."""
        if frames < 1:
            raise ZooError(f"AlignAtt needs frames of at least 1, not {frames}.")
        self.frames = frames

    def decide(self, session: Session, state: None) -> Asking:
        """One look per chunk; a word that the stop would split waits too."""
        hypothesis = yield Request()
        if session.ended:
            return Decision(write=hypothesis.new)
        late = hypothesis.attended[hypothesis.prefix :] >= hypothesis.frames - self.frames
        stop = int(late.nonzero()[0]) if bool(late.any()) else hypothesis.new
        return Decision(write=hypothesis.whole_words(stop))
