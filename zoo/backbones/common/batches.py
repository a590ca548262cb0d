"""Some values of a batch, by index."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

Value = TypeVar("Value")


def pick(values: Sequence[Value], indices: Sequence[int]) -> list[Value]:
    """Return the values at these indices."""
    return [values[index] for index in indices]


def put(values: list[Value], indices: Sequence[int], new: Iterable[Value]) -> None:
    """Replace the values at these indices by new values, of which there is one per index."""
    for index, value in zip(indices, new, strict=True):
        values[index] = value
