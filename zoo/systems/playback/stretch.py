"""Late speech is spoken faster: its tempo changes, its pitch does not (WSOLA).

Verhelst and Roelands (1993), "An overlap-add technique based on waveform similarity (WSOLA) for
high quality time-scale modification of speech". The maintained libraries for it are compiled
(Rubber Band, Signalsmith) or change tempo by a phase vocoder, which blurs speech (librosa).
"""

from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.base.errors import check_numbers
from zoo.base.types import Samples, Seconds
from zoo.systems.playback.base import Playback

HOP: Samples = 240  # 15 ms: frames of 30 ms overlap by half
SEARCH: Samples = 120  # 7.5 ms to both sides, together the longest period of a voice


class Stretch(Playback):
    """Speaks as much faster as makes up for the delay within one piece, up to a limit.

    Args:
        fastest: Highest tempo; 1.3 leaves 77 % of the duration.
        behind_seconds: How far playback may be behind before speech is shortened.

    Raises:
        ZooError: ``fastest`` is not above 1 and at most 3, or ``behind_seconds`` is negative.
    """

    def __init__(self, *, fastest: float = 1.3, behind_seconds: Seconds = 1.0) -> None:
        super().__init__(behind_seconds=behind_seconds)
        check_numbers("Stretch", above=1, most=3, fastest=fastest)
        self.fastest = fastest

    def shorten(self, speech: Tensor, samples: Samples) -> Tensor:
        """See ``Playback``."""
        length = max(ceil(speech.numel() / self.fastest), speech.numel() - samples)
        return change_tempo(speech, length)


def change_tempo(speech: Tensor, length: Samples) -> Tensor:
    """Return speech with another duration and the same pitch.

    Frames are taken from the input at the changed tempo and added with an overlap. Each is moved by
    up to ``SEARCH`` samples to where it resembles the natural continuation of the frame before it.

    Args:
        speech: (n,) waveform.
        length: Number of samples of the result.

    Returns:
        (length,) waveform; the input itself if it is shorter than two frames.
    """
    if speech.numel() < 4 * HOP or length == speech.numel():
        return speech
    tempo = speech.numel() / length
    padded = F.pad(speech, (0, 2 * HOP + 2 * SEARCH))
    rise = torch.linspace(0, 1, HOP, dtype=speech.dtype, device=speech.device)

    parts = [padded[:HOP]]
    continuation = padded[HOP : 2 * HOP]
    for number in range(1, ceil(length / HOP)):
        wanted = round(number * HOP * tempo)
        start = max(wanted - SEARCH, 0)
        start += _most_similar(padded[start : wanted + SEARCH + HOP], continuation)
        frame = padded[start : start + 2 * HOP]
        parts.append(continuation * (1 - rise) + frame[:HOP] * rise)
        continuation = frame[HOP:]
    return torch.cat(parts)[:length]


def _most_similar(region: Tensor, continuation: Tensor) -> Samples:
    """Return where a region resembles (n,) samples most, by normalised correlation."""
    windows = region.unfold(0, continuation.numel(), 1)
    norms = windows.square().sum(dim=1).clamp_min(1e-9).sqrt()
    return int(((windows @ continuation) / norms).argmax())
