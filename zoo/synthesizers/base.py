"""The contract of target speech: what is being written, spoken. Knows sessions and hypotheses, no policy, no clock."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.languages import Language
from zoo.streaming.session import Session, Write
from zoo.types import Capability


class Synthesizer(ABC):
    """Speaks what is being written. One with a network of its own is an ``nn.Module`` too and moves with the system."""

    needs: ClassVar[frozenset[Capability]] = frozenset()

    def check(self, target: Language) -> None:
        """Raise ZooError where this language cannot be spoken, as far as is known before weights load."""
        return

    def load(self, backbone: Backbone) -> None:
        """Read weights, or take what speaks from ``backbone``, which is loaded. Called once, by ``configure_model``."""
        return

    def open(self, session: Session) -> Any:
        """The synthesizer's state for a new stream; kept as ``session.synthesizer``."""
        return None

    @abstractmethod
    def speak(self, writes: Sequence[Write]) -> list[Tensor]:
        """(n_i,) waveforms at 16 kHz, float32: one per stream that writes at this moment, as a batch; n_i may be 0.

        Each write has tokens, and they have not joined ``session.prefix`` yet. A stream must get the samples it gets
        alone, whatever it is batched with.
        """
