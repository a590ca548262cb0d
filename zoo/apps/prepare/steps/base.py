"""The interface of steps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from zoo.alignment.base import Loadable
from zoo.apps.prepare.items import Item

if TYPE_CHECKING:
    import torch  # most steps do not need torch


class Step(Loadable, Protocol):
    """A step of a preparation; its constructor reads no files.

    Attributes:
        name: name of the step, and of its folder of results.
        whole_corpus: whether one call needs all talks of a split. Otherwise the result of a talk
            does not depend on the other talks.
    """

    name: str
    whole_corpus: bool

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        """Return the items after the step, in their order; none has a ``problem``."""


class PlainStep:
    """A step for single talks that has nothing to load or check."""

    whole_corpus = False

    def check(self) -> None:
        """See ``Step``; nothing can be missing."""

    def load(self, device: "torch.device | None" = None) -> None:
        """See ``Step``; there are no weights."""
