"""The contract of speech synthesis: from the text that a system emits to target speech."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.languages import Language
from zoo.streaming.session import Session, SpeechRequest
from zoo.types import Capability


class Synthesizer(ABC):
    """Synthesises the speech of newly emitted text.

    A synthesizer with a network of its own is an ``nn.Module`` too and moves with the system.

    Attributes:
        needs: capabilities that the backbone must expose.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset()

    def check(self, target: Language) -> None:
        """Check the target language before weights are loaded.

        Raises:
            ZooError: the synthesizer does not support ``target``.
        """
        return

    def load(self, backbone: Backbone) -> None:
        """Load the weights; called once, by ``configure_model`` of the system.

        Args:
            backbone: the loaded backbone, for synthesizers that use its speech decoder.
        """
        return

    def open(self, session: Session) -> Any:
        """Return the state of a new stream, which ``session.synthesizer_state`` keeps."""
        return None

    @abstractmethod
    def synthesize(self, requests: Sequence[SpeechRequest]) -> list[Tensor]:
        """Synthesise the newly emitted tokens of several streams as a batch.

        The samples of a stream must not depend on the other streams of the batch.

        Args:
            requests: one per stream, each with at least one new token; the new tokens have not
                joined ``session.prefix_ids`` yet.

        Returns:
            One (samples,) float32 waveform at 16 kHz per request; it may be empty.
        """
