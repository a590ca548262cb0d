"""wait-k with fixed chunks (Ma et al., 2019, "STACL"; for speech Ma et al., 2020, "SimulMT to SimulST").

A fixed pre-decision: a chunk stands for a source word, whatever was said in it.
"""

from dataclasses import dataclass
from typing import ClassVar

from zoo.errors import ZooError
from zoo.policies.base import Asking, Policy
from zoo.streaming.session import Session
from zoo.types import Capability, Decision, Request


@dataclass(slots=True)
class Heard:
    """Chunks heard since the stream, or its present segment, began."""

    chunks: int = 0


class WaitK(Policy):
    """READ until ``k`` chunks were heard, then write ``words_per_chunk`` words per chunk."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PREFIX})

    def __init__(self, *, k: int, words_per_chunk: int = 1) -> None:
        """Raises ZooError when either is below 1."""
        if k < 1 or words_per_chunk < 1:
            raise ZooError(f"WaitK needs k and words_per_chunk of at least 1, not {k} and {words_per_chunk}.")
        self.k = k
        self.words_per_chunk = words_per_chunk

    def open(self) -> Heard:
        """Nothing heard yet."""
        return Heard()

    def decide(self, session: Session, state: Heard) -> Asking:
        """Ask only when something may be written."""
        state.chunks += 1
        if session.ended:
            hypothesis = yield Request()
            return Decision(write=hypothesis.new)
        if state.chunks < self.k:
            return Decision(write=0)
        hypothesis = yield Request(max_words=self.words_per_chunk)
        return Decision(write=hypothesis.first_words(self.words_per_chunk))
