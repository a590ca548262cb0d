"""Speech from a microphone as chunks, through sounddevice (PortAudio)."""

import queue
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import soxr
import torch
from torch import Tensor

from zoo.apps.translate.live import PATIENCE, Stop
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Samples, SpeechChunk

Block = npt.NDArray[np.float32]  # (n, 1) samples that the sound card has recorded
Receive = Callable[[Block, bool], None]  # a block, and whether samples before it were lost
Device = bool | int | str | None


class Microphone(Protocol):
    """A sound card that records in a thread of its own.

    Attributes:
        rate: sampling rate in hertz.
    """

    rate: int

    def recording(self, receive: Receive) -> AbstractContextManager[Any]:
        """Return a context manager; in its block ``receive`` is called with each block."""


class SoundDevice:
    """A microphone of this machine at 16 kHz, or at its own rate if it does not record at 16 kHz.

    Args:
        device: number or name of a device of sounddevice; True: the default device.

    Raises:
        ZooError: ``device`` is of another kind, sounddevice is not installed, or there is no such
            microphone.
    """

    def __init__(self, device: Device) -> None:
        if device is False or not isinstance(device, bool | int | str):
            raise ZooError(
                "microphone must be true, null, or the number or name of a device, not "
                f"{str(device).lower() if device is False else device}."
            )
        self._sounddevice = _sounddevice()
        self._device = None if device is True else device
        try:
            self.rate = self._supported_rate()
        except (self._sounddevice.PortAudioError, ValueError) as error:
            name = "" if device is True else f" {device!r}"
            raise ZooError(
                f"There is no microphone{name} ({error}); python -m sounddevice lists the devices."
            ) from error

    def _supported_rate(self) -> int:
        try:
            self._sounddevice.check_input_settings(
                device=self._device, channels=1, dtype="float32", samplerate=SAMPLE_RATE
            )
        except self._sounddevice.PortAudioError:
            device = self._sounddevice.query_devices(self._device, "input")
            return int(device["default_samplerate"])
        return SAMPLE_RATE

    def recording(self, receive: Receive) -> AbstractContextManager[Any]:
        """Record mono float32; see ``Microphone``."""

        def callback(block: Block, frames: int, time: object, status: Any) -> None:
            receive(block.copy(), bool(status.input_overflow))

        stream: AbstractContextManager[Any] = self._sounddevice.InputStream(
            device=self._device,
            channels=1,
            dtype="float32",
            samplerate=self.rate,
            callback=callback,
        )
        return stream


def _sounddevice() -> ModuleType:
    """Import sounddevice. Raises ZooError if it or PortAudio is missing."""
    try:
        import sounddevice
    except (ImportError, OSError) as error:  # OSError: PortAudio is not installed
        raise ZooError(
            f"A microphone needs sounddevice and PortAudio ({error}): "
            "pip install 'simulzoo[microphone]'; on Debian also apt install libportaudio2."
        ) from error
    module: ModuleType = sounddevice
    return module


class Capture:
    """Chunks of a microphone; recording goes on while a system computes.

    Args:
        microphone: the microphone.
        size: samples of a chunk.
        stop: ends the recording.

    Attributes:
        recorded: chunks that were yielded.
        lost: number of times that the sound card has lost samples.
    """

    def __init__(self, microphone: Microphone, *, size: Samples, stop: Stop) -> None:
        self.recorded: list[Tensor] = []
        self.lost = 0
        self._microphone = microphone
        self._size = size
        self._stop = stop
        self._blocks: queue.Queue[Block] = queue.Queue()

    def __iter__(self) -> Iterator[SpeechChunk]:
        """Yield each chunk once it is recorded; after a stop the rest is the final chunk."""
        waiting = np.zeros(0, np.float32)
        with self._microphone.recording(self._receive):
            for samples in self._resampled():
                waiting = np.concatenate([waiting, samples])
                while len(waiting) >= self._size:
                    yield self._chunk(waiting[: self._size])
                    waiting = waiting[self._size :]
        yield self._chunk(waiting if len(waiting) else np.zeros(1, np.float32), final=True)

    def _receive(self, block: Block, lost: bool) -> None:
        """Keep a block; called in the thread of the sound card."""
        self.lost += lost
        self._blocks.put(block)

    def _resampled(self) -> Iterator[Block]:
        """Yield (n,) samples at 16 kHz until the stop."""
        rate = self._microphone.rate
        resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1) if rate != SAMPLE_RATE else None
        while not self._stop.requested or not self._blocks.empty():
            try:
                block = self._blocks.get(timeout=PATIENCE)[:, 0]
            except queue.Empty:
                continue
            yield resampler.resample_chunk(block) if resampler else block

    def _chunk(self, samples: Block, *, final: bool = False) -> SpeechChunk:
        self.recorded.append(torch.from_numpy(samples.copy()))
        return SpeechChunk(self.recorded[-1], final=final)
