"""Latency of one stretch of speech with one reference, and its mean over a corpus. Knows no log, talk or alignment.

Every ``torchmetrics.Metric`` here sums two numbers, so that ranks that saw different streams agree on the mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from zoo.types import Seconds

MS = 1000.0
SOURCE_TOKEN_MS = 300.0  # ATD takes a spoken word to last this long


@dataclass(frozen=True, slots=True)
class Timing:
    """When the units of one segment were written.

    times: seconds from the segment's start, ideal or computation-aware, one per unit. ideal: the ideal times, where
    ``times`` are computation-aware (ATD wants both). source_length: seconds. reference_length: units.
    recording_end: seconds from the segment's start to the end of the recording (long form).
    """

    times: tuple[Seconds, ...]
    source_length: Seconds
    reference_length: int
    recording_end: Seconds = float("inf")
    ideal: tuple[Seconds, ...] | None = None

    @property
    def scorable(self) -> bool:
        """Something was written and there was something to hear."""
        return bool(self.times) and self.source_length > 0


class StreamMean(Metric):
    """Unweighted mean of one number per segment or stream; NaN if there is none."""

    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def add(self, value: float | None) -> None:
        """One more number; None is left out."""
        if value is not None:
            self.total += value
            self.count += 1

    def compute(self) -> Tensor:
        """() float64."""
        return self.total / self.count


class SegmentLatency(StreamMean):
    """Unweighted mean over the segments on which :meth:`score` is defined; NaN if there is none."""

    def score(self, timing: Timing) -> float | None:
        """Seconds (AP: a ratio) for one segment, or None where the metric says nothing about it."""
        raise NotImplementedError

    def update(self, timing: Timing) -> None:
        """Add one segment."""
        self.add(self.score(timing))


class AL(SegmentLatency):
    """Average Lagging (Ma et al. 2019) as SimulEval computes it: seconds, negative values kept."""

    def score(self, timing: Timing) -> float | None:
        return _lagging(timing, length=timing.reference_length)


class LAAL(SegmentLatency):
    """Length-Adaptive Average Lagging (Papi et al. 2022, Polák et al. 2022): seconds."""

    def score(self, timing: Timing) -> float | None:
        return _lagging(timing, length=max(len(timing.times), timing.reference_length))


class YAAL(SegmentLatency):
    """Yet Another Average Lagging (Polák et al. 2025): only units written before the end count.

    long_form: the end is the recording's, not the segment's.
    """

    def __init__(self, *, long_form: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.long_form = long_form

    def score(self, timing: Timing) -> float | None:
        if not timing.scorable:
            return None
        end = (
            timing.recording_end
            if self.long_form
            else min(timing.source_length, timing.recording_end)
        )
        pace = timing.source_length / max(len(timing.times), timing.reference_length)
        lags: list[float] = []
        for position, time in enumerate(timing.times):
            if time >= end:
                break
            lags.append(time - position * pace)
        return sum(lags) / len(lags) if lags else None


class AP(SegmentLatency):
    """Average Proportion (Cho and Esipova 2016): a ratio."""

    def score(self, timing: Timing) -> float | None:
        if not timing.scorable or timing.reference_length == 0:
            return None
        return sum(timing.times) / (timing.source_length * timing.reference_length)


class DAL(SegmentLatency):
    """Differentiable Average Lagging (Cherry and Foster 2019): seconds."""

    def score(self, timing: Timing) -> float | None:
        if not timing.scorable:
            return None
        pace = timing.source_length / len(timing.times)
        written, total = timing.times[0], 0.0
        for position, time in enumerate(timing.times):
            written = max(time, written + pace) if position else time
            total += written - position * pace
        return total / len(timing.times)


class ATD(SegmentLatency):
    """Average Token Delay (Kano et al. 2023) for speech in, text out: seconds.

    Spoken words last 0.3 s, written ones no time. Counted in milliseconds, because 2.7 s holds nine tokens of 300 ms
    but, in floating point, not nine of 0.3 s.
    """

    def score(self, timing: Timing) -> float | None:
        if not timing.times:
            return None
        delays = _milliseconds(timing.times if timing.ideal is None else timing.ideal)
        spent = [
            after - before
            for after, before in zip(_milliseconds(timing.times), delays, strict=True)
        ]
        return token_delay(delays, spent) / MS


class StartOffset(SegmentLatency):
    """Seconds of source before the first unit."""

    def score(self, timing: Timing) -> float | None:
        return timing.times[0] if timing.times else None


class EndOffset(SegmentLatency):
    """Seconds from the end of the source to the last unit (written text)."""

    def score(self, timing: Timing) -> float | None:
        return timing.times[-1] - timing.source_length if timing.times else None


class RTF(Metric):
    """Real-time factor: all compute over all audio (not SimulEval's ``RTF``, which is d_n / S)."""

    full_state_update = False
    compute_seconds: Tensor
    audio_seconds: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state(
            "compute_seconds", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum"
        )
        self.add_state("audio_seconds", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, compute: Sequence[Seconds], source_length: Seconds) -> None:
        """Add one stream: wall-clock seconds per chunk and seconds of audio."""
        self.compute_seconds += sum(compute)
        self.audio_seconds += source_length

    def compute(self) -> Tensor:
        """() float64."""
        return self.compute_seconds / self.audio_seconds


def _lagging(timing: Timing, *, length: int) -> float | None:
    """Mean lag behind an ideal writer of ``length`` units, up to and with the first unit not before the end."""
    if not timing.scorable or length == 0:
        return None
    if timing.times[0] > timing.source_length:
        return timing.times[0]
    pace = timing.source_length / length
    lags: list[float] = []
    for position, time in enumerate(timing.times):
        lags.append(time - position * pace)
        if time >= timing.source_length:
            break
    return sum(lags) / len(lags)


def _milliseconds(times: Sequence[Seconds]) -> list[float]:
    return [round(time * MS, 6) for time in times]


def token_delay(
    delays: Sequence[float], spent: Sequence[float], lengths: Sequence[float] | None = None
) -> float:
    """Mean of (end of a target token - end of the source token it is paired with), milliseconds.

    spent: compute so far per token. lengths: how long each one sounds (None: written words take no time). A target
    token is paired with the source token of the same number, or with the last one heard; a writer that is ahead of the
    source is not credited for it (section 3 of the paper).
    """
    moments = list(dict.fromkeys(delays))
    heard_tokens, source_ends = _source_tokens(moments)
    chunk, written_before, total, end, spent_before = 0, 0, 0.0, 0.0, 0.0
    for position, delay in enumerate(delays):
        if position == 0 or delay != delays[position - 1]:
            chunk, written_before = chunk + 1, position
        end = (
            max(delay, end)
            + spent[position]
            - spent_before
            + (lengths[position] if lengths else 0.0)
        )
        spent_before = spent[position]
        ahead = max(0, written_before - heard_tokens[min(chunk, len(moments)) - 1])
        paired = min(position + 1 - ahead, heard_tokens[min(chunk, len(moments))])
        total += end - source_ends[paired]
    return total / len(delays)


def _source_tokens(moments: Sequence[float]) -> tuple[list[int], list[float]]:
    """Source tokens heard by each moment (with a 0 in front) and the end of each token (with a 0 in front)."""
    heard, ends = [0], [0.0]
    before = 0.0
    for moment in moments:
        whole, rest = divmod(moment - before, SOURCE_TOKEN_MS)
        lengths = [SOURCE_TOKEN_MS] * int(whole) + ([rest] if rest else [])
        for length in lengths:
            ends.append(ends[-1] + length)
        heard.append(heard[-1] + len(lengths))
        before = moment
    return heard, ends


SENTENCE_METRICS: dict[str, type[SegmentLatency]] = {
    "AL": AL,
    "LAAL": LAAL,
    "AP": AP,
    "DAL": DAL,
    "ATD": ATD,
    "YAAL": YAAL,
}
