"""The contract of what hears target speech and writes its words down. Knows no system, no score and no network."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class Recogniser(Protocol):
    """A speech recogniser. Its constructor touches no disk and no network.

    name: hub id or folder, for signatures. language: code of what it hears (None: whatever it was made for).
    """

    name: str
    language: str | None

    def missing(self) -> str | None:
        """Told before long work: None where ``load`` will find a model, else one sentence on what goes without it.

        Raises ZooError where going without it is no choice.
        """

    def load(self, device: torch.device | None = None) -> None:
        """Read the weights, once. Raises ZooError for what is missing, damaged or no recogniser."""

    def transcribe(self, waves: Sequence[Tensor]) -> list[str]:
        """The words of each wave (n,) at 16 kHz, as the network writes them; of none and of digital silence ``""``.

        A wave gets the same words in any company.
        """
