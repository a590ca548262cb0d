"""Files that arrive piece by piece, such as WebM of a browser, decoded as far as they are there.

FFmpeg's libraries, which PyAV ships, ask for bytes and wait for them. They run in a thread of
their own that waits for the next message, so no file is stored and none is decoded twice.
"""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from zoo.audio.compressed import MOST_DAMAGED, samples_of
from zoo.live.formats import CHOICES, Container, Samples, UnusableAudio
from zoo.types import Seconds

Piece = tuple[int, Samples]  # sample rate, mono samples

# What may be decoded. Formats that name other files, and decoders of pictures, are not among them.
DECODERS = (
    *("opus", "libopus", "vorbis", "mp3", "mp3float", "aac", "flac", "pcm_alaw", "pcm_mulaw"),
    *("pcm_u8", "pcm_s16le", "pcm_s24le", "pcm_s32le", "pcm_f32le", "pcm_f64le"),
)
OPTIONS = {
    "codec_whitelist": ",".join(DECODERS),
    "protocol_whitelist": "none",  # nothing else is opened
    "probesize": "32",  # the least; the first bytes have named the format
}
WAV_OPTIONS = {"max_size": "1024"}  # bytes of a packet, which is decoded when it is complete
MOST_WITHOUT_AUDIO = 8 << 20  # bytes, such as those of a picture before the audio
FEW_DAMAGED = 10  # packets, of any number
PATIENCE: Seconds = 60.0  # for the decoder to decode a piece


class Decoder:
    """Decodes one file.

    Args:
        container: What the file is; it has a demuxer.
    """

    def __init__(self, container: Container) -> None:
        self._name = container.name
        self._changed = threading.Condition()
        self._input = bytearray()
        self._is_complete = False  # no further input
        self._is_hungry = False  # all input has been decoded as far as possible
        self._is_closed = False
        self._has_ended = False
        self._piece: Piece | None = None  # not taken yet
        self._problem: str | None = None
        self._blocks: list[Samples] = []  # of the next piece
        self._rate = 0
        self._without_audio = 0  # bytes since the last audio
        arguments = (container.demuxer,)
        self._thread = threading.Thread(target=self._run, args=arguments, daemon=True)
        self._thread.start()

    def receive(self, data: bytes, *, final: bool) -> None:
        """Add bytes of the file, after ``piece`` has returned None.

        Args:
            data: Bytes.
            final: Whether the file ends with them.

        Raises:
            UnusableAudio: The file has ended before.
        """
        with self._changed:
            if self._has_ended and data:
                raise self._error("its end has arrived before")
            self._input += data
            self._is_complete = final
            self._is_hungry = False
            self._changed.notify_all()

    def piece(self) -> Piece | None:
        """Return the next samples, a second or less; None: the bytes have no more.

        Raises:
            UnusableAudio: The file cannot be decoded.
        """
        with self._changed:
            if not self._changed.wait_for(self._has_result, PATIENCE):
                raise self._error("the decoder does not end")
            piece, self._piece = self._piece, None
            self._changed.notify_all()
            if piece is None and self._problem is not None:
                raise self._error(self._problem)
            return piece

    def close(self) -> None:
        """End the thread, which decodes no further packet."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _has_result(self) -> bool:
        return self._piece is not None or self._is_hungry or self._has_ended

    def _error(self, reason: str) -> UnusableAudio:
        return UnusableAudio(
            f"The audio begins as {self._name}, which cannot be decoded ({reason}); send {CHOICES}."
        )

    def _run(self, demuxer: str) -> None:
        """Decode until the end of the file."""
        try:
            self._decode(demuxer)
            self._hand_over()
        except Exception as error:
            # Any fault of a file ends its stream, and nothing else.
            self._problem = getattr(error, "strerror", None) or str(error).rstrip(".")
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _decode(self, demuxer: str) -> None:
        import av  # a slow import, which other formats do not need

        options = {**OPTIONS, **(WAV_OPTIONS if demuxer == "wav" else {})}
        packets = damaged = 0
        with av.open(SimpleNamespace(read=self._read), format=demuxer, options=options) as file:
            if not file.streams.audio:
                raise UnusableAudio("it has no audio")
            stream = file.streams.audio[0]
            if stream.codec_context.name not in DECODERS:
                raise UnusableAudio(f"its audio is {stream.codec_context.name}")
            for packet in file.demux(stream):
                packets += 1
                try:
                    frames = packet.decode()
                except av.InvalidDataError as error:
                    damaged += 1
                    if damaged > FEW_DAMAGED + MOST_DAMAGED * packets:
                        raise UnusableAudio("most of it is damaged") from error
                    continue
                for frame in frames:
                    self._add(frame)

    def _add(self, frame: Any) -> None:
        """Add the samples of a frame, averaged over channels, to the next piece."""
        if frame.sample_rate != self._rate:
            self._hand_over()
            self._rate = frame.sample_rate
        self._blocks.append(samples_of(frame).mean(axis=1))
        self._without_audio = 0
        if sum(map(len, self._blocks)) >= self._rate:
            self._hand_over()

    def _hand_over(self) -> None:
        """Offer the next piece, after the one before has been taken."""
        if not self._blocks:
            return
        with self._changed:
            self._wait(lambda: self._piece is None)
            self._piece = self._rate, np.concatenate(self._blocks)
            self._blocks = []
            self._changed.notify_all()

    def _read(self, size: int) -> bytes:
        """Return the next bytes, at most ``size``, for FFmpeg; b"" is the end."""
        with self._changed:
            if not self._input and not self._is_complete:
                self._hand_over()
                self._is_hungry = True
                self._changed.notify_all()
                self._wait(lambda: bool(self._input) or self._is_complete)
                self._is_hungry = False
            data = bytes(self._input[:size])
            del self._input[:size]
            self._without_audio += len(data)
            if self._without_audio > MOST_WITHOUT_AUDIO:
                raise UnusableAudio(f"{MOST_WITHOUT_AUDIO >> 20} MiB of it have no audio")
            return data

    def _wait(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition. Raises UnusableAudio if the decoder has been closed."""
        self._changed.wait_for(lambda: self._is_closed or condition())
        if self._is_closed:
            raise UnusableAudio("the client has left")
