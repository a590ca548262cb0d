"""Sizes in headers that do not fit the file: files that were cut, that were joined, and streams.

libsndfile and FFmpeg read what is there of a file that was cut, and the first one of most joined
files. A program that writes to a pipe, or that was ended, leaves a placeholder for the size; the
samples of such a file go on to its end.
"""

import io
import logging
import re
import struct
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Literal

from zoo.base.disk.tar_members import open_stored, size_of
from zoo.base.errors import ZooError

logger = logging.getLogger(__name__)

File = BinaryIO | io.BufferedReader
# Placeholders are the largest numbers of a size, or less by a header or a block: 0xFFFFFFFF of
# FFmpeg, 0x7FFFF000 of SoX, 0x7FFF0000 of GStreamer. A size that lies there by chance is rare.
LARGEST = (1 << 31, 1 << 32, 1 << 63, 1 << 64)
BELOW = 1 << 16
UNKNOWN = LARGEST[-1]  # stands for a size that the header does not give
ASF_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
NIST = re.compile(rb"(sample_count|channel_count|sample_n_bytes) -i (\d+)")


@lru_cache(maxsize=100_000)  # files of a corpus, of which segments are loaded in any order
def check_sizes(path: Path, format: str, modified: int) -> None:
    """Check that a file has the size that its header declares.

    Args:
        path: the file, also in an archive.
        format: its format as libsndfile or FFmpeg names it; others are not checked.
        modified: time of modification; another one means another content.

    Raises:
        ZooError: the file is truncated, or another file of the format follows it.
    """
    if format not in ENDS:
        return
    size = size_of(path)
    with open_stored(path) as file:
        end = ENDS[format](file)
        if size < end and not any(-BELOW <= end - one <= BELOW for one in LARGEST):
            raise ZooError(f"Audio file {path} is truncated: it has {size} of {end} bytes.")
        mark, rest = bytes_at(file, 0, 4), bytes_at(file, end, 5) if end < size else b""
    if mark in (rest[:4], rest[1:]):  # a byte may lie between
        raise ZooError(
            f"Audio file {path} is several files that were joined, of which only the first would "
            "be read; write them as one WAV or FLAC file."
        )
    if mark == b"RIFF" and rest and not re.match(rb"\0?([ -~]{4}|TAG|\0)|\0", rest):
        logger.warning(
            "Audio file %s goes on for %d bytes after the samples that its header declares, which "
            "are not read; the recording may have been interrupted.",
            path,
            size - end,
        )


def bytes_at(file: File, start: int, count: int) -> bytes:
    """Return up to ``count`` bytes of a file from a position."""
    file.seek(start)
    return file.read(count)


def _end_of_samples(file: File, order: Literal["<", ">"], name: bytes) -> int:
    """Return the position after the chunk with the samples of a WAV (``<``) or AIFF file."""
    start = 12
    while len(head := bytes_at(file, start, 8)) == 8:
        (length,) = struct.unpack(f"{order}I", head[4:])
        if head[:4] == name:  # a recorder that was ended has not written the size
            return start + len(head) + length if length else UNKNOWN
        start += len(head) + length + length % 2
    return 0


def _end_of_au(file: File) -> int:
    offset, samples = struct.unpack(">2I", bytes_at(file, 4, 8).ljust(8, b"\0"))
    return int(offset + samples)


def _end_of_rf64(file: File) -> int:
    (declared,) = struct.unpack("<Q", bytes_at(file, 20, 8).ljust(8, b"\0"))
    return int(declared + 8) if declared else UNKNOWN


def _end_of_w64(file: File) -> int:
    (declared,) = struct.unpack("<Q", bytes_at(file, 16, 8).ljust(8, b"\0"))
    return int(declared) or UNKNOWN


