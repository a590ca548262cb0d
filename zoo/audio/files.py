"""Load, measure, split and write audio files as 16 kHz mono float32 tensors."""

import io
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import soundfile
import soxr
import torch
from torch import Tensor

from zoo.disk.files import check_name_is_text
from zoo.disk.tar_members import member_of
from zoo.errors import FullDiskError, ZooError
from zoo.types import SAMPLE_RATE, Samples, Seconds

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
    if not LOWEST_RATE <= file.samplerate <= HIGHEST_RATE:
        raise ZooError(
            f"Audio file {path} has a sample rate of {file.samplerate} Hz by its header; it must "
            f"be {LOWEST_RATE} to {HIGHEST_RATE} Hz."
        )
    if file.frames <= 0:
        raise ZooError(f"Audio file {path} has no samples; a talk needs at least one.")


def duration(path: str | Path) -> Seconds:
    """Return the length of a file in seconds, read from its header.

    Raises:
        ZooError: The file is missing, damaged, truncated or empty.
    """
    with _open_file(Path(path)) as file:
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
        rate, length = file.samplerate, file.frames  # hertz, samples
        first = round(start * rate)
        if not 0 <= first < length:
            raise ZooError(
                f"Audio file {path} has no sample at {start:.3f} s; it lasts {length / rate:.3f} s."
            )

        count = length - first if duration is None else min(length - first, round(duration * rate))
        file.seek(first)
        samples = _read_mono(file, count)

    if len(samples) < count:
        raise ZooError(f"Audio file {path} is truncated: it has {len(samples)} of {count} samples.")
    check_values(f"Audio file {path}", samples)
    if rate != SAMPLE_RATE:
        samples = soxr.resample(samples, rate, SAMPLE_RATE)
    return torch.from_numpy(np.ascontiguousarray(samples, dtype=np.float32))


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


def _read_mono(file: soundfile.SoundFile, count: int) -> np.ndarray:
    """Read up to ``count`` samples, averaged over channels: (n,) float32.

    The samples are read in blocks, because the memory for what a damaged header declares may exceed
    that of the machine.
    """
    blocks = [np.zeros(0, np.float32)]
    while count > 0:
        block = file.read(min(count, BLOCK), dtype="float32", always_2d=True)
        blocks.append(block.mean(axis=1))
        if not len(block):
            break
        count -= len(block)
    return np.concatenate(blocks)


def chunks(samples: Tensor, size: Samples) -> Iterator[Tensor]:
    """Split (n,) samples into chunks of ``size`` samples; the last chunk may be shorter.

    Raises:
        ZooError: ``size`` is below 1.
    """
    if size < 1:
        raise ZooError(f"A chunk needs at least 1 sample, not {size}.")
    return (samples[start : start + size] for start in range(0, len(samples), size))


def _pcm(samples: Tensor) -> np.ndarray:
    """Return samples as 16-bit integers, clipped to [-1, 1)."""
    # Scaling by a power of two is exact in float32.
    scaled = samples.detach().cpu() * 32768
    return np.asarray(scaled.round_().clamp_(-32768, 32767).to(torch.int16).numpy())


def wav(samples: Tensor) -> bytes:
    """Return the content of a 16-bit WAV file.

    Args:
        samples: (n,) or (n, channels) float32 at 16 kHz, clipped to [-1, 1).
    """
    buffer = io.BytesIO()
    soundfile.write(buffer, _pcm(samples), SAMPLE_RATE, format="WAV", subtype="PCM_16")
    return buffer.getvalue()


def write(path: str | Path, samples: Tensor) -> None:
    """Write samples as a 16-bit WAV file.

    Args:
        path: File to write.
        samples: (n,) or (n, channels) float32 at 16 kHz, clipped to [-1, 1).

    Raises:
        ZooError: The file cannot be written.
    """
    pcm = _pcm(samples)
    try:
        soundfile.write(Path(path), pcm, SAMPLE_RATE, format="WAV", subtype="PCM_16")
    except (soundfile.LibsndfileError, OSError) as error:
        folder = Path(path).parent
        # libsndfile does not give the reason of the system
        if folder.is_dir() and shutil.disk_usage(folder).free < pcm.nbytes:
            raise FullDiskError(
                f"The disk of {folder} is full: it has no space for {Path(path).name}."
            ) from error
        raise ZooError(
            f"Cannot write the audio file {path}: check that its folder exists and is writable."
        ) from error
