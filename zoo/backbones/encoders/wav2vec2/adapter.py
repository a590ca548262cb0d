"""From encoder frames to the decoder's embeddings: 48 frames per chunk become 12."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.base.types import Frames

CHUNK_EMBEDDINGS = 12  # speech embeddings per chunk of 960 ms
MERGED: Frames = 4  # encoder frames per speech embedding


class Adapter(nn.Module):
    """Network from encoder frames to speech embeddings (InfiniSST, section 3.2).

    The adapter consists of two convolutions (kernel 2, stride 2, no padding) and a linear layer.
    """

    def __init__(self, *, hidden: int, embedding: int, norm: bool = False) -> None:
        """Create the layers.

        Args:
            hidden: Size of the encoder's hidden states.
            embedding: Size of the decoder's embeddings.
            norm: Whether a layer norm and a GELU follow each convolution, as in the released code.
                The convolutions then have no bias. If False, a single GELU stands between the two
                convolutions.
        """
        super().__init__()
        self.first = nn.Conv1d(hidden, hidden, kernel_size=2, stride=2, bias=not norm)
        self.second = nn.Conv1d(hidden, hidden, kernel_size=2, stride=2, bias=not norm)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(2)) if norm else None
        self.projection = nn.Linear(hidden, embedding)

    def forward(self, frames: Tensor) -> Tensor:
        """Map encoder frames (batch, 4 n, hidden) to speech embeddings (batch, n, embedding)."""
        if self.norms is None:
            shrunk = self.second(F.gelu(self.first(frames.transpose(1, 2)))).transpose(1, 2)
        else:
            shrunk = frames
            for convolution, norm in zip((self.first, self.second), self.norms, strict=True):
                shrunk = F.gelu(norm(convolution(shrunk.transpose(1, 2)).transpose(1, 2)))
        embeddings: Tensor = self.projection(shrunk)
        return embeddings


def pad_to_multiple(audio: Tensor, size: int) -> Tensor:
    """Pad samples (n,) or frames (n, hidden) with zeros to a multiple of ``size``."""
    missing = -len(audio) % size
    return torch.cat([audio, audio.new_zeros(missing, *audio.shape[1:])])
