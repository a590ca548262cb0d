"""The contract of speech synthesis: from the text that a system emits to target speech."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.base.languages import Language
from zoo.base.types import Capability
from zoo.streaming.session import Session, SpeechRequest


class Synthesizer(ABC):
    """Synthesises the speech of newly emitted text.

    A synthesizer with a network of its own is an ``nn.Module`` too and moves with the system.

    Attributes:
        needs: capabilities that the backbone must expose.
        user_parts: arguments that name what the zoo does not download, each with a word for its
            value. An experiment that names none of them leaves out the rows.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset()
    user_parts: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @classmethod
    def problem(cls, target: Language) -> str | None:
        """Return why the target language is not supported, without a full stop; None: it is."""
        return None

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
