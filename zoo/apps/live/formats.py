"""Formats of the audio of clients: encodings of bare samples, and files by their first bytes."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from zoo.base.errors import ZooError, unknown_choice

Samples = npt.NDArray[np.float32]  # (n,), full scale is 1.0
ANY = ord("?")  # any byte, in the first bytes of a file
HEAD = 16  # bytes in which a file names its format
HEADER = 6  # bytes of the header of an MP3 or AAC frame that are read
FRAMES = tuple(bytes([byte]) for byte in range(0xE0, 0x100))  # second bytes, after 0xFF
CHOICES = "16-bit samples, WAV, FLAC, Ogg, WebM, MP3, AAC or fragmented MP4"
# Kilobits per second of MP3 by the number in the header of a frame, of MPEG 1 and of its successors
BITRATES = (
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0),
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0),
)
MP3_RATES = (44_100, 48_000, 32_000)  # of MPEG 1
HALVED = {3: 0, 2: 1, 0: 2}  # how often, by the number of MPEG 1, 2 and 2.5
# Bare 16-bit samples are taken for 32-bit floating-point ones if these many numbers are plausible.
ENOUGH = 64
SMALLEST, LARGEST = 2.0**-30, 1.5  # magnitude of plausible numbers
PLAUSIBLE = 0.98  # share of them; the others are smaller
POLARITY = 0.05  # smallest share of numbers of either sign
EXPONENTS = 4  # least number of different powers of two


class UnusableAudio(ZooError):
    """Audio that is in another format than samples and than what is decoded; it ends a stream."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How bare samples are written.

    Attributes:
        size: Bytes of a sample.
        decode: Returns the samples of bytes.
    """

    size: int
    decode: Callable[[bytes], Samples]


@dataclass(frozen=True, slots=True)
class Container:
    """A file, or frames, that begins with certain bytes.

    Attributes:
        name: What users call it.
        demuxer: FFmpeg's name; None: it is not decoded.
        beginning: Its first bytes; ``ANY`` is any byte.
    """

    name: str
    demuxer: str | None
    beginning: bytes = b""

    def fits(self, head: bytes) -> bool:
        """Return whether ``head``, which may be shorter or longer, does not contradict it."""
        return all(want in (ANY, got) for want, got in zip(self.beginning, head, strict=False))


CONTAINERS = (
    Container("WAV", "wav", b"RIFF????WAVE"),
    Container("WAV", "wav", b"RF64????WAVE"),
    Container("Ogg", "ogg", b"OggS\0"),
    Container("WebM", "matroska", b"\x1aE\xdf\xa3"),
    Container("FLAC", "flac", b"fLaC"),
    *(Container("MP3", "mp3", b"ID3" + version) for version in (b"\2", b"\3", b"\4")),
    Container("MP4", "mp4", b"\0\0\0?ftyp"),
    Container("a part of WebM without its beginning", None, b"\x1fC\xb6u"),
    Container("a part of MP4 without its beginning", None, b"\0\0\0?styp"),
    Container("a part of MP4 without its beginning", None, b"\0\0\0?moof"),
    Container("AIFF", None, b"FORM????AIF"),
    Container("AVI", None, b"RIFF????AVI "),
    Container("AU", None, b".snd\0\0"),
    Container("CAF", None, b"caff\0\1"),
    Container("AMR", None, b"#!AMR"),
    Container("ASF", None, b"0&\xb2u\x8ef\xcf\x11"),
)
MP3, AAC = Container("MP3", "mp3"), Container("AAC", "aac")  # frames without a header of a file


def container_of(head: bytes) -> Container | None:
    """Return what audio begins as; None: as nothing that is known, so it is bare samples.

    Args:
        head: First bytes.
    """
    for one in CONTAINERS:
        if len(head) >= len(one.beginning) and one.fits(head):
            return one
    length, kind = _frame(head)
    if length and len(head) >= length + HEADER and _follows(head[:HEADER], head[length:]):
        return kind
    return None


def is_undecided(head: bytes) -> bool:
    """Return whether further bytes may make a beginning that of a file.

    Args:
        head: First bytes.
    """
    if any(len(head) < len(one.beginning) and one.fits(head) for one in CONTAINERS):
        return True
    if len(head) < HEADER:
        return head[:1] == b"\xff" and head[1:2] in (b"", *FRAMES)
    length, _ = _frame(head)
    return length > 0 and len(head) < length + HEADER


def begins_another(data: bytes) -> bool:
    """Return whether a message within a file begins another file.

    Files of the other formats may follow each other without a mark.

    Args:
        data: The message.
    """
    container = container_of(data[:HEAD])
    return container is not None and container.demuxer in ("wav", "mp4")


def _frame(head: bytes) -> tuple[int, Container]:
    """Return the bytes of the frame that begins here, 0 for none, and what it is a frame of."""
    if len(head) < HEADER or head[0] != 0xFF:
        return 0, MP3
    if head[1] & 0xF6 == 0xF0:
        length = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
        return length if length > HEADER else 0, AAC
    version, rate = head[1] >> 3 & 3, head[2] >> 2 & 3
    bits = 1000 * BITRATES[version != 3][head[2] >> 4]
    if head[1] & 0xE6 != 0xE2 or version not in HALVED or rate >= len(MP3_RATES) or not bits:
        return 0, MP3
    words = 144 if version == 3 else 72
    return words * bits // (MP3_RATES[rate] >> HALVED[version]) + (head[2] >> 1 & 1), MP3


def _follows(first: bytes, second: bytes) -> bool:
    """Return whether another frame has the version, the layer and the rate of the first one."""
    return bool(_frame(second)[0]) and first[1] == second[1] and not (first[2] ^ second[2]) & 0xC


def looks_like_floats(data: bytes) -> bool | None:
    """Return whether bytes are almost certainly 32-bit floating-point samples; None: undecided.

    Such numbers are small, of both signs and of many magnitudes. Read as 16-bit samples, every
    second one would be far from zero, and of either sign at different distances.

    Args:
        data: First bytes; silence and constant samples decide nothing.
    """
    values = np.frombuffer(data[: len(data) // 4 * 4], "<f4")
    values = values[values.view(np.uint32) != 0]
    if len(values) < ENOUGH:
        return None
    sizes = np.abs(values)
    if not (sizes <= LARGEST).all() or (sizes >= SMALLEST).mean() < PLAUSIBLE:  # NaN is not
        return False
    has_signs = POLARITY <= (values > 0).mean() <= 1 - POLARITY
    has_magnitudes = len(np.unique(np.frexp(sizes)[1])) >= EXPONENTS
    return True if has_signs and has_magnitudes else None


def _integers(data: bytes) -> Samples:
    return np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768)


def _floats(data: bytes) -> Samples:
    return np.frombuffer(data, "<f4").astype(np.float32)


def _g711(law: str) -> Callable[[bytes], Samples]:
    def decode(data: bytes) -> Samples:
        return _table(law)[np.frombuffer(data, np.uint8)]

    return decode


@cache
def _table(law: str) -> Samples:
    """Return the samples of all bytes, as libsndfile reads them."""
    import soundfile  # a slow import

    samples, _ = soundfile.read(
        io.BytesIO(bytes(range(256))),
        format="RAW",
        subtype=law,
        samplerate=8000,
        channels=1,
        dtype="float32",
    )
    return np.asarray(samples, np.float32)


DEFAULT = "pcm_s16le"
ENCODINGS = {
    DEFAULT: Encoding(2, _integers),
    "pcm_f32le": Encoding(4, _floats),
    "g711_ulaw": Encoding(1, _g711("ULAW")),
    "g711_alaw": Encoding(1, _g711("ALAW")),
}
# OpenAI's names of encodings, each with the sample rate that it means where none is given.
OPENAI = {
    "pcm16": (DEFAULT, 24_000),
    "audio/pcm": (DEFAULT, 24_000),
    "g711_ulaw": ("g711_ulaw", 8_000),
    "audio/pcmu": ("g711_ulaw", 8_000),
    "g711_alaw": ("g711_alaw", 8_000),
    "audio/pcma": ("g711_alaw", 8_000),
}


def encoding_of(name: object) -> Encoding:
    """Return an encoding by its name. Raises ZooError for any other value."""
    if not isinstance(name, str) or name not in ENCODINGS:
        raise unknown_choice("encoding", name, ENCODINGS)
    return ENCODINGS[name]
