"""Spectrograms of live streams, computed for new audio only."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.audio_utils import mel_filter_bank, window_function

from zoo.backbones.encoders.audio.feature_cache import FeatureCache
from zoo.base.types import SAMPLE_RATE, Samples
from zoo.streaming.stages import stage

HOP: Samples = 160  # 10 ms between two windows
WINDOW: Samples = 400  # 25 ms per window
HALF: Samples = WINDOW // 2
EARLY = 2  # number of centred windows that begin before the audio
PRE_EMPHASIS = 0.97
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

    @stage("features")
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
        return self._mel(windows - PRE_EMPHASIS * previous, self.POINTS)

    def _log(self, energies: Tensor) -> Tensor:
        return energies.clamp_min(self.FLOOR).log()


class PaddedSpectrogram(Spectrogram):
    """NeMo's log-mel spectrogram, with windows centred on multiples of the hop.

    The kept audio has pre-emphasis, and is followed and preceded by zeros.
    """

    POINTS: ClassVar[int] = 512
    FLOOR: ClassVar[float] = 2**-24  # added to energies before the logarithm

    def __init__(self, bins: int) -> None:
        self.filters = _slaney_filters(bins, self.POINTS)
        self.window = torch.hann_window(WINDOW, periodic=False, dtype=torch.float64)

    @stage("features")
    def compute(self, cache: FeatureCache, wave: Tensor, start: Samples) -> Tensor:
        """Return one frame per complete hop of ``wave``, ``n // 160`` frames."""
        cache.move(start, hop=HOP)
        return _centred(self._windowed, cache, wave, wave.numel() // HOP)

    def _windowed(self, wave: Tensor, first: int, last: int) -> Tensor:
        """Return the frames ``first`` to ``last - 1`` of ``wave`` (n,): (frames, bins)."""
        begin = first * HOP - HALF
        end = (last - 1) * HOP + HALF
        first_sample = max(begin, 0)
        samples = wave[max(first_sample - 1, 0) : end].double()
        previous = samples[:-1]
        if first_sample == 0:  # no sample precedes the first one
            previous = F.pad(previous, (1, 0))
        else:
            samples = samples[1:]
        emphasised = samples - PRE_EMPHASIS * previous
        zeros = end - first_sample - emphasised.numel()
        padded = F.pad(emphasised, (first_sample - begin, zeros))
        return self._mel(padded.unfold(0, WINDOW, HOP), self.POINTS)

    def _log(self, energies: Tensor) -> Tensor:
        return (energies + self.FLOOR).log()


class CentredSpectrogram(Spectrogram):
    """Whisper's log-mel spectrogram, with windows centred on multiples of the hop.

    The kept audio is padded with silence to ``span`` samples and mirrored at both ends of the span.
    A span is what an extractor of Whisper pads to; extractors that do not pad have none.
    """

    SILENT: ClassVar[float] = -10.0  # log10 energy of frames that contain only silence
    MIRRORED: ClassVar[int] = EARLY  # windows at each end of the span that contain mirrored audio

    def __init__(self, bins: int, span: Samples | None) -> None:
        """Create the filter bank and the window.

        Args:
            bins: Number of mel bins.
            span: Number of samples after padding, such as 480 000 (30 s). None: the audio is not
                padded, and is mirrored at its own end.
        """
        self.span = span
        self.filters = _slaney_filters(bins, WINDOW)
        self.window = torch.hann_window(WINDOW, dtype=torch.float64)

    @stage("features")
    def compute(self, cache: FeatureCache, wave: Tensor, start: Samples) -> Tensor:
        """Return the frames whose windows overlap ``wave``, of at most ``span`` samples.

        All later frames of the span have the value ``SILENT`` and are not returned. Without a span,
        there is one frame per complete hop of ``wave``, and none if its half window is not full.
        """
        cache.move(start, hop=HOP)
        span = wave.numel() if self.span is None else self.span
        if span <= HALF:  # too short to be mirrored
            return cache.frames[:0]
        overlapping = -(-(wave.numel() + HALF) // HOP)  # rounded up
        num_frames = min(max(overlapping, self.MIRRORED + 1), span // HOP)
        return _centred(partial(self._windowed, span=span), cache, wave, num_frames)

    def _windowed(self, wave: Tensor, first: int, last: int, *, span: Samples) -> Tensor:
        """Return the frames ``first`` to ``last - 1`` of the span at whose start is ``wave``."""
        begin = first * HOP - HALF
        end = (last - 1) * HOP + HALF
        first_sample = max(begin, 0)
        last_sample = min(end, span)
        samples = wave[first_sample:last_sample].double()
        silence = last_sample - first_sample - samples.numel()
        samples = F.pad(samples, (0, silence))

        mirrored_start = samples[1 : 1 + max(-begin, 0)].flip(0)
        mirrored_end = samples[:-1].flip(0)[: max(end - span, 0)]
        samples = torch.cat([mirrored_start, samples, mirrored_end])
        return self._mel(samples.unfold(0, WINDOW, HOP), WINDOW)

    def _log(self, energies: Tensor) -> Tensor:
        return energies.clamp_min(10.0**self.SILENT).log10()


def _centred(
    windowed: Callable[[Tensor, int, int], Tensor], cache: FeatureCache, wave: Tensor, frames: int
) -> Tensor:
    """Return the first ``frames`` frames of centred windows; complete windows are cached.

    Two kinds of windows are computed anew at every request: the first two windows, which begin
    before the kept audio, and the windows that end after it.

    Args:
        windowed: Function from the kept audio and two indices, the first frame and the frame after
            the last one, to frames (n, bins).
        cache: Cache of the stream, which begins where ``wave`` begins.
        wave: (n,) kept samples.
        frames: Number of frames.

    Returns:
        (frames, bins).
    """
    num_complete = max((wave.numel() - HALF) // HOP + 1, 0)  # windows that end within the wave
    num_cached = cache.frames.shape[0]
    if num_complete > max(num_cached, EARLY):
        cache.extend(windowed(wave, num_cached, num_complete))
    complete = cache.frames[EARLY:num_complete]
    first_incomplete = EARLY + complete.shape[0]
    spans = [windowed(wave, 0, EARLY), complete]
    if first_incomplete < frames:
        spans.append(windowed(wave, first_incomplete, frames))
    return torch.cat(spans)[:frames]


def _slaney_filters(bins: int, points: int) -> Tensor:
    """Return the mel filter bank (frequencies, bins) float64 of Slaney's toolbox, up to 8 kHz."""
    return torch.from_numpy(
        mel_filter_bank(
            num_frequency_bins=points // 2 + 1,
            num_mel_filters=bins,
            min_frequency=0.0,
            max_frequency=SAMPLE_RATE / 2,
            sampling_rate=SAMPLE_RATE,
            norm="slaney",
            mel_scale="slaney",
        )
    )


def speech_to_text_features(frames: Tensor, *, mean: bool, deviation: bool) -> Tensor:
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


def seamless_features(frames: Tensor, stride: int) -> Tensor:
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


def whisper_features(frames: Tensor, size: int) -> Tensor:
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


def encoder_inputs(
    spectrogram: Spectrogram, prepared: Callable[[Tensor], Tensor], waves: Iterable[Tensor]
) -> list[Tensor]:
    """Compute the encoder input (F, bins) of each wave.

    Args:
        spectrogram: Computes feature frames.
        prepared: Converts spectrogram frames (F, bins) to encoder input.
        waves: Audio samples (n,).
    """
    return [prepared(spectrogram.compute(spectrogram.open(), wave.cpu(), 0)) for wave in waves]
