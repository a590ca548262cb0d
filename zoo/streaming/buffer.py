"""Audio of any length as the chunks that a system receives."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from zoo.base.types import Samples, SpeechChunk


class ChunkBuffer:
    """Divides live audio into chunks of one size, those of an evaluation.

    Audio that does not fill a chunk waits for more audio or for the end of the stream.

    Args:
        size: samples of a chunk.
    """

    def __init__(self, size: Samples) -> None:
        self._size = size
        self._waiting = torch.zeros(0)  # samples of no chunk yet

    def receive(self, samples: Tensor, *, final: bool = False) -> list[SpeechChunk]:
        """Return the chunks that new audio completes.

        Args:
            samples: (n,) float32 at 16 kHz.
            final: whether the stream ends with these samples. The last chunk is final then, and
                shorter than the others or empty.
        """
        self._waiting = torch.cat([self._waiting, samples])
        chunks: list[SpeechChunk] = []
        # The last full chunk of a stream that ends here is the final one.
        while (left := self._waiting.numel()) > self._size or (left == self._size and not final):
            chunks.append(SpeechChunk(self._waiting[: self._size].clone()))
            self._waiting = self._waiting[self._size :]
        if final:
            chunks.append(SpeechChunk(self._waiting, final=True))
            self._waiting = torch.zeros(0)
        return chunks


def live_chunks(pieces: Iterable[Tensor], size: Samples) -> Iterator[SpeechChunk]:
    """Yield the chunks of live audio, each as soon as it is complete.

    Args:
        pieces: (n,) samples at 16 kHz, pieces of any length; the stream ends with them.
        size: samples of a chunk.
    """
    buffer = ChunkBuffer(size)
    for piece in pieces:
        yield from buffer.receive(piece)
    yield from buffer.receive(torch.zeros(0), final=True)
