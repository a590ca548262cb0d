"""Load, measure, split and write audio files as 16 kHz mono float32 tensors."""

import io
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import soundfile
import soxr
import torch
from torch import Tensor

from zoo.audio.compressed import Block, decode, is_read_in_part
from zoo.disk.files import check_name_is_text
from zoo.disk.tar_members import last_change, member_of, size_of
from zoo.errors import ZooError
from zoo.types import SAMPLE_RATE, Samples, Seconds

logger = logging.getLogger(__name__)

ALLOWED = (
    "Allowed are WAV, FLAC, OGG and MP3 files with any sample rate and any number of channels."
)
# Smallest placeholder for the size of the samples (in bytes) in the headers of streamed WAV files.
# A program that streams audio has no size yet when it writes the header, so it writes this
# number or a larger one. Such a file is not truncated.
STREAMED = 0x7FFFFFFF
LOWEST_RATE, HIGHEST_RATE = 1000, 1_000_000  # hertz; resampling others would fill the memory
BLOCK: Samples = 1 << 20  # read at once
LOUDEST = 64.0  # largest sample; lossy formats and mixes exceed 1.0 by little
CANCELLED = 0.01  # power of the average of channels over theirs; that of independent ones is 0.5
END = np.zeros(0, np.float32)
SILENCE = 1e-4  # largest magnitude of samples that are silent, 3 steps of 16-bit samples
# The bits of a sample, by the log of libsndfile, which reads 7 bits as if they were 8. Samples of
# 12 and 20 bits fill the upper bits of 16 and 24.
_BIT_WIDTH = re.compile(r"^ *Bit Width *: (\d+)", re.MULTILINE)
# The size of the samples and the size that the header declares. libsndfile reads a truncated file
# without an error and reports the two sizes only in the text of its log.
_DATA_SIZES = re.compile(r"^data : (\d+) \(should be (\d+)\)", re.MULTILINE)


@contextmanager
def _open_file(path: Path) -> Iterator[soundfile.SoundFile]:
    """Open an audio file for reading. Raises ZooError if it is missing, damaged or empty."""
    check_name_is_text(path)
    member = member_of(path)
    if member is None and not path.is_file():
        raise ZooError(f"Audio file {path} does not exist or is not a file. {ALLOWED}")
    try:
        with ExitStack() as stack:
            content = path if member is None else stack.enter_context(member.open())
            file = stack.enter_context(soundfile.SoundFile(content))
            _check_header(path, file)
            yield file
    except soundfile.LibsndfileError as error:
        raise ZooError(
            f"Audio file {path} is damaged or not audio ({error.error_string}). {ALLOWED}"
        ) from error
    except OSError as error:
        raise ZooError(f"Audio file {path} cannot be read ({error.strerror}).") from error


def _check_header(path: Path, file: soundfile.SoundFile) -> None:
    """Raise ZooError if a header has more samples than the file, no samples or a wild rate."""
    if sizes := _DATA_SIZES.search(file.extra_info):
        declared, present = int(sizes[1]), int(sizes[2])
        if present < declared < STREAMED:
            raise ZooError(
                f"Audio file {path} is truncated: it has {present} of {declared} bytes of samples."
            )
    width = _BIT_WIDTH.search(file.extra_info)
    if width and file.subtype.startswith("PCM_") and (int(width[1]) < 8 or int(width[1]) % 4):
        raise ZooError(
            f"Audio file {path} has samples of {width[1]} bits; allowed are 8, 16, 24 and 32."
        )
    if not LOWEST_RATE <= file.samplerate <= HIGHEST_RATE:
        raise ZooError(
            f"Audio file {path} has a sample rate of {file.samplerate} Hz by its header; it must "
            f"be {LOWEST_RATE} to {HIGHEST_RATE} Hz."
        )
    if file.frames <= 0:
        raise ZooError(f"Audio file {path} has no samples; a talk needs at least one.")


