"""Text to target speech. Knows sessions and hypotheses, no policy and no clock."""

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor

from zoo.streaming.session import Session
from zoo.types import Capability, Hypothesis


class Synthesizer(ABC):
    """Speaks what is being written."""

    needs: ClassVar[frozenset[Capability]] = frozenset()

    @abstractmethod
    def speak(self, session: Session, hypothesis: Hypothesis, written: int) -> Tensor:
        """(n,) waveform at 16 kHz of the first ``written`` new tokens; called before they join ``session.prefix``.

        ``hypothesis.states`` and ``token_ids`` cover the kept prefix and the new tokens. ``written`` can be 0.
        """
