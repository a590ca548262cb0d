"""Spectrograms of live streams, computed for new audio only."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.audio_utils import mel_filter_bank, window_function

from zoo.backbones.common.audio.feature_cache import FeatureCache
from zoo.types import SAMPLE_RATE, Samples

HOP: Samples = 160  # 10 ms between two windows
WINDOW: Samples = 400  # 25 ms
MIN_DEVIATION = 1e-5  # standard deviation of log energies; smaller values are rounding errors


class Spectrogram(ABC):
    """Base class of log-mel spectrograms of live streams.

    Energies are computed in float64 and stored in float32, on the CPU like the audio.

    Attributes:
        filters: (frequencies, bins) mel filter bank.
        window: (WINDOW,) window function.
    """

    filters: Tensor
    window: Tensor

    def open(self) -> FeatureCache:
        """Create an empty cache for a new stream."""
        return FeatureCache(torch.zeros(0, self.filters.shape[1]))

    @abstractmethod
    def compute(self, cache: FeatureCache, wave: Tensor, start: Samples) -> Tensor:
        """Return the spectrogram of the kept audio, as if the stream began at ``start``.

        Args:
            cache: Cache of the stream, to which new frames are appended.
            wave: (n,) kept samples at 16 kHz.
            start: Stream position of the first kept sample.

        Returns:
            (frames, bins) float32.
        """

    @abstractmethod
    def _log(self, energies: Tensor) -> Tensor:
        """Return the floored logarithm of energies (frames, bins)."""

    def _mel(self, windows: Tensor, size: int) -> Tensor:
        """Compute log-mel energies.

        Args:
            windows: (frames, WINDOW) float64 samples.
            size: Length of the Fourier transform.

        Returns:
            (frames, bins) float32.
        """
        power = torch.fft.rfft(windows * self.window, size).abs().square()
        return self._log(power @ self.filters).float()


class Filterbank(Spectrogram):
    """Kaldi's log-mel filter bank, the input of SeamlessM4T and Speech2Text.

    Windows are not centred and lie within the audio. Each frame depends only on its own window, so
    no frame is computed twice.
    """

    POINTS: ClassVar[int] = 512
    FLOOR: ClassVar[float] = torch.finfo(torch.float32).eps

    def __init__(self, bins: int) -> None:
        self.filters = torch.from_numpy(
            mel_filter_bank(
                num_frequency_bins=self.POINTS // 2 + 1,
                num_mel_filters=bins,
                min_frequency=20,
                max_frequency=SAMPLE_RATE // 2,
                sampling_rate=SAMPLE_RATE,
                norm=None,
                mel_scale="kaldi",
                triangularize_in_mel_space=True,
            )
        )
        self.window = torch.from_numpy(window_function(WINDOW, "povey", periodic=False))

    def compute(self, cache: FeatureCache, wave: Tensor, start: Samples) -> Tensor:
        """Return the frames whose windows lie within ``wave``, ``(n - 400) // 160 + 1`` frames."""
        cache.move(start, hop=HOP)
        num_frames = max((wave.numel() - WINDOW) // HOP + 1, 0)
        num_cached = cache.frames.shape[0]
        if num_frames > num_cached:
            cache.extend(self._windowed(wave[num_cached * HOP :]))
        return cache.frames[:num_frames]

    def _windowed(self, wave: Tensor) -> Tensor:
        """Return the frames (n, bins) of all complete windows of ``wave``."""
        windows = wave.double().unfold(0, WINDOW, HOP)  # (frames, WINDOW)
        windows = windows * 2**15  # Kaldi's samples are 16-bit integers
        windows = windows - windows.mean(dim=1, keepdim=True)  # removes the DC offset
        previous = torch.cat([windows[:, :1], windows[:, :-1]], dim=1)
        return self._mel(windows - 0.97 * previous, self.POINTS)  # pre-emphasis

    def _log(self, energies: Tensor) -> Tensor:
        return energies.clamp_min(self.FLOOR).log()


class CentredSpectrogram(Spectrogram):
    """Whisper's log-mel spectrogram, with windows centred on multiples of the hop.

    The kept audio is padded with silence to ``span`` samples and mirrored at both ends of the span.
    Two kinds of windows are computed anew at every request: the first two windows, which contain
    mirrored audio, and the windows that reach into the silence after the kept audio.
    """

    SILENT: ClassVar[float] = -10.0  # log10 energy of frames that contain only silence
    HALF: ClassVar[Samples] = WINDOW // 2
    MIRRORED: ClassVar[int] = 2  # windows at each end of the span that contain mirrored audio

    def __init__(self, bins: int, span: Samples) -> None:
        """Create the filter bank and the window.

        Args:
            bins: Number of mel bins.
            span: Number of samples after padding, such as 480 000 (30 s).
        """
        self.span = span
        self.filters = torch.from_numpy(
            mel_filter_bank(
                num_frequency_bins=WINDOW // 2 + 1,
                num_mel_filters=bins,
                min_frequency=0.0,
                max_frequency=SAMPLE_RATE / 2,
                sampling_rate=SAMPLE_RATE,
                norm="slaney",
                mel_scale="slaney",
            )
        )
        self.window = torch.hann_window(WINDOW, dtype=torch.float64)

    def compute(self, cache: FeatureCache, wave: Tensor, start: Samples) -> Tensor:
        """Return the frames whose windows overlap ``wave``, of at most ``span`` samples.

        All later frames of the span have the value ``SILENT`` and are not returned.
        """
        cache.move(start, hop=HOP)
        overlapping = -(-(wave.numel() + self.HALF) // HOP)  # rounded up
        num_frames = min(max(overlapping, self.MIRRORED + 1), self.span // HOP)
        # Windows that end within the wave. The last of the num_frames windows never does.
        num_complete = max((wave.numel() - self.HALF) // HOP + 1, 0)

        num_cached = cache.frames.shape[0]
        if num_complete > max(num_cached, self.MIRRORED):
            cache.extend(self._windowed(wave, num_cached, num_complete))
        complete = cache.frames[self.MIRRORED : num_complete]
        first_incomplete = self.MIRRORED + complete.shape[0]
        mirrored = self._windowed(wave, 0, self.MIRRORED)
        incomplete = self._windowed(wave, first_incomplete, num_frames)
        return torch.cat([mirrored, complete, incomplete])

    def _windowed(self, wave: Tensor, first: int, last: int) -> Tensor:
        """Compute some frames of the span.

        Args:
            wave: (n,) samples at the start of the span.
            first: Index of the first frame.
            last: Index after the last frame.

        Returns:
            (last - first, bins).
        """
        begin = first * HOP - self.HALF
        end = (last - 1) * HOP + self.HALF
        first_sample = max(begin, 0)
        last_sample = min(end, self.span)
        samples = wave[first_sample:last_sample].double()
        silence = last_sample - first_sample - samples.numel()
        samples = F.pad(samples, (0, silence))

        mirrored_start = samples[1 : 1 + max(-begin, 0)].flip(0)
        mirrored_end = samples[:-1].flip(0)[: max(end - self.span, 0)]
        samples = torch.cat([mirrored_start, samples, mirrored_end])
        return self._mel(samples.unfold(0, WINDOW, HOP), WINDOW)

    def _log(self, energies: Tensor) -> Tensor:
        return energies.clamp_min(10.0**self.SILENT).log10()


def standardised(frames: Tensor, *, mean: bool, deviation: bool) -> Tensor:
    """Normalise a spectrogram over the utterance, as Speech2Text does.

    A bin that is constant over time, as in digital silence, becomes 0. Transformers divides 0 by 0
    in this case.

    Args:
        frames: (frames, bins).
        mean: Whether the mean of each bin is subtracted.
        deviation: Whether each bin is divided by its standard deviation.

    Returns:
        (frames, bins) float32.
    """
    precise = frames.double()
    centre: Tensor | float = 0.0
    if mean:
        centre = precise.mean(dim=0)
    spread: Tensor | float = 1.0
    if deviation:
        spread = precise.std(dim=0, correction=0).clamp_min(MIN_DEVIATION)
    return ((precise - centre) / spread).float()


def stacked(frames: Tensor, stride: int) -> Tensor:
    """Normalise a spectrogram over the utterance and stack frames, as SeamlessM4T does.

    Args:
        frames: (frames, bins).
        stride: Number of consecutive frames that are concatenated.

    Returns:
        (frames // stride, stride x bins) float32.
    """
    num_stacks = frames.shape[0] // stride
    precise = frames.double()
    normalised = (precise - precise.mean(dim=0)) / (precise.var(dim=0) + 1e-7).sqrt()
    return normalised[: num_stacks * stride].reshape(num_stacks, -1).float()


def limited(frames: Tensor, size: int) -> Tensor:
    """Pad or cut a spectrogram to ``size`` frames and scale it, as Whisper does.

    Log energies more than 8 below the maximum are raised to 8 below the maximum.

    Args:
        frames: (frames, bins) log10 energies.
        size: Number of frames of the result.

    Returns:
        (size, bins).
    """
    full = F.pad(frames, (0, 0, 0, size - frames.shape[0]), value=CentredSpectrogram.SILENT)
    return (torch.maximum(full, full.max() - 8.0) + 4.0) / 4.0
