"""Files of which libsndfile reads a part: MP3, and Ogg and FLAC files that were joined.

libsndfile takes the number of samples of an MP3 from its first frame (Xing, Info). Where that is
missing, as in recordings of broadcasts and in cut files, it guesses the number; where files were
joined, it is the number of the first one. Of joined Ogg and FLAC files it reads the first one, and
of truncated Ogg files what is there. FFmpeg's libraries (``ffmpeg``) decode such files to their
end.
"""

import logging
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import soundfile

from zoo.base.audio.ffmpeg import open_media, sound_track
from zoo.base.audio.sizes import bytes_at
from zoo.base.disk.tar_members import last_change, open_stored, size_of
from zoo.base.errors import ZooError
from zoo.base.types import Samples

logger = logging.getLogger(__name__)

# A first frame with the number of frames lies in the first kilobytes behind tags.
COUNTS = (b"Xing", b"Info", b"VBRI")
HEAD = 4096  # bytes behind the tags at the start of an MP3
# Samples of MP3 frames that decoders leave out: their delay, and the padding of the last frame.
FRAME: Samples = 1152
PADDING: Samples = 3 * FRAME
OGG_PAGE = 27  # bytes of the header of a page without its table of segments
# Flags of a page that begins in a packet, and of the first and the last page of a stream.
OGG_CONTINUED, OGG_FIRST, OGG_LAST = 1, 2, 4
OPUS_RATE, OPUS_LONGEST = 48_000, 5760  # hertz, and samples of the longest packet
FLAC_HEADS = (b"fLaC\0\0\0\x22", b"fLaC\x80\0\0\x22")  # mark and header of the first block
READ_AHEAD = 1 << 17  # bytes; libsndfile reads fewer beyond the end of a FLAC file
UNKNOWN: Samples = 1 << 62  # libsndfile's number of samples of a FLAC file that was streamed


def is_read_in_part(path: Path, file: soundfile.SoundFile) -> bool:
    """Return whether libsndfile reads another number of samples than a file has.

    Args:
        path: audio file, also in an archive.
        file: the open file.

    Raises:
        ZooError: the file is truncated or damaged.
    """
    if file.format not in ("MP3", "OGG", "FLAC"):
        return False
    facts = str(path), size_of(path), last_change(path)
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
        while (head := bytes_at(file, start, 10))[:3] == b"ID3":
            start += 10 + sum(
                (byte & 127) << 7 * (3 - place) for place, byte in enumerate(head[6:])
            )
        counted = any(word in bytes_at(file, start, HEAD) for word in COUNTS)
    with open_media(path) as container:
        stream = sound_track(path, container)
        ticks = sum(packet.duration or 0 for packet in container.demux(stream))
        return counted, round(ticks * stream.time_base * stream.rate)


@lru_cache(maxsize=100_000)
def _is_joined_ogg(name: str, size: int, modified: int) -> bool:
    """Return whether another Ogg file follows the first one; arguments as ``_mp3_facts``.

    Raises ZooError if the file ends in a page or has a gap.
    """
    last = OGG_LAST
    first_ones = True  # the first pages of all streams precede the others
    sound: Samples = 0
    first_end: Samples | None = None  # of the first page with sound
    is_opus = False
    for flags, end, packets in _pages(Path(name), size):
        if flags & OGG_FIRST and not first_ones:
            return True
        first_ones = first_ones and bool(flags & OGG_FIRST)
        is_opus = is_opus or any(one[:8] == b"OpusHead" for one in packets)
        if is_opus and end > 0 and first_end is None:
            first_end = end
        elif is_opus and first_end is not None:
            sound += sum(map(_opus_samples, packets))
            if end > 0 and first_end + sound + OPUS_LONGEST < end:
                # libsndfile repeats what precedes the gap
                raise ZooError(
                    f"Audio file {name} has a gap at {(first_end + sound) / OPUS_RATE:.1f} s by "
                    "its time stamps; write its sound as a WAV or FLAC file."
                )
        last = flags
    if not last & OGG_LAST:
        logger.warning("Audio file %s has no last page; it may be truncated.", name)
    return False


def _pages(path: Path, size: int) -> Iterator[tuple[int, int, list[bytes]]]:
    """Yield flags and time stamp of each page, and the packets that begin in it.

    Raises ZooError if the file ends in a page.
    """
    with open_stored(path) as file:
        start = 0
        while (head := bytes_at(file, start, OGG_PAGE))[:4] == b"OggS":
            table = file.read(head[26]) if len(head) == OGG_PAGE else b""
            start += OGG_PAGE + len(table) + sum(table)
            if len(head) < OGG_PAGE or len(table) < head[26] or start > size:
                raise ZooError(f"Audio file {path} is truncated: it ends in a page of its audio.")
            (end,) = struct.unpack_from("<q", head, 6)
            packets, content, begins = [], file.read(sum(table)), not head[5] & OGG_CONTINUED
            place = 0
            for length in table:
                if begins:
                    packets.append(content[place : place + 8])
                place, begins = place + length, length < 255
            yield head[5], end, packets


def _opus_samples(packet: bytes) -> Samples:
    """Return the samples of a packet of Opus at 48 kHz, by its first two bytes."""
    if not packet:
        return 0
    coding, frames = packet[0] >> 3, packet[0] & 3
    count = packet[1] & 63 if frames == 3 and len(packet) > 1 else 1 + (frames > 0)
    if coding < 12:
        return count * (480, 960, 1920, 2880)[coding & 3]
    return count * ((480, 960)[coding & 1] if coding < 16 else 120 << (coding & 3))


@lru_cache(maxsize=100_000)
def _is_joined_flac(name: str, size: int, modified: int) -> bool:
    """Return whether another FLAC file follows the first one; arguments as ``_mp3_facts``."""
    with open_stored(Path(name)) as content, soundfile.SoundFile(content) as file:
        file.seek(file.frames - 1)
        file.read(1)
        content.seek(max(content.tell() - READ_AHEAD, len(FLAC_HEADS[0])))
        rest = content.read()
    return any(head in rest for head in FLAC_HEADS)
