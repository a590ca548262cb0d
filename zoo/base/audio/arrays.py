"""Arrays of samples, as notebooks and sound cards have them, as 16 kHz mono float32 tensors."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import soxr
import torch
from torch import Tensor

from zoo.base.audio.files import HIGHEST_RATE, LOWEST_RATE, check_values
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE

Waveform = npt.NDArray[Any] | Tensor  # (n,) or (n, channels) floating-point numbers or integers
MOST_CHANNELS = 64  # more are samples: the array has the order (channels, samples)
INTEGERS = {"int16": 2**15, "int32": 2**31}  # full scale of each type


def to_mono(samples: Waveform, sample_rate: int | None) -> Tensor:
    """Return a whole recording as (n,) float32 at 16 kHz, averaged over channels.

    Args:
        samples: (n,) or (n, channels): floating-point numbers from -1 to 1, or 16-bit or 32-bit
            integers.
        sample_rate: samples per second.

    Raises:
        ZooError: there is no sample, the shape, the type or a value does not fit, or the rate is
            out of range.
    """
    rate = check_sample_rate(sample_rate)
    mono = _mono(samples)
    if not len(mono):
        raise ZooError("The array has no samples; a talk needs at least one.")
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE)
    return torch.from_numpy(np.ascontiguousarray(mono, dtype=np.float32))


def to_mono_pieces(pieces: Iterable[Waveform], sample_rate: int) -> Iterator[Tensor]:
    """Yield the pieces of a live recording as (n,) float32 at 16 kHz, at once.

    Args:
        pieces: pieces of any length; see ``to_mono``. An empty piece is allowed.
        sample_rate: samples per second.

    Raises:
        ZooError: a piece does not fit; see ``to_mono``.
    """
    resampler = None
    if sample_rate != SAMPLE_RATE:
        resampler = soxr.ResampleStream(sample_rate, SAMPLE_RATE, 1)
    for piece in pieces:
        mono = _mono(piece)
        yield torch.from_numpy(resampler.resample_chunk(mono) if resampler else mono)
    if resampler:
        yield torch.from_numpy(resampler.resample_chunk(np.zeros(0, np.float32), last=True))


def check_sample_rate(sample_rate: int | None) -> int:
    """Return a sample rate. Raises ZooError unless it is a whole number that can be resampled."""
    is_whole = isinstance(sample_rate, int | np.integer) and not isinstance(sample_rate, bool)
    if sample_rate is None or not is_whole or not LOWEST_RATE <= sample_rate <= HIGHEST_RATE:
        raise ZooError(
            f"An array needs sample_rate, its samples per second, as a whole number from "
            f"{LOWEST_RATE} to {HIGHEST_RATE}, not {sample_rate!r}."
        )
    return int(sample_rate)


def _mono(samples: Waveform) -> npt.NDArray[np.float32]:
    """Return (n,) samples at their own rate, a copy."""
    found: Any = samples
    if isinstance(samples, Tensor):
        # NumPy has no bfloat16
        found = samples.detach().to(torch.float32 if samples.is_floating_point() else None).cpu()
        found = found.numpy()
    if not isinstance(found, np.ndarray):
        raise ZooError(
            f"Audio must be an array of NumPy or a tensor, not {type(samples).__name__}."
        )
    if found.ndim not in (1, 2) or (found.ndim == 2 and found.shape[1] > MOST_CHANNELS):
        raise ZooError(
            f"Audio has the shape {found.shape}; it must be (samples,) or (samples, channels)."
        )
    name = found.dtype.name
    if not np.issubdtype(found.dtype, np.floating) and name not in INTEGERS:
        raise ZooError(
            f"Audio has samples of the type {name}; allowed are floating-point numbers from -1 to "
            f"1, {' and '.join(INTEGERS)}."
        )
    values = np.array(found, dtype=np.float32)
    if values.ndim == 2:
        values = values.mean(axis=1, dtype=np.float32)
    values /= np.float32(INTEGERS.get(name, 1))
    check_values("The array", values)
    return values
