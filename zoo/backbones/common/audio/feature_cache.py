"""What was analysed of a live stream and need not be analysed again. Knows neither audio nor features."""

from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.types import Samples


@dataclass(slots=True, eq=False)
class Analysed:
    """What is known of one stream. frames: (n, width) features. start: stream position of the first (samples).

    Only frames whose whole window was heard are kept, so none of them changes as the stream goes on.
    """

    frames: Tensor
    start: Samples = 0

    def move(self, start: Samples, *, hop: Samples) -> bool:
        """Drop the frames before stream position ``start``; all of them where they do not lie on its grid.

        hop: samples between two frames. Whether the position is another one than before.
        """
        moved = start - self.start
        if moved:
            gone = moved // hop if moved > 0 and moved % hop == 0 else len(self.frames)
            self.frames, self.start = self.frames[gone:].clone(), start
        return moved != 0

    def extend(self, frames: Tensor) -> None:
        """Append newly analysed frames."""
        self.frames = torch.cat([self.frames, frames])
