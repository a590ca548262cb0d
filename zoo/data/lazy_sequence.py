"""Sequences whose items are made when they are needed."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, overload

Item = TypeVar("Item", covariant=True)


class LazySequence(Sequence[Item]):
    """A sequence that makes an item each time it is asked for."""

    @abstractmethod
    def item(self, index: int) -> Item:
        """Make one item.

        Args:
            index: place of the item, from 0 to one less than the number of items.
        """

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        """Make an item, or a list of several."""
        places = range(len(self))[index]  # raises IndexError, which ends an iteration
        return self.item(places) if isinstance(places, int) else [self.item(one) for one in places]
