"""What a decoder records of each position, such as attention weights, while streams leave."""

from collections.abc import Sequence

import torch
from torch import Tensor


class StepRecords:
    """Data of all positions of a batch of streams, one tensor per decoder call.

    Attributes:
        newest: (live streams, new, ...) data of the last call.
    """

    newest: Tensor

    def __init__(self) -> None:
        self._steps: list[tuple[Tensor, list[int]]] = []

    def __len__(self) -> int:
        """Number of decoder calls; the first call processes the prompts."""
        return len(self._steps)

    def append(self, data: Tensor, streams: Sequence[int]) -> None:
        """Add a decoder call.

        Args:
            data: (live streams, new, ...) one row per new position.
            streams: Index of each live stream.
        """
        self.newest = data
        self._steps.append((data, list(streams)))

    def shorten(self, positions: int) -> None:
        """Drop the last positions of the last decoder call, which has more."""
        data, streams = self._steps.pop()
        self.append(data[:, :-positions], streams)

    def of(self, stream: int) -> Tensor:
        """Return the rows (positions, ...) of one stream; 0 after it left the batch."""
        rows = [
            data[streams.index(stream)] if stream in streams else torch.zeros_like(data[0])
            for data, streams in self._steps
        ]
        return torch.cat(rows)
