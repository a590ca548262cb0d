"""The contract of speech recognisers: of target speech for scores, of corpora for filters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from zoo.base.talks import Word

if TYPE_CHECKING:
    import torch  # every evaluation imports this module, but only target speech needs torch
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a recogniser has found in a waveform.

    Attributes:
        text: the transcript; "" if the waveform is empty or digital silence.
        words: words of the transcript, or its characters in a language without spaces, in seconds
            from the start of the waveform; None: the model gives no times.
    """

    text: str
    words: tuple[Word, ...] | None


@runtime_checkable
class Recogniser(Protocol):
    """A speech recogniser; its constructor reads no files and uses no network connection.

    Attributes:
        name: hub id or folder of the model; it is part of the score signatures.
        language: code of the language to recognise; None: the language on which the model was
            trained.
    """

    name: str
    language: str | None

    def unavailable_reason(self) -> str | None:
        """Check, before long work starts, that there is a model to load.

        Returns:
            None if there is a model; otherwise the reason, one sentence. An evaluation then goes
            without scores of recognised speech; a preparation cannot do its step.

        Raises:
            ZooError: the model is missing and not optional.
        """

    def load(self, device: "torch.device | None" = None) -> None:
        """Load the weights; a second call only moves the network.

        Args:
            device: device of the network; None: the CPU.

        Raises:
            ZooError: the model is missing, damaged or not a recogniser.
        """

    def transcribe(self, waves: "Sequence[Tensor]") -> list[str]:
        """Transcribe waveforms; a transcript must not depend on the other waveforms of the batch.

        Args:
            waves: (samples,) waveforms at 16 kHz of any length.

        Returns:
            One transcript per waveform; "" if the waveform is empty or digital silence.
        """


@runtime_checkable
class TimedRecogniser(Recogniser, Protocol):
    """A recogniser that can also tell when the words of a transcript were spoken."""

    def recognise(self, waves: "Sequence[Tensor]") -> list[Recognised]:
        """Transcribe waveforms with the times of their words.

        Args:
            waves: as for ``transcribe``, whose texts are the same.

        Returns:
            One result per waveform.
        """
