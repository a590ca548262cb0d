"""Files of which libsndfile reads a part: MP3, and Ogg, FLAC and others that were joined.

libsndfile takes the number of samples of an MP3 from its first frame (Xing, Info). Where that is
missing, as in recordings of broadcasts and in cut files, it guesses the number; where files were
joined, it is the number of the first one. Of other joined files it reads the first one, and of
truncated Ogg files what is there. FFmpeg's libraries, which PyAV ships, decode such files to their
end; joined AU, CAF and RF64 files are refused.
"""

import io
import logging
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import soundfile

from zoo.disk.tar_members import last_change, open_stored, size_of
from zoo.errors import ZooError
from zoo.types import Samples

logger = logging.getLogger(__name__)

Block = npt.NDArray[np.float32]  # (n, channels)
# A first frame with the number of frames lies in the first kilobytes behind tags.
COUNTS = (b"Xing", b"Info", b"VBRI")
HEAD = 4096  # bytes behind the tags at the start of an MP3
# Samples of MP3 frames that decoders leave out: their delay, and the padding of the last frame.
FRAME: Samples = 1152
PADDING: Samples = 3 * FRAME
TAGS = "replace"  # what becomes of letters in another encoding
MOST_DAMAGED = 0.1  # largest share of frames that may be no audio
OGG_PAGE = 27  # bytes of the header of a page without its table of segments
OGG_FIRST, OGG_LAST = 2, 4  # flags of the first and the last page of a stream
FLAC_HEADS = (b"fLaC\0\0\0\x22", b"fLaC\x80\0\0\x22")  # mark and header of the first block
READ_AHEAD = 1 << 17  # bytes; libsndfile reads fewer beyond the end of a FLAC file
UNKNOWN: Samples = 1 << 62  # libsndfile's number of samples of a FLAC file that was streamed


def is_read_in_part(path: Path, file: soundfile.SoundFile) -> bool:
    """Return whether libsndfile reads another number of samples than a file has.

    Args:
        path: audio file, also in an archive.
        file: the open file.

    Raises:
        ZooError: the file is truncated or damaged, or a joined file that cannot be decoded.
    """
    if file.format not in ("MP3", "OGG", "FLAC", *SECOND_FILES):
        return False
    facts = str(path), size_of(path), last_change(path)
    if file.format in SECOND_FILES:
        _refuse_joined(file.format, *facts)
        return False
    if file.format == "OGG":
        return _is_joined_ogg(*facts)
    if file.format == "FLAC":
        return file.frames > UNKNOWN or _is_joined_flac(*facts)
    counted, samples = _mp3_facts(*facts)
    if counted and samples + PADDING < file.frames:
        raise ZooError(
            f"Audio file {path} is truncated: it has {samples} of {file.frames} samples."
        )
    return not counted or samples > file.frames + PADDING


def decode(path: Path) -> Iterator[tuple[int, Block]]:
    """Yield the samples of a file to its end, with their sample rate.

    Args:
        path: audio file, also in an archive.

    Raises:
        ZooError: the file is damaged.
    """
    import av  # a slow import, which other files do not need

    packets = damaged = 0
    with _opened(path) as container:
        for packet in container.demux(audio=0):
            packets += 1
            try:
                frames = packet.decode()
            except av.InvalidDataError:  # such as the tags of the second one of joined files
                damaged += 1
                continue
            yield from ((frame.sample_rate, samples_of(frame)) for frame in frames)
    if damaged > MOST_DAMAGED * packets:
        raise ZooError(f"Audio file {path} is damaged: {damaged} of {packets} frames are no audio.")


def samples_of(frame: Any) -> Block:
    """Return the samples of a frame of PyAV, which may be integers and interleaved.

    Args:
        frame: A frame that was decoded.
    """
    values = frame.to_ndarray()
    if not frame.format.is_planar:
        values = values.reshape(-1, frame.layout.nb_channels).T
    if values.dtype == np.uint8:
        values = (values - 128.0) / 128
    if np.issubdtype(values.dtype, np.integer):
        values = values / -float(np.iinfo(values.dtype).min)
    return np.asarray(values.T, dtype=np.float32)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file with FFmpeg's libraries. Raises ZooError for errors of the file."""
    import av  # a slow import, which other files do not need

    try:
        with (
            open_stored(path) as content,
            av.open(content, metadata_errors=TAGS) as container,
        ):
            yield container
    except (av.FFmpegError, IndexError) as error:  # no audio stream
        raise ZooError(f"Audio file {path} is damaged or not audio ({error}).") from error


