"""Audio files as 16 kHz mono float32 tensors: load, measure, cut into chunks, write. Knows no talks and no models."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import soundfile
import soxr
import torch
from torch import Tensor

from zoo.errors import ZooError
from zoo.types import SAMPLE_RATE, Samples, Seconds

ALLOWED = "allowed are WAV, FLAC, OGG or MP3 files with any sample rate and any number of channels"
STREAMED = 0x7FFFFFFF  # bytes: at least this much "data" is what programs write that do not know the length
_CUT_DATA = re.compile(r"^data : (\d+) \(should be (\d+)\)", re.MULTILINE)


@contextmanager
def _opened(path: Path) -> Iterator[soundfile.SoundFile]:
    if not path.is_file():
        raise ZooError(f"Audio file {path} does not exist or is not a file; {ALLOWED}.")
    try:
        with soundfile.SoundFile(path) as file:
            _check_header(path, file)
            yield file
    except soundfile.LibsndfileError as error:
        raise ZooError(
            f"Audio file {path} is damaged or no audio ({error.error_string}); {ALLOWED}."
        ) from error
    except OSError as error:
        raise ZooError(f"Audio file {path} cannot be read ({error.strerror}).") from error


def _check_header(path: Path, file: soundfile.SoundFile) -> None:
    if cut := _CUT_DATA.search(file.extra_info):
        declared, present = int(cut[1]), int(cut[2])
        if present < declared < STREAMED:
            raise ZooError(
                f"Audio file {path} is truncated: it has {present} of {declared} bytes of samples."
            )
    if file.frames <= 0:
        raise ZooError(f"Audio file {path} has no samples; a talk needs at least one.")


def duration(path: str | Path) -> Seconds:
    """Length of the file in seconds, read from its header. Raises ZooError for a file that is no sound audio."""
    with _opened(Path(path)) as file:
        return float(file.frames / file.samplerate)


def load(path: str | Path, *, start: Seconds = 0.0, duration: Seconds | None = None) -> Tensor:
    """Samples (n,) float32 at 16 kHz, channels averaged, from ``start`` for ``duration`` seconds (None: to the end).

    A ``duration`` that reaches beyond the end stops there. Raises ZooError for a missing, damaged, truncated or empty
    file, for a ``start`` at or behind the end, and for samples that are not finite. Silence is legal.
    """
    path = Path(path)
    with _opened(path) as file:
        rate, length = file.samplerate, file.frames
        first = round(start * rate)
        if not 0 <= first < length:
            raise ZooError(
                f"Audio file {path} lasts {length / rate:.3f} s; it has nothing at {start:.3f} s."
            )
        count = length - first if duration is None else min(length - first, round(duration * rate))
        file.seek(first)
        samples = file.read(count, dtype="float32", always_2d=True).mean(axis=1)
    if len(samples) < count:
        raise ZooError(f"Audio file {path} is truncated: it has {len(samples)} of {count} samples.")
    if not np.isfinite(samples).all():
        raise ZooError(
            f"Audio file {path} has samples that are NaN or infinite; all must be finite numbers."
        )
    if rate != SAMPLE_RATE:
        samples = soxr.resample(samples, rate, SAMPLE_RATE)
    return torch.from_numpy(np.ascontiguousarray(samples, dtype=np.float32))


def chunks(samples: Tensor, size: Samples) -> Iterator[Tensor]:
    """Cut (n,) into pieces of ``size`` samples; the last may be shorter. Raises ZooError for a size below 1."""
    if size < 1:
        raise ZooError(f"A chunk needs at least 1 sample, not {size}.")
    return (samples[start : start + size] for start in range(0, len(samples), size))


def write(path: str | Path, samples: Tensor) -> None:
    """Write (n,) or (n, channels) float32 samples at 16 kHz as 16-bit WAV, clipped to [-1, 1).

    Raises ZooError if it cannot.
    """
    pcm = (
        (samples.detach().cpu() * 32768).round_().clamp_(-32768, 32767).to(torch.int16)
    )  # exact: a power of two
    try:
        soundfile.write(Path(path), pcm.numpy(), SAMPLE_RATE, format="WAV", subtype="PCM_16")
    except (soundfile.LibsndfileError, OSError) as error:
        raise ZooError(
            f"Cannot write the audio file {path}: check that its folder exists and is writable."
        ) from error
