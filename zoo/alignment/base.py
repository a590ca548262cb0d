"""What all aligners share: they are checked before long work, and load their weights later."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch  # aligners that read files do not need torch


class Loadable(Protocol):
    """Something with models, packages or files; its constructor reads none."""

    def check(self) -> None:
        """Check, before long work starts, that models, packages and files are there.

        Raises:
            ZooError: something is missing.
        """

    def load(self, device: "torch.device | None" = None) -> None:
        """Load the weights, if there are any; a second call only moves them.

        Args:
            device: device of the network; None: the CPU.

        Raises:
            ZooError: something is missing, damaged or does not fit.
        """