def duration(path: str | Path) -> Seconds:
    """Return the length of a file in seconds.

    Raises:
        ZooError: The file is missing, damaged, truncated or empty.
    """
    with _open_file(Path(path)) as file:
        if is_read_in_part(Path(path), file):
            facts = size_of(Path(path)), last_change(Path(path))
            return len(_decoded(str(path), *facts)) / SAMPLE_RATE
        return float(file.frames / file.samplerate)


def load(path: str | Path, *, start: Seconds = 0.0, duration: Seconds | None = None) -> Tensor:
    """Load a part of an audio file as 16 kHz mono.

    Args:
        path: WAV, FLAC, OGG or MP3 file with any sample rate and any number of channels, also in a
            tar archive (``zoo.disk.tar_members``).
        start: Position of the first sample in seconds.
        duration: Number of seconds to load. Loading ends at the end of the file at the latest; None
            loads the file to its end.

    Returns:
        (n,) float32 samples at 16 kHz, averaged over channels.

    Raises:
        ZooError: The file is missing, damaged, truncated or empty, ``start`` is not before its
            end, or a sample is not finite or far beyond full scale.
    """
    path = Path(path)
    with _open_file(path) as file:
        if is_read_in_part(path, file):
            samples = _decoded(str(path), size_of(path), last_change(path))
            rate, length = SAMPLE_RATE, len(samples)
            first, count = _place(path, rate, length, start, duration)
            return samples[first : first + count].clone()
        rate, length = file.samplerate, file.frames  # hertz, samples
        first, count = _place(path, rate, length, start, duration)
        file.seek(first)
        return _mix(((rate, block) for block in _blocks(path, file, count)), path)


def load_channels(path: Path, channels: Sequence[int]) -> Tensor:
    """Load some channels of a whole audio file as 16 kHz mono.

    Args:
        path: As for ``load``.
        channels: Channels of the file, from 0, at least one.

    Returns:
        (n,) float32 samples at 16 kHz, averaged over the channels.

    Raises:
        ZooError: As for ``load``, or the file has no such channel.
    """
    with _open_file(path) as file:
        if max(channels) >= file.channels:
            raise ZooError(
                f"Audio file {path} has no channel {max(channels)}; it has {file.channels}, from 0."
            )
        blocks: Iterable[tuple[int, Block]] = (
            (file.samplerate, block) for block in _blocks(path, file, file.frames)
        )
        if is_read_in_part(path, file):
            blocks = decode(path)
        return _mix(((rate, block[:, list(channels)]) for rate, block in blocks), path)


def _place(
    path: Path, rate: int, length: int, start: Seconds, duration: Seconds | None
) -> tuple[int, int]:
    """Return the first sample to load and the number of samples.

    Raises ZooError if there is no sample at ``start``.
    """
    first = round(start * rate)
    if not 0 <= first < length:
        raise ZooError(
            f"Audio file {path} has no sample at {start:.3f} s; it lasts {length / rate:.3f} s."
        )
    left = length - first
    return first, left if duration is None else min(left, round(duration * rate))


def _blocks(path: Path, file: soundfile.SoundFile, count: int) -> Iterator[Block]:
    """Yield ``count`` samples in blocks: (n, channels) float32.

    The memory for what a damaged header declares may exceed that of the machine.

    Raises:
        ZooError: the file has fewer samples.
    """
    left = count
    while left > 0:
        block = file.read(min(left, BLOCK), dtype="float32", always_2d=True)
        if not len(block):
            raise ZooError(
                f"Audio file {path} is truncated: it has {count - left} of {count} samples."
            )
        left -= len(block)
        yield block


@lru_cache(maxsize=1)  # segments of one file are often loaded one after the other
def _decoded(name: str, size: int, modified: int) -> Tensor:
    """Return all samples of a file that libsndfile reads in part: (n,) float32 at 16 kHz.

    Args:
        name: path of the file.
        size: bytes; like the time of modification, another one means another content.
        modified: time of modification.
    """
    return _mix(decode(Path(name)), Path(name))


