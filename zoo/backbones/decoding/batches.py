"""Some values of a batch, by index."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from torch import Tensor

Value = TypeVar("Value")


def pick(values: Sequence[Value], indices: Sequence[int]) -> list[Value]:
    """Return the values at these indices."""
    return [values[index] for index in indices]


def put(values: list[Value], indices: Sequence[int], new: Iterable[Value]) -> None:
    """Replace the values at these indices by new values, of which there is one per index."""
    for index, value in zip(indices, new, strict=True):
        values[index] = value


def encode_non_empty(
    inputs: Sequence[Tensor], encode: Callable[[list[Tensor]], Iterable[Tensor]], *, empty: Tensor
) -> list[Tensor]:
    """Encode the inputs that have frames as one batch.

    Args:
        inputs: (frames, ...) of each stream.
        encode: Encoder of a batch of at least one input with frames.
        empty: (0, width) output of an input without frames.

    Returns:
        (frames, width) output of each stream.
    """
    outputs = [empty] * len(inputs)
    non_empty = [index for index, frames in enumerate(inputs) if len(frames)]
    if non_empty:
        put(outputs, non_empty, encode(pick(inputs, non_empty)))
    return outputs
