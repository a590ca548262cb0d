"""Cache of the feature frames of a live stream."""

from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.base.types import Samples


@dataclass(slots=True, eq=False)
class FeatureCache:
    """Feature frames whose windows have been received completely.

    New audio never changes a cached frame.

    Attributes:
        frames: (n, width) cached frames.
        start: Stream position of the first frame, in samples.
    """

    frames: Tensor
    start: Samples = 0

    def move(self, start: Samples, *, hop: Samples) -> bool:
        """Move the start of the cache and drop all earlier frames.

        If the start moves backwards or by a distance that is no multiple of ``hop``, all frames are
        dropped.

        Args:
            start: New start, a stream position in samples.
            hop: Number of samples between two frames.

        Returns:
            Whether the start has changed.
        """
        distance = start - self.start
        if distance == 0:
            return False
        on_grid = distance > 0 and distance % hop == 0
        num_dropped = distance // hop if on_grid else len(self.frames)
        self.frames = self.frames[num_dropped:].clone()
        self.start = start
        return True

    def extend(self, frames: Tensor) -> None:
        """Append new frames."""
        self.frames = torch.cat([self.frames, frames])
