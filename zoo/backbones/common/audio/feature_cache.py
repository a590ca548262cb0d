"""Feature frames of a live stream that need not be computed again."""

from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.types import Samples


@dataclass(slots=True, eq=False)
class FeatureCache:
    """Frames whose whole window has been received; none of them changes as the stream goes on.

    Attributes:
        frames: (n, width).
        start: Stream position of the first frame, in samples.
    """

    frames: Tensor
    start: Samples = 0

    def move(self, start: Samples, *, hop: Samples) -> bool:
        """Drop the frames before a stream position; all frames if they do not lie on its grid.

        Args:
            start: Stream position, in samples.
            hop: Samples between two frames.

        Returns:
            Whether the position has changed.
        """
        moved = start - self.start
        if moved:
            dropped = moved // hop if moved > 0 and moved % hop == 0 else len(self.frames)
            self.frames, self.start = self.frames[dropped:].clone(), start
        return moved != 0

    def extend(self, frames: Tensor) -> None:
        """Append new frames."""
        self.frames = torch.cat([self.frames, frames])
