"""From encoder frames to the decoder's embeddings: 48 frames per chunk become 12. Knows neither side's insides."""

import torch.nn.functional as F
from torch import Tensor, nn

CHUNK_EMBEDDINGS = 12  # per 960 ms


class Adapter(nn.Module):
    """Two convolutions (kernel 2, stride 2, no padding) and a linear layer (section 3.2)."""

    def __init__(self, *, hidden: int, embedding: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(hidden, hidden, kernel_size=2, stride=2)
        self.second = nn.Conv1d(hidden, hidden, kernel_size=2, stride=2)
        self.projection = nn.Linear(hidden, embedding)

    def forward(self, frames: Tensor) -> Tensor:
        """(batch, 4 n, hidden) to (batch, n, embedding)."""
        shrunk = self.second(F.gelu(self.first(frames.transpose(1, 2))))
        return self.projection(shrunk.transpose(1, 2))