def _end_of_caf(file: File) -> int:
    """Return the position of the first chunk that has the mark of a file, or after all chunks."""
    start = 8
    while len(head := bytes_at(file, start, 12)) == 12 and head[:4] != b"caff":
        (length,) = struct.unpack(">q", head[4:])
        if length < 0:  # the samples go on to the end of the file
            return UNKNOWN
        start += len(head) + length
    return start


def _end_of_nist(file: File) -> int:
    head = bytes_at(file, 0, 1024)
    numbers = {match[1]: int(match[2]) for match in NIST.finditer(head)}
    if len(numbers) < 3 or not head[8:16].strip().isdigit():
        return 0
    count, channels, width = (
        numbers[name] for name in (b"sample_count", b"channel_count", b"sample_n_bytes")
    )
    return int(head[8:16]) + count * channels * width


def _end_of_boxes(file: File) -> int:
    """Return the position after the boxes of an MP4, M4A or MOV file, or before another file."""
    start = 0
    while len(head := bytes_at(file, start, 16)) >= 8 and (not start or head[4:8] != b"ftyp"):
        (length,) = struct.unpack(">I", head[:4])
        if length == 1 and len(head) == 16:
            (length,) = struct.unpack(">Q", head[8:])
        if length < 8:  # the last box goes on to the end of the file, or zeros follow
            return UNKNOWN
        start += length
    return start


def _end_of_matroska(file: File) -> int:
    """Return the position after the segment of a Matroska or WebM file."""
    start = 4 + sum(_ebml_number(file, 4))  # after the header
    digits, length = _ebml_number(file, start + 4)
    is_segment = bytes_at(file, start, 4) == b"\x18\x53\x80\x67"
    return min(UNKNOWN, start + 4 + digits + length) if is_segment else 0


def _ebml_number(file: File, start: int) -> tuple[int, int]:
    """Return the number of bytes of a number of EBML, and its value."""
    content = bytes_at(file, start, 8).ljust(8, b"\0")
    count = 9 - content[0].bit_length()
    most = (1 << 7 * count) - 1
    value = int.from_bytes(content[:count], "big") & most
    return count, UNKNOWN if value == most else value


def _end_of_avi(file: File) -> int:
    """Return the position after the parts of an AVI file."""
    start = 0
    while (head := bytes_at(file, start, 12))[:4] == b"RIFF" and len(head) == 12:
        if start and head[8:] != b"AVIX":
            break
        (length,) = struct.unpack("<I", head[4:8])
        if not length:
            return UNKNOWN
        start += 8 + length + length % 2
    return start


def _end_of_asf(file: File) -> int:
    """Return the size of a WMA file in its header."""
    head = bytes_at(file, 0, 1 << 14)
    place = head.find(ASF_PROPERTIES)
    if place < 0 or len(head) < place + 92:
        return 0
    (size,) = struct.unpack_from("<Q", head, place + 40)
    (flags,) = struct.unpack_from("<I", head, place + 88)
    return UNKNOWN if flags & 1 else int(size)  # 1: it was written as a stream


def _end_of_wav(file: File) -> int:
    return _end_of_samples(file, "<", b"data")


def _end_of_aiff(file: File) -> int:
    return _end_of_samples(file, ">", b"SSND")


# Position after the file by its header; 0 if the header has another form.
ENDS: dict[str, Callable[[File], int]] = {
    **dict.fromkeys(("WAV", "WAVEX", "wav"), _end_of_wav),
    **dict.fromkeys(("AIFF", "aiff"), _end_of_aiff),
    **dict.fromkeys(("AU", "au"), _end_of_au),
    **dict.fromkeys(("CAF", "caf"), _end_of_caf),
    **dict.fromkeys(("W64", "w64"), _end_of_w64),
    "RF64": _end_of_rf64,
    "NIST": _end_of_nist,
    "mov,mp4,m4a,3gp,3g2,mj2": _end_of_boxes,
    "matroska,webm": _end_of_matroska,
    "avi": _end_of_avi,
    "asf": _end_of_asf,
}
