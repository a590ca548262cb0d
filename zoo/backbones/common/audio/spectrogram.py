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
LEAST_SPREAD = 1e-5  # of a bin's log energy: less is rounding


class Spectrogram(ABC):
    """Log mel energies, computed in float64 and kept in float32 on the CPU, where the audio is.

    Attributes:
        filters: (frequencies, bins).
        window: (WINDOW,).
    """

    filters: Tensor
    window: Tensor

    def open(self) -> FeatureCache:
        """An empty cache for a new stream."""
        return FeatureCache(torch.zeros(0, self.filters.shape[1]))

    @abstractmethod
    def compute(self, known: FeatureCache, wave: Tensor, start: Samples) -> Tensor:
        """Frames of the kept audio, equal to those of a stream that begins at ``start``.

        Args:
            known: Cache of the stream; new frames are added.
            wave: (n,) kept samples.
            start: Stream position of the first sample.

        Returns:
            (frames, bins).
        """

    @abstractmethod
    def _log(self, energies: Tensor) -> Tensor:
        """Logarithm of (frames, bins) energies."""

    def _mel(self, windows: Tensor, size: int) -> Tensor:
        """(frames, WINDOW) float64 samples to (frames, bins); ``size`` is the length of the
        transform.
        """
        power = torch.fft.rfft(windows * self.window, size).abs().square()
        return self._log(power @ self.filters).float()


class Filterbank(Spectrogram):
    """Kaldi's filterbank, as in SeamlessM4T and Speech2Text: windows are not centred and lie within
    the audio.

    A frame depends on its own window only, so no frame is computed twice.
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

    def compute(self, known: FeatureCache, wave: Tensor, start: Samples) -> Tensor:
        """Frames whose window lies within ``wave``: n samples have ``(n - 400) // 160 + 1``."""
        known.move(start, hop=HOP)
        frames, have = max((wave.numel() - WINDOW) // HOP + 1, 0), known.frames.shape[0]
        if frames > have:
            known.extend(self._windowed(wave[have * HOP :]))
        return known.frames[:frames]

    def _windowed(self, wave: Tensor) -> Tensor:
        windows = (
            wave.double().unfold(0, WINDOW, HOP) * 2**15
        )  # Kaldi's samples are 16 bit integers
        windows = windows - windows.mean(dim=1, keepdim=True)
        before = torch.cat([windows[:, :1], windows[:, :-1]], dim=1)
        return self._mel(windows - 0.97 * before, self.POINTS)

    def _log(self, energies: Tensor) -> Tensor:
        return energies.clamp_min(self.FLOOR).log()


class CentredSpectrogram(Spectrogram):
    """Whisper's spectrogram: windows are centred on multiples of the hop, in ``span`` samples
    padded with silence.

    The first two windows, mirrored at the start of the kept audio, and those that reach into the
    silence at its end are computed at every request.
    """

    SILENT: ClassVar[float] = -10.0  # of frames that hold nothing but silence
    HALF: ClassVar[Samples] = WINDOW // 2
    MIRRORED: ClassVar[int] = 2  # windows that reach past an end of the span

    def __init__(self, bins: int, span: Samples) -> None:
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

    def compute(self, known: FeatureCache, wave: Tensor, start: Samples) -> Tensor:
        """Frames that cover ``wave``, n <= span samples; the rest of the span is ``SILENT``."""
        known.move(start, hop=HOP)
        last = min(max(-(-(wave.numel() + self.HALF) // HOP), self.MIRRORED + 1), self.span // HOP)
        whole = max(
            (wave.numel() - self.HALF) // HOP + 1, 0
        )  # less than last: the last window is never whole
        if whole > max(known.frames.shape[0], self.MIRRORED):
            known.extend(self._windowed(wave, known.frames.shape[0], whole))
        frames = known.frames[self.MIRRORED : whole]
        tail = self.MIRRORED + frames.shape[0]
        return torch.cat(
            [self._windowed(wave, 0, self.MIRRORED), frames, self._windowed(wave, tail, last)]
        )

    def _windowed(self, wave: Tensor, first: int, last: int) -> Tensor:
        """(last - first, bins): frames from ``first`` on of the span that begins with ``wave``."""
        begin, end = first * HOP - self.HALF, (last - 1) * HOP + self.HALF
        piece = wave[max(begin, 0) : min(end, self.span)].double()
        piece = F.pad(piece, (0, min(end, self.span) - max(begin, 0) - piece.numel()))
        mirrored = (
            piece[1 : 1 + max(-begin, 0)].flip(0),
            piece[:-1].flip(0)[: max(end - self.span, 0)],
        )
        piece = torch.cat([mirrored[0], piece, mirrored[1]])
        return self._mel(piece.unfold(0, WINDOW, HOP), WINDOW)

    def _log(self, energies: Tensor) -> Tensor:
        return energies.clamp_min(10.0**self.SILENT).log10()


def standardised(frames: Tensor, *, mean: bool, deviation: bool) -> Tensor:
    """Speech2Text's normalisation of (frames, bins) over the utterance.

    A constant bin, as in digital silence, becomes 0; Transformers divides 0 by 0 there.

    Args:
        frames: (frames, bins).
        mean: Whether the mean is subtracted.
        deviation: Whether the result is divided by the standard deviation.
    """
    precise = frames.double()
    centre = precise.mean(dim=0) if mean else 0.0
    spread = precise.std(dim=0, correction=0).clamp_min(LEAST_SPREAD) if deviation else 1.0
    return ((precise - centre) / spread).float()


def stacked(frames: Tensor, stride: int) -> Tensor:
    """SeamlessM4T's input: (frames, bins) normalised over the utterance, ``stride`` frames side by
    side.
    """
    whole = frames.shape[0] // stride
    precise = frames.double()
    normal = (precise - precise.mean(dim=0)) / (precise.var(dim=0) + 1e-7).sqrt()
    return normal[: whole * stride].reshape(whole, -1).float()


def limited(frames: Tensor, size: int) -> Tensor:
    """Whisper's input: (frames, bins) cut or padded with silence to (size, bins), at most 8 below
    the maximum.
    """
    full = F.pad(frames, (0, 0, 0, size - frames.shape[0]), value=CentredSpectrogram.SILENT)
    return (torch.maximum(full, full.max() - 8.0) + 4.0) / 4.0