@lru_cache(maxsize=100_000)  # files of a corpus, of which segments are loaded in any order
def _mp3_facts(name: str, size: int, modified: int) -> tuple[bool, Samples]:
    """Return whether an MP3 has the number of its frames, and the samples that its frames have.

    Args:
        name: path of the file.
        size: bytes; like the time of modification, another one means another content.
        modified: time of modification.
    """
    path = Path(name)
    with open_stored(path) as file:
        start = 0
        while (head := _bytes_at(file, start, 10))[:3] == b"ID3":
            start += 10 + sum(
                (byte & 127) << 7 * (3 - place) for place, byte in enumerate(head[6:])
            )
        counted = any(word in _bytes_at(file, start, HEAD) for word in COUNTS)
    with _opened(path) as container:
        stream = container.streams.audio[0]
        ticks = sum(packet.duration or 0 for packet in container.demux(stream))
        return counted, round(ticks * stream.time_base * stream.rate)


@lru_cache(maxsize=100_000)
def _is_joined_ogg(name: str, size: int, modified: int) -> bool:
    """Return whether another Ogg file follows the first one; arguments as ``_mp3_facts``.

    Raises ZooError if the file ends in a page.
    """
    last = OGG_LAST
    first_ones = True  # the first pages of all streams precede the others
    with open_stored(Path(name)) as file:
        start = 0
        while (head := _bytes_at(file, start, OGG_PAGE))[:4] == b"OggS":
            table = file.read(head[26]) if len(head) == OGG_PAGE else b""
            start += OGG_PAGE + len(table) + sum(table)
            if len(head) < OGG_PAGE or len(table) < head[26] or start > size:
                raise ZooError(f"Audio file {name} is truncated: it ends in a page of its audio.")
            if head[5] & OGG_FIRST and not first_ones:
                return True
            first_ones = first_ones and bool(head[5] & OGG_FIRST)
            last = head[5]
    if not last & OGG_LAST:
        logger.warning("Audio file %s has no last page; it may be truncated.", name)
    return False


@lru_cache(maxsize=100_000)
def _is_joined_flac(name: str, size: int, modified: int) -> bool:
    """Return whether another FLAC file follows the first one; arguments as ``_mp3_facts``."""
    with open_stored(Path(name)) as content, soundfile.SoundFile(content) as file:
        file.seek(file.frames - 1)
        file.read(1)
        content.seek(max(content.tell() - READ_AHEAD, len(FLAC_HEADS[0])))
        rest = content.read()
    return any(head in rest for head in FLAC_HEADS)


def _refuse_joined(format: str, name: str, size: int, modified: int) -> None:
    """Raise ZooError if another file of this format follows the first one."""
    with open_stored(Path(name)) as file:
        second = SECOND_FILES[format](file)
        mark = _bytes_at(file, 0, 4)
        if second + len(mark) <= size and _bytes_at(file, second, 4) == mark:
            raise ZooError(
                f"Audio file {name} is several {format} files that were joined, of which only the "
                "first would be read; write them as one WAV or FLAC file."
            )


def _end_of_au(file: BinaryIO | io.BufferedReader) -> int:
    """Return the position after the samples; far beyond the end if the header has no size."""
    offset, samples = struct.unpack(">2I", _bytes_at(file, 4, 8).ljust(8, b"\0"))
    return int(offset + samples)


def _end_of_rf64(file: BinaryIO | io.BufferedReader) -> int:
    """Return the position after the file that the first header declares."""
    (declared,) = struct.unpack("<Q", _bytes_at(file, 20, 8).ljust(8, b"\0"))
    return int(declared + 8)


def _end_of_caf(file: BinaryIO | io.BufferedReader) -> int:
    """Return the position of the first chunk that has the mark of a file, or after all chunks."""
    start = 8
    while len(head := _bytes_at(file, start, 12)) == 12 and head[:4] != b"caff":
        (length,) = struct.unpack(">q", head[4:])
        if length < 0:  # the samples go on to the end of the file
            break
        start += len(head) + length
    return start


# The position at which another file of the same format may follow.
SECOND_FILES: dict[str, Callable[[BinaryIO | io.BufferedReader], int]] = {
    "AU": _end_of_au,
    "CAF": _end_of_caf,
    "RF64": _end_of_rf64,
}


def _bytes_at(file: BinaryIO | io.BufferedReader, start: int, count: int) -> bytes:
    file.seek(start)
    return file.read(count)
