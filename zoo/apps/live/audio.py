"""Audio of clients, in any format and at any rate, as samples at 16 kHz while it arrives."""

from collections.abc import AsyncIterator, Iterator

import numpy as np
import soxr
import torch
from torch import Tensor

from zoo.apps.live import formats
from zoo.apps.live.decoding import Decoder, Piece
from zoo.apps.live.formats import CHOICES, Samples, UnusableAudio
from zoo.base.audio.files import check_values
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE

MOST_UNDECIDED = 1 << 16  # bytes that may be integers or floating-point numbers, from silence on
LOWEST, HIGHEST = 4_000, 384_000  # samples per second
END = np.zeros(0, np.float32)


class AudioInput:
    """Converts the audio of one stream.

    Its first bytes may be those of a file, which is decoded and names its own rate and encoding.

    Args:
        sample_rate: Samples per second of a client that sends bare samples.
        encoding: Name of their encoding, see ``formats.ENCODINGS``.

    Raises:
        ZooError: The rate is no number from ``LOWEST`` to ``HIGHEST``, or the encoding is unknown.
    """

    def __init__(
        self, sample_rate: object = SAMPLE_RATE, encoding: object = formats.DEFAULT
    ) -> None:
        is_number = isinstance(sample_rate, int | float) and not isinstance(sample_rate, bool)
        if not is_number or not LOWEST <= sample_rate <= HIGHEST:  # type: ignore[operator]
            raise ZooError(
                f"sample_rate must be a number from {LOWEST} to {HIGHEST} Hz, not {sample_rate!r}."
            )
        self._sample_rate = float(sample_rate)  # type: ignore[arg-type]
        self._encoding = formats.encoding_of(encoding)
        self._may_be_floats = encoding == formats.DEFAULT
        self._head: bytes | None = b""  # of a format that is not known yet; None: it is known
        self._first = b""  # bare samples that may be floating-point numbers
        self._decoder: Decoder | None = None
        self._rate: float = SAMPLE_RATE  # of the samples before
        self._resampler: soxr.ResampleStream | None = None

    async def receive(self, data: bytes, *, final: bool = False) -> AsyncIterator[Tensor]:
        """Yield samples (n,), float32 at 16 kHz, in pieces of a bounded size.

        Args:
            data: Next bytes.
            final: Whether the audio ends with them.

        Raises:
            UnusableAudio: The audio is in a format that is not decoded, or damaged.
            ZooError: The bytes are no whole number of samples.
        """
        if self._head is not None:
            data = self._head + data
            if not final and formats.is_undecided(data):
                self._head = data
                return
            self._head = None
            self._begin(data)
        elif self._decoder is not None and formats.begins_another(data):
            async for block in self._decoded(b"", final=True):
                yield block
            self._begin(data)
        if self._decoder is None:
            for block in self._resampled(self._sample_rate, self._bare(data)):
                yield block
        async for block in self._decoded(data, final=final):
            yield block
        if final:
            await self.close()
        if final and self._resampler is not None:
            yield _tensor(self._resampler.resample_chunk(END, last=True))

    async def close(self) -> None:
        """End what decodes the audio."""
        if self._decoder is not None:
            await self._decoder.close()

    async def _decoded(self, data: bytes, *, final: bool) -> AsyncIterator[Tensor]:
        """Yield the samples at 16 kHz of the next bytes of a file."""
        if self._decoder is None:
            return
        async for piece in self._decoder.decode(data, final=final):
            for block in self._resampled(*_checked(piece)):
                yield block

    def _begin(self, head: bytes) -> None:
        """Choose how the audio is decoded. Raises UnusableAudio for a file that is not."""
        container = formats.container_of(head)
        if container is None:
            return
        if container.demuxer is None:
            raise UnusableAudio(
                f"The audio is {container.name}, which is not decoded while it arrives; "
                f"send {CHOICES}."
            )
        if self._decoder is None:
            self._decoder = Decoder(container)
        self._decoder.container = container

    def _bare(self, data: bytes) -> Samples:
        """Return the samples of bytes that are nothing else."""
        size = self._encoding.size
        if len(data) % size:
            raise ZooError(
                f"Audio has {8 * size}-bit samples, but a message has {len(data)} bytes, "
                f"no multiple of {size}."
            )
        if self._may_be_floats:
            self._check_integers(data)
        samples = self._encoding.decode(data)
        check_values("The audio", samples)
        return samples

    def _check_integers(self, data: bytes) -> None:
        """Raise UnusableAudio if the first samples that are not silent are no integers."""
        self._first += data
        answer = formats.looks_like_floats(self._first)
        if answer:
            raise UnusableAudio(
                "The audio looks like 32-bit floating-point samples, not 16-bit ones; set encoding "
                "to pcm_f32le, or send samples from -32768 to 32767."
            )
        self._may_be_floats = answer is None and len(self._first) < MOST_UNDECIDED
        if not any(data):  # silence
            self._first = b""

    def _resampled(self, rate: float, samples: Samples) -> Iterator[Tensor]:
        """Yield samples at 16 kHz, after the rest of those of another rate."""
        if rate != self._rate:
            if self._resampler is not None:
                yield _tensor(self._resampler.resample_chunk(END, last=True))
            is_other = rate != SAMPLE_RATE
            self._resampler = (
                soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32") if is_other else None
            )
            self._rate = rate
        yield _tensor(
            samples if self._resampler is None else self._resampler.resample_chunk(samples)
        )


def _checked(piece: Piece) -> Piece:
    """Return what a file has. Raises UnusableAudio for samples or a rate that no audio has."""
    rate, samples = piece
    if not LOWEST <= rate <= HIGHEST:
        raise UnusableAudio(f"The audio has {rate} Hz; allowed are {LOWEST} to {HIGHEST} Hz.")
    try:
        check_values("The audio", samples)
    except ZooError as error:
        raise UnusableAudio(str(error)) from error
    return piece


def _tensor(samples: Samples) -> Tensor:
    return torch.from_numpy(np.require(samples, requirements=["C", "W"]))  # or PyTorch warns
