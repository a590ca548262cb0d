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

from zoo.base.audio.compressed import is_read_in_part
from zoo.base.audio.ffmpeg import ALLOWED, decode
from zoo.base.audio.sizes import check_sizes
from zoo.base.audio.timeline import Block
from zoo.base.disk.files import check_name_is_text
from zoo.base.disk.tar_members import last_change, member_of, size_of
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Samples, Seconds

logger = logging.getLogger(__name__)

LOWEST_RATE, HIGHEST_RATE = 1000, 1_000_000  # hertz; resampling others would fill the memory
BLOCK: Samples = 1 << 20  # read at once
LOUDEST = 64.0  # largest sample; lossy formats and mixes exceed 1.0 by little
CANCELLED = 0.01  # power of the average of channels over theirs; that of independent ones is 0.5
END = np.zeros(0, np.float32)
SILENCE = 1e-4  # largest magnitude of samples that are silent, 3 steps of 16-bit samples
# The bits of a sample, by the log of libsndfile, which reads 7 bits as if they were 8. Samples of
# 12 and 20 bits fill the upper bits of 16 and 24.
_BIT_WIDTH = re.compile(r"^ *Bit Width *: (\d+)", re.MULTILINE)


@contextmanager
def _open_file(path: Path) -> Iterator[soundfile.SoundFile | None]:
    """Open an audio file for reading; None: libsndfile does not read it as a whole.

    Raises ZooError if the file is missing, damaged or truncated.
    """
    check_name_is_text(path)
    if member_of(path) is None and not path.is_file():
        raise ZooError(f"Audio file {path} does not exist or is not a file. {ALLOWED}")
    try:
        with ExitStack() as stack:
            yield _opened(path, stack)
    except soundfile.LibsndfileError as error:
        raise ZooError(
            f"Audio file {path} is damaged or not audio ({error.error_string}). {ALLOWED}"
        ) from error
    except OSError as error:
        raise ZooError(f"Audio file {path} cannot be read ({error.strerror}).") from error


def _opened(path: Path, stack: ExitStack) -> soundfile.SoundFile | None:
    """Return the open file, or None if libsndfile reads nothing or a part of it."""
    member = member_of(path)
    content = path if member is None else stack.enter_context(member.open())
    try:
        file = stack.enter_context(soundfile.SoundFile(content))
    except soundfile.LibsndfileError:
        return None  # a film, for example
    check_sizes(path, file.format, last_change(path))
    width = _BIT_WIDTH.search(file.extra_info)
    if width and file.subtype.startswith("PCM_") and (int(width[1]) < 8 or int(width[1]) % 4):
        raise ZooError(
            f"Audio file {path} has samples of {width[1]} bits; allowed are 8, 16, 24 and 32."
        )
    _check_rate(path, file.samplerate)
    # it cannot seek in GSM, and takes a header without a size for one without samples
    in_part = is_read_in_part(path, file) or file.frames <= 0 or not file.seekable()
    return None if in_part else file


def _check_rate(path: Path, rate: int) -> None:
    """Raise ZooError for a sample rate that cannot be resampled."""
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise ZooError(
            f"Audio file {path} has a sample rate of {rate} Hz by its header; it must be "
            f"{LOWEST_RATE} to {HIGHEST_RATE} Hz."
        )


def duration(path: str | Path) -> Seconds:
    """Return the length of a file in seconds.

    Raises:
        ZooError: The file is missing, damaged, truncated or empty.
    """
    with _open_file(Path(path)) as file:
        if file is None:
            return len(_decoded(Path(path))) / SAMPLE_RATE
        return float(file.frames / file.samplerate)


def is_plain(path: Path) -> bool:
    """Return whether a file has 16 kHz and one channel, and its parts are read alone.

    Raises:
        ZooError: The file is missing, damaged or truncated.
    """
    with _open_file(path) as file:
        return file is not None and (file.samplerate, file.channels) == (SAMPLE_RATE, 1)


def load(path: str | Path, *, start: Seconds = 0.0, duration: Seconds | None = None) -> Tensor:
    """Load a part of an audio file as 16 kHz mono.

    Args:
        path: audio file or film with any sample rate and any number of channels, also in a tar
            archive (``zoo.base.disk.tar_members``). The default one of several tracks is read.
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
        if file is None:
            samples = _decoded(path)
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
        blocks = _whole_file(path, file)
        return _mix(((rate, _channels_of(path, block, channels)) for rate, block in blocks), path)


def _whole_file(path: Path, file: soundfile.SoundFile | None) -> Iterator[tuple[int, Block]]:
    """Return sample rate and samples of a file, block after block."""
    if file is None:
        return decode(path)
    rate = file.samplerate
    return ((rate, block) for block in _blocks(path, file, file.frames))


def _channels_of(path: Path, block: Block, channels: Sequence[int]) -> Block:
    """Return some channels of a block. Raises ZooError if there is no such channel."""
    if max(channels) >= block.shape[1]:
        raise ZooError(
            f"Audio file {path} has no channel {max(channels)}; it has {block.shape[1]}, from 0."
        )
    return block[:, list(channels)]


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


def _decoded(path: Path) -> Tensor:
    """Return all samples of a file that libsndfile does not read: (n,) float32 at 16 kHz."""
    return _decoded_once(path, size_of(path), last_change(path))


@lru_cache(maxsize=1)  # segments of one file are often loaded one after the other
def _decoded_once(path: Path, size: int, modified: int) -> Tensor:
    """Return the samples; another size or time of modification means another content."""
    return _mix(decode(path), path)


def _mix(blocks: Iterable[tuple[int, Block]], path: Path) -> Tensor:
    """Return samples as (n,) float32 at 16 kHz, averaged over channels.

    They are resampled block by block, because an hour of stereo at 48 kHz has 1.4 GB.

    Args:
        blocks: sample rate and (n, channels) samples, block after block.
        path: the file, for messages.

    Raises:
        ZooError: a sample is not finite or far beyond full scale, or the rate is out of range.
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
            _check_rate(path, rate)
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
