"""A process that decodes the files of a stream: messages on stdin lead to records on stdout.

FFmpeg's libraries ask for bytes and wait for them, so no file is stored and none is decoded twice.
A file of a stranger may crash them or fill the memory: that ends this process, not the server.
"""

import os
import resource
import signal
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import BinaryIO

import numpy as np

from zoo.base.audio.ffmpeg import MOST_DAMAGED, TAGS, samples_of
from zoo.base.audio.timeline import Block

# Bytes that follow, whether the file ends with them, and FFmpeg's name of its format.
MESSAGE = struct.Struct("<I?9p")
# Sample rate and number of the mono float32 samples that follow. If the rate is 0: the bytes of a
# text that states why the file cannot be decoded, or 0 when all bytes of the message are decoded.
RECORD = struct.Struct("<II")

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
MEMORY = 1 << 30  # bytes


class Messages:
    """The bytes of the messages of a file, as a file.

    Args:
        source: The messages.
        output: Output of the decoder.

    Attributes:
        demuxer: FFmpeg's name of the format; empty: there is no further file.
        is_final: Whether the last message of the file has been read.
    """

    def __init__(self, source: BinaryIO, output: "Output") -> None:
        self._source = source
        self._output = output
        self._read_message()

    def read(self, size: int) -> bytes:
        """Return the next bytes, ``size`` or less; none at the end.

        Args:
            size: Most bytes.
        """
        if self._output.without_audio > MOST_WITHOUT_AUDIO:
            return b""
        while self._place == len(self._data):
            if self.is_final:
                return b""
            self._output.finish_message()
            self._read_message()
        data = self._data[self._place : self._place + size]
        self._place += len(data)
        self._output.without_audio += len(data)
        return data

    def _read_message(self) -> None:
        head = self._source.read(MESSAGE.size)
        length, self.is_final, demuxer = MESSAGE.unpack(head) if head else (0, True, b"")
        self.demuxer = demuxer.decode()
        self._data, self._place = self._source.read(length), 0


class Output:
    """The records that are written, of a second or less.

    Args:
        target: Where they are written.

    Attributes:
        without_audio: Bytes that were read since the last samples.
    """

    def __init__(self, target: BinaryIO) -> None:
        self.without_audio = 0
        self._target = target
        self._blocks: list[Block] = []
        self._rate = 0

    def add(self, rate: int, samples: Block) -> None:
        """Add the samples of a frame.

        Args:
            rate: Samples per second.
            samples: (n, channels).
        """
        if rate != self._rate:
            self._write_samples()
            self._rate = rate
        self._blocks.append(samples.mean(axis=1))
        self.without_audio = 0
        if sum(map(len, self._blocks)) >= rate:
            self._write_samples()

    def finish_message(self) -> None:
        """Write what has been decoded, and that there is no more."""
        self._write_samples()
        self._write(RECORD.pack(0, 0))

    def refuse(self, reason: str) -> None:
        """Write what has been decoded, and why there is no more.

        Args:
            reason: Part of a sentence.
        """
        self._write_samples()
        text = reason.encode(errors="replace")
        self._write(RECORD.pack(0, len(text)) + text)

    def _write_samples(self) -> None:
        if self._blocks:
            samples = np.concatenate(self._blocks).astype("<f4")
            self._blocks = []
            self._write(RECORD.pack(self._rate, len(samples)) + samples.tobytes())

    def _write(self, data: bytes) -> None:
        self._target.write(data)
        self._target.flush()


def frames_of(source: Messages) -> Iterator[tuple[int, Block]]:
    """Yield the sample rate and the samples of each frame.

    Args:
        source: The file.

    Raises:
        ValueError: It has no audio that may be decoded, or most of it is damaged.
    """
    import av  # a slow import, which other formats do not need

    options = {**OPTIONS, **(WAV_OPTIONS if source.demuxer == "wav" else {})}
    content = SimpleNamespace(read=source.read)
    packets = damaged = 0
    with av.open(content, "r", source.demuxer, options, metadata_errors=TAGS) as file:
        if not file.streams.audio:
            raise ValueError("it has no audio")
        stream = file.streams.audio[0]
        codec = stream.codec_context  # None: of a kind that FFmpeg does not know
        if codec is None or codec.name not in DECODERS:
            raise ValueError(f"its audio is {codec.name if codec else 'of no known kind'}")
        for packet in file.demux(stream):
            packets += 1
            try:
                frames = packet.decode()
            except av.InvalidDataError as error:
                damaged += 1
                if damaged > FEW_DAMAGED + MOST_DAMAGED * packets:
                    raise ValueError("most of it is damaged") from error
                continue
            yield from ((frame.sample_rate, samples_of(frame)) for frame in frames)


def decode(source: BinaryIO, target: BinaryIO) -> bool:
    """Decode a file to its end.

    Args:
        source: Messages with its bytes.
        target: Where records are written.

    Returns:
        Whether another file may follow.
    """
    output = Output(target)
    messages = Messages(source, output)
    if not messages.demuxer:
        return False
    reason: str | None = None
    try:
        for rate, samples in frames_of(messages):
            output.add(rate, samples)
    except Exception as error:  # any fault of a file ends its stream, and nothing else
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if output.without_audio > MOST_WITHOUT_AUDIO:
        reason = f"{MOST_WITHOUT_AUDIO >> 20} MiB of it have no audio"
    output.refuse(reason.rstrip(".")) if reason else output.finish_message()
    return messages.is_final and not reason


def main() -> None:
    """Decode the files on stdin, one after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, which closes stdin
    os.nice(5)
    with suppress(ValueError, OSError):  # not everywhere
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    with suppress(BrokenPipeError):  # the server reads no more
        while decode(sys.stdin.buffer, sys.stdout.buffer):
            pass


if __name__ == "__main__":
    main()
