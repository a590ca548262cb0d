"""Audio of clients: 16-bit samples of any rate, resampled to 16 kHz as they arrive."""

import numpy as np
import soxr
import torch
from torch import Tensor

from zoo.errors import ZooError
from zoo.types import SAMPLE_RATE

LOWEST, HIGHEST = 4_000, 384_000  # samples per second
BYTES = 2  # of a sample


class AudioInput:
    """Converts the audio of one stream.

    Args:
        sample_rate: Samples per second of the client.

    Raises:
        ZooError: The rate is no number from ``LOWEST`` to ``HIGHEST``.
    """

    def __init__(self, sample_rate: object = SAMPLE_RATE) -> None:
        is_number = isinstance(sample_rate, int | float) and not isinstance(sample_rate, bool)
        if not is_number or not LOWEST <= sample_rate <= HIGHEST:  # type: ignore[operator]
            raise ZooError(
                f"sample_rate must be a number from {LOWEST} to {HIGHEST} Hz, not {sample_rate!r}."
            )
        self._resampler = None
        if sample_rate != SAMPLE_RATE:
            self._resampler = soxr.ResampleStream(sample_rate, SAMPLE_RATE, 1, dtype="float32")

    def receive(self, data: bytes, *, final: bool = False) -> Tensor:
        """Return samples (n,), float32 at 16 kHz.

        Args:
            data: 16-bit samples, the low byte first.
            final: Whether the audio ends with them.

        Raises:
            ZooError: The number of bytes is odd.
        """
        if len(data) % BYTES:
            raise ZooError(
                f"Audio has 16-bit samples, but a message has {len(data)} bytes, an odd number."
            )
        samples = np.frombuffer(data, dtype="<i2").astype(np.float32) / 32768
        if self._resampler is not None:
            samples = self._resampler.resample_chunk(samples, last=final)
        return torch.from_numpy(np.ascontiguousarray(samples))
