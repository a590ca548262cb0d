"""Latency metrics of single segments and their means over a corpus.

Each metric sums two numbers, so that the mean of several parts of a corpus is correct.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from zoo.base.types import Seconds

MS = 1000.0  # milliseconds per second
SOURCE_TOKEN_MS = 300.0  # ATD assumes this duration of a spoken word


@dataclass(frozen=True, slots=True)
class Timing:
    """Output times of one segment; all times are seconds from the start of the segment.

    Attributes:
        times: Time at which each unit was written, ideal or computation-aware.
        source_length: Duration of the source.
        reference_length: Number of units in the reference.
        recording_end: End of the recording, for metrics of long form.
        ideal: Ideal times if ``times`` are computation-aware; used only by ATD.
    """

    times: tuple[Seconds, ...]
    source_length: Seconds
    reference_length: int
    recording_end: Seconds = float("inf")
    ideal: tuple[Seconds, ...] | None = None

    @property
    def scorable(self) -> bool:
        """Whether the segment has output and source audio."""
        return bool(self.times) and self.source_length > 0


class WeightedMean:
    """Mean of values, unweighted unless counts are given; NaN without values.

    Attributes:
        sums: The sum of the values and their number.
        higher_is_better: Whether a higher mean is better; None if neither holds.
        unit: Unit of the mean, such as ``s``; empty: none.
        digits: Number of decimals that tables show.
    """

    higher_is_better: bool | None = None
    unit: str = ""
    digits: int = 2

    def __init__(self) -> None:
        self.sums = [0.0, 0.0]

    def add(self, value: float | None, count: float = 1) -> None:
        """Add a value, or the sum of ``count`` values; None is ignored."""
        if value is not None:
            self.sums = [self.sums[0] + value, self.sums[1] + count]

    def compute(self) -> float:
        """Return the mean."""
        total, count = self.sums
        return total / count if count else nan


class SegmentLatency(WeightedMean):
    """Unweighted mean over all segments for which :meth:`score` is defined: seconds, lower wins."""

    higher_is_better: bool | None = False
    unit: str = "s"

    def score(self, timing: Timing) -> float | None:
        """Return the latency of one segment in seconds (AP: a ratio), or None if undefined."""
        raise NotImplementedError

    def update(self, timing: Timing) -> None:
        """Add one segment."""
        self.add(self.score(timing))


class AL(SegmentLatency):
    """Average Lagging (Ma et al. 2019) as SimulEval computes it: seconds, negative values kept."""

    def score(self, timing: Timing) -> float | None:
        """Return the mean lag behind even writing of the reference over the source."""
        return _lagging(timing, length=timing.reference_length)


class LAAL(SegmentLatency):
    """Length-Adaptive Average Lagging (Papi et al. 2022, Polák et al. 2022): seconds."""

    def score(self, timing: Timing) -> float | None:
        """Return the mean lag behind even writing of the longer of output and reference."""
        return _lagging(timing, length=max(len(timing.times), timing.reference_length))


class YAAL(SegmentLatency):
    """Yet Another Average Lagging (Polák et al. 2025): seconds; ignores units after the end.

    Args:
        long_form: Whether units count up to the end of the recording instead of the segment.
    """

    def __init__(self, *, long_form: bool = False) -> None:
        super().__init__()
        self.long_form = long_form

    def score(self, timing: Timing) -> float | None:
        """Return the mean lag of the units before the end, or None without such units."""
        if not timing.scorable:
            return None

        end = timing.recording_end
        if not self.long_form:
            end = min(timing.source_length, end)
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
        """Return the sum of the times over source duration times reference length."""
        if not timing.scorable or timing.reference_length == 0:
            return None
        return sum(timing.times) / (timing.source_length * timing.reference_length)


class DAL(SegmentLatency):
    """Differentiable Average Lagging (Cherry and Foster 2019): seconds."""

    def score(self, timing: Timing) -> float | None:
        """Return the mean lag, with at least ``pace`` seconds between two units."""
        if not timing.scorable:
            return None
        pace = timing.source_length / len(timing.times)
        emission_time, total = timing.times[0], 0.0
        for position, time in enumerate(timing.times):
            emission_time = max(time, emission_time + pace) if position else time
            total += emission_time - position * pace
        return total / len(timing.times)


class ATD(SegmentLatency):
    """Average Token Delay (Kano et al. 2023) of text output: seconds.

    Source words last 0.3 s, written words take no time. The computation uses milliseconds: 2700 /
    300 is exactly 9 tokens, whereas in floating point 2.7 / 0.3 is not.
    """

    def score(self, timing: Timing) -> float | None:
        """Return the mean delay of the ends of the units, or None without units."""
        if not timing.times:
            return None
        delays = milliseconds(timing.times if timing.ideal is None else timing.ideal)
        spent = [
            after - before for after, before in zip(milliseconds(timing.times), delays, strict=True)
        ]
        return token_delay(delays, spent) / MS


class StartOffset(SegmentLatency):
    """Seconds of source received before the first unit."""

    def score(self, timing: Timing) -> float | None:
        """Return the time of the first unit, or None without units."""
        return timing.times[0] if timing.times else None


class EndOffset(SegmentLatency):
    """Seconds from the end of the source to the last unit."""

    def score(self, timing: Timing) -> float | None:
        """Return the time of the last unit after the end of the source, or None without units."""
        return timing.times[-1] - timing.source_length if timing.times else None


class RTF(WeightedMean):
    """Real-time factor: total compute divided by total audio.

    SimulEval's ``RTF`` is another quantity: the last delay divided by the duration of the source.
    """

    def update(self, compute: Sequence[Seconds], source_length: Seconds) -> None:
        """Add a stream.

        Args:
            compute: Wall-clock seconds per chunk.
            source_length: Seconds of audio.
        """
        self.add(sum(compute), source_length)


def _lagging(timing: Timing, *, length: int) -> float | None:
    """Return the mean lag behind an ideal system that writes ``length`` units evenly.

    The mean includes the first unit at or after the end of the source and no later one.
    """
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


def milliseconds(times: Sequence[Seconds]) -> list[float]:
    """Convert seconds; rounding removes the errors of floating point."""
    return [round(time * MS, 6) for time in times]


def token_delay(
    delays: Sequence[float], spent: Sequence[float], lengths: Sequence[float] | None = None
) -> float:
    """Compute the Average Token Delay; all times are milliseconds.

    A target token is paired with the source token of the same index, or with the last received
    one. A system that is ahead of the source has no advantage (Kano et al. 2023, section 3).

    Args:
        delays: Source received when each target token was written.
        spent: Compute so far when each target token was written.
        lengths: Duration of each target token. None: written tokens take no time.

    Returns:
        Mean of the end of each target token minus the end of its source token.
    """
    moments = list(dict.fromkeys(delays))
    received, source_ends = _source_tokens(moments)
    chunk, written_before, total, end, spent_before = 0, 0, 0.0, 0.0, 0.0

    for position, delay in enumerate(delays):
        if position == 0 or delay != delays[position - 1]:
            chunk, written_before = chunk + 1, position
        length = lengths[position] if lengths else 0.0
        end = max(delay, end) + spent[position] - spent_before + length
        spent_before = spent[position]

        ahead = max(0, written_before - received[min(chunk, len(moments)) - 1])
        paired = min(position + 1 - ahead, received[min(chunk, len(moments))])
        total += end - source_ends[paired]
    return total / len(delays)


def _source_tokens(moments: Sequence[float]) -> tuple[list[int], list[float]]:
    """Split the source into tokens of 0.3 s, starting anew at each moment.

    Returns:
        The number of source tokens received by each moment, and the end of each token; both
        lists begin with an additional 0.
    """
    received, ends = [0], [0.0]
    previous = 0.0
    for moment in moments:
        whole, rest = divmod(moment - previous, SOURCE_TOKEN_MS)
        lengths = [SOURCE_TOKEN_MS] * int(whole) + ([rest] if rest else [])
        for length in lengths:
            ends.append(ends[-1] + length)
        received.append(received[-1] + len(lengths))
        previous = moment
    return received, ends


SENTENCE_METRICS: dict[str, type[SegmentLatency]] = {
    "AL": AL,
    "LAAL": LAAL,
    "AP": AP,
    "DAL": DAL,
    "ATD": ATD,
    "YAAL": YAAL,
}
