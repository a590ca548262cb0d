"""Discrete units of speech: k-means of its mel cepstrum, 50 frames per second.

The small models use them in place of k-means of a speech encoder's features (SimulU's backbone:
XLS-R, 10 000 units).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

import numpy as np
import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional
from transformers.audio_utils import mel_filter_bank

from zoo.base.disk.files import atomic_file
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Frames, Samples

FRAME: Samples = 320  # samples per unit
WINDOW: Samples = 480  # length of the window of a spectrum
FFT: Samples = 512  # length of the transform
BANDS, COEFFICIENTS = 80, 16  # number of mel bands, and of coefficients of the cepstrum
QUIET = 1e-4  # smaller magnitudes are silence
# Weight of the first coefficient, the loudness, which hardly distinguishes phonemes.
ENERGY = 0.4
FILE = "units.safetensors"


@dataclass(frozen=True, slots=True)
class Codebook:
    """Centroids of the units.

    Attributes:
        centroids: (K, 16) mel cepstra.
        penalty: cost of a change of unit, added to the squared distances of the frames.
    """

    centroids: Tensor
    penalty: float

    @classmethod
    def fit(
        cls,
        waves: Iterable[Tensor],
        *,
        units: int = 100,
        steadiness: float = 2.0,
        seed: int = 0,
        iterations: int = 30,
        max_frames: Frames = 60_000,
    ) -> Self:
        """Run k-means on the frames of ``waves``.

        Args:
            waves: waveforms (n,) at 16 kHz.
            units: number of units K.
            steadiness: penalty as a multiple of the mean squared distance. With a penalty, units
                last longer, so that fewer units have to be predicted; 0 selects the nearest
                centroid of each frame.
            seed: seed of the initial centroids.
            iterations: number of iterations of k-means.
            max_frames: maximum number of frames that k-means uses.

        Raises:
            ZooError: there are fewer frames than units.
        """
        frames = torch.cat([features(wave) for wave in waves])
        if len(frames) < units:
            raise ZooError(
                f"{units} units need at least as many frames of speech, not {len(frames)}."
            )
        random = torch.Generator().manual_seed(seed)
        frames = frames[torch.randperm(len(frames), generator=random)[:max_frames]]
        centroids = _spread(frames, units, random)
        for _ in range(iterations):
            nearest = torch.cdist(frames, centroids).argmin(1)
            count = torch.bincount(nearest, minlength=units).unsqueeze(1)
            sums = torch.zeros_like(centroids).index_add_(0, nearest, frames)
            # A centroid without frames moves to a random frame.
            others = frames[torch.randint(len(frames), (units,), generator=random)]
            centroids = torch.where(count > 0, sums / count.clamp(min=1), others)
        distance = torch.cdist(frames, centroids).amin(1).square().mean()
        return cls(centroids, steadiness * float(distance))

    def __len__(self) -> int:
        return len(self.centroids)

    def encode(self, samples: Tensor) -> Tensor:
        """Return the units (n,) int64 of samples (m,), one per frame: n = m / 320, rounded up.

        The sequence minimises the sum of squared distances and penalties (Viterbi search).
        """
        distances = torch.cdist(features(samples), self.centroids).square().cpu().numpy()
        cost = distances[0]  # cost of the best sequence that ends with each unit
        switched = np.zeros(distances.shape, dtype=bool)  # whether the unit before differs
        best = np.zeros(len(distances), dtype=int)  # unit before, if it differs
        for frame in range(1, len(distances)):
            best[frame] = cost.argmin()
            change = cost[best[frame]] + self.penalty
            switched[frame] = cost > change
            cost = np.minimum(cost, change) + distances[frame]
        units = np.full(len(distances), cost.argmin())
        for frame in range(len(distances) - 1, 0, -1):
            units[frame - 1] = best[frame] if switched[frame, units[frame]] else units[frame]
        return torch.from_numpy(units)

    def save(self, folder: Path) -> None:
        """Write ``units.safetensors`` into a model's folder."""
        metadata = {"format": "pt", "penalty": repr(self.penalty)}
        with atomic_file(folder / FILE) as temporary:
            save_file({"centroids": self.centroids.contiguous()}, temporary, metadata=metadata)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the codebook of a model's folder. Raises ZooError for a missing or damaged file."""
        try:
            with safetensors.safe_open(folder / FILE, framework="pt") as file:
                return cls(file.get_tensor("centroids"), float(file.metadata()["penalty"]))
        except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ZooError(
                f"{folder / FILE} is missing or damaged; it holds the units of target speech."
            ) from error


def collapse_repetitions(units: Tensor) -> tuple[Tensor, Tensor]:
    """Return units (m,) without repetitions, and the duration of each unit in frames.

    ``repeat_interleave`` of both results returns ``units``.
    """
    distinct, durations = torch.unique_consecutive(units, return_counts=True)
    return distinct, durations


def features(samples: Tensor) -> Tensor:
    """Return the mel cepstrum (n, 16) of samples (m,): n = m / 320, rounded up.

    Frame i is centred on sample 320 i + 160.
    """
    count = max(1, -(-len(samples) // FRAME))
    left = (FFT - FRAME) // 2
    padded = functional.pad(
        samples.float(), (left, FFT - FRAME - left + count * FRAME - len(samples))
    )
    window = torch.hann_window(WINDOW, device=samples.device)
    spectrum = torch.stft(
        padded, FFT, FRAME, WINDOW, window, center=False, return_complex=True
    ).abs()
    mel = mel_filters(FFT).to(samples.device) @ spectrum
    return mel.clamp(min=QUIET).log().T @ _cosines().to(samples.device)


@cache
def mel_filters(size: Samples, bands: int = BANDS) -> Tensor:
    """Return triangular filters for magnitudes of an FFT: (bands, size / 2 + 1).

    Args:
        size: length of the FFT.
        bands: number of mel bands.
    """
    filters = mel_filter_bank(
        size // 2 + 1, bands, 0.0, SAMPLE_RATE / 2, SAMPLE_RATE, norm=None, mel_scale="htk"
    )
    return torch.from_numpy(filters).float().T.contiguous()


@cache
def _cosines() -> Tensor:
    """Return the (80, 16) cosine transform; the first coefficient has the weight ``ENERGY``."""
    bands = torch.arange(BANDS) + 0.5
    rows = torch.cos(math.pi / BANDS * bands.unsqueeze(1) * torch.arange(COEFFICIENTS)) * math.sqrt(
        2 / BANDS
    )
    rows[:, 0] *= ENERGY
    return rows


def _spread(frames: Tensor, count: int, random: torch.Generator) -> Tensor:
    """Draw initial centroids (count, width): frames with large distances (k-means++)."""
    chosen = [int(torch.randint(len(frames), (), generator=random))]
    distance = torch.full((len(frames),), torch.inf)
    for _ in range(count - 1):
        distance = torch.minimum(distance, (frames - frames[chosen[-1]]).square().sum(1))
        weights = distance if distance.sum() > 0 else torch.ones_like(distance)
        chosen.append(int(torch.multinomial(weights, 1, generator=random)))
    return frames[chosen].clone()