def _mix(blocks: Iterable[tuple[int, Block]], path: Path) -> Tensor:
    """Return samples as (n,) float32 at 16 kHz, averaged over channels.

    They are resampled block by block, because an hour of stereo at 48 kHz has 1.4 GB.

    Args:
        blocks: sample rate and (n, channels) samples, block after block.
        path: the file, for messages.

    Raises:
        ZooError: a sample is not finite or far beyond full scale.
    """
    parts = [np.zeros(0, np.float32)]
    resampler, last_rate = None, SAMPLE_RATE
    power_of_channels = power = 0.0
    for rate, block in blocks:
        mono = block.mean(axis=1)
        check_values(f"Audio file {path}", mono)
        if block.shape[1] > 1:
            power_of_channels += float(np.square(block).mean(axis=1).sum())
            power += float(np.square(mono).sum())
        if rate != last_rate:
            parts += [] if resampler is None else [resampler.resample_chunk(END, last=True)]
            resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1) if rate != SAMPLE_RATE else None
            last_rate = rate
        parts.append(mono if resampler is None else resampler.resample_chunk(mono))
    parts += [] if resampler is None else [resampler.resample_chunk(END, last=True)]
    if power < CANCELLED * power_of_channels:
        _warn_of_channels(str(path))
    return torch.from_numpy(np.concatenate(parts))


@cache  # once for each file
def _warn_of_channels(name: str) -> None:
    logger.warning(
        "The channels of %s cancel each other, so that their average is nearly silent; keep one "
        "channel of the file.",
        name,
    )


def warn_of_silence(samples: Tensor, path: Path) -> None:
    """Log a warning if a recording has no sound.

    Args:
        samples: (n,) samples of the recording.
        path: its file.
    """
    if samples.numel() and float(samples.abs().max()) <= SILENCE:
        logger.warning("The audio of %s is silent.", path)


def check_values(owner: str, samples: np.ndarray) -> None:
    """Check that samples are finite and not far beyond full scale.

    Args:
        owner: What has the samples, as the error names it.
        samples: Samples of any shape.

    Raises:
        ZooError: A sample is NaN, infinite or larger than ``LOUDEST``.
    """
    if not np.isfinite(samples).all():
        raise ZooError(f"{owner} has samples that are NaN or infinite; all must be finite numbers.")
    if (peak := float(np.abs(samples).max(initial=0.0))) > LOUDEST:
        raise ZooError(
            f"{owner} has samples up to {peak:g}, far beyond full scale (1.0); divide "
            "floating-point samples in the range of 16-bit integers by 32768."
        )


def chunks(samples: Tensor, size: Samples) -> Iterator[Tensor]:
    """Split (n,) samples into chunks of ``size`` samples; the last chunk may be shorter.

    Raises:
        ZooError: ``size`` is below 1.
    """
    if size < 1:
        raise ZooError(f"A chunk needs at least 1 sample, not {size}.")
    return (samples[start : start + size] for start in range(0, len(samples), size))


def to_pcm(samples: Tensor) -> np.ndarray:
    """Return samples of any shape, clipped to [-1, 1), as 16-bit integers."""
    # Scaling by a power of two is exact in float32.
    scaled = samples.detach().cpu() * 32768
    return np.asarray(scaled.round_().clamp_(-32768, 32767).to(torch.int16).numpy())


def wav(samples: Tensor) -> bytes:
    """Return the content of a 16-bit WAV file.

    Args:
        samples: (n,) or (n, channels) float32 at 16 kHz, clipped to [-1, 1).
    """
    buffer = io.BytesIO()
    soundfile.write(buffer, to_pcm(samples), SAMPLE_RATE, format="WAV", subtype="PCM_16")
    return buffer.getvalue()


def write(path: str | Path, samples: Tensor) -> None:
    """Write samples as a 16-bit WAV file.

    Args:
        path: File to write.
        samples: (n,) or (n, channels) float32 at 16 kHz, clipped to [-1, 1).

    Raises:
        ZooError: The file cannot be written.
    """
    try:
        Path(path).write_bytes(wav(samples))
    except FileNotFoundError as error:
        raise ZooError(f"Cannot write the audio file {path}: there is no such folder.") from error
