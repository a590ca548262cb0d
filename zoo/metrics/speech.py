"""Latency metrics of target speech: offsets, gaps and overlap of whole streams.

The values agree with SimulEval (git main), in seconds instead of milliseconds, with these notes:

- A piece of speech plays from max(its computation, end of the previous piece); see
  ``zoo/streaming/playback.py``.
- A discontinuity is a gap *between* two pieces; silence before the first piece does not count.
  Gaps are counted and summed per stream, and the corpus value is the unweighted mean over streams.
  A stream without gaps has an average of 0, a stream without speech is ignored.
- ``StartOffset`` of SimulEval is the first delay. Negative values are ignored here, as in IWSLT
  2023 and SimulU (section 3.2).
- SimulEval computes playback intervals from ideal delays only, so its computation-aware
  ``EndOffset`` and discontinuities equal the ideal ones. Here, ``_CA`` metrics use intervals of
  elapsed times. For a replayed log SimulEval has intervals only for ``EndOffset`` and computes
  ``ATD`` as for text.
- SimulEval has no metric of overlap; ``SpeechOverlap`` is an addition.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

from zoo.base.types import SAMPLE_RATE, Instance, Seconds
from zoo.metrics.latency import MS, WeightedMean, token_delay
from zoo.streaming.playback import playback_intervals

TARGET_TOKEN_MS = 300.0  # ATD assumes this duration of a spoken target word
SHORTEST_GAP: Seconds = 0.5 / SAMPLE_RATE  # a shorter gap is a rounding error


@dataclass(frozen=True, slots=True)
class SpeechTiming:
    """Timing of the target speech of one stream, in seconds since the stream began.

    Attributes:
        intervals: (start, duration) of the playback of each piece, in order.
        delays: Seconds of source received when each piece was computed.
        computed: Equal to ``delays``; for computation-aware metrics, elapsed times.
        source_length: Duration of the source.
    """

    intervals: tuple[tuple[Seconds, Seconds], ...]
    delays: tuple[Seconds, ...]
    computed: tuple[Seconds, ...]
    source_length: Seconds

    @classmethod
    def of(cls, instance: Instance, *, computation_aware: bool = False) -> "SpeechTiming":
        """Create the timing of an instance.

        Args:
            instance: Stream with target speech.
            computation_aware: Whether to use elapsed times, under the convention of the instance.
        """
        speech = instance.speech
        delays = tuple(output.delay for output in speech)
        elapsed = tuple(output.elapsed for output in speech)
        return cls(
            intervals=tuple(playback_intervals(speech, computation_aware=computation_aware)),
            delays=delays,
            computed=elapsed if computation_aware else delays,
            source_length=instance.source_length,
        )

    @property
    def gaps(self) -> list[Seconds]:
        """Duration of each gap between two pieces."""
        gaps = [
            after - (start + length) for (start, length), (after, _) in pairwise(self.intervals)
        ]
        return [gap for gap in gaps if gap > SHORTEST_GAP]


class SpeechMetric(WeightedMean):
    """Unweighted mean over all streams with target speech; NaN without such streams."""

    def score(self, timing: SpeechTiming) -> float | None:
        """Return the value of a stream with target speech, or None if undefined."""
        raise NotImplementedError

    def update(self, timing: SpeechTiming) -> None:
        """Add a stream."""
        self.add(self.score(timing) if timing.intervals else None)


class SpeechStartOffset(SpeechMetric):
    """Seconds of source before the first speech; negative values are ignored."""

    def score(self, timing: SpeechTiming) -> float | None:
        """Return the start of the first piece, or None if it is negative."""
        start = timing.intervals[0][0]
        return start if start >= 0 else None


class SpeechEndOffset(SpeechMetric):
    """Seconds from the end of the source to the end of the last speech."""

    def score(self, timing: SpeechTiming) -> float | None:
        """Return the end of the last piece minus the duration of the source."""
        start, duration = timing.intervals[-1]
        return start + duration - timing.source_length


class DiscontinuitySum(SpeechMetric):
    """Total seconds of gaps in a stream."""

    def score(self, timing: SpeechTiming) -> float | None:
        """Return the sum of the gaps in seconds, 0 without gaps."""
        return sum(timing.gaps)


class DiscontinuityAve(SpeechMetric):
    """Mean duration of the gaps in a stream in seconds; 0 without gaps."""

    def score(self, timing: SpeechTiming) -> float | None:
        """Return the mean gap in seconds, 0 without gaps."""
        return sum(timing.gaps) / len(timing.gaps) if timing.gaps else 0.0


class DiscontinuityNum(SpeechMetric):
    """Number of gaps in a stream."""

    def score(self, timing: SpeechTiming) -> float | None:
        """Return the number of gaps as a float."""
        return float(len(timing.gaps))


class SpeechOverlap(SpeechMetric):
    """Share of the target speech played before the end of the source.

    1 is fully simultaneous, 0 is consecutive.
    """

    def score(self, timing: SpeechTiming) -> float | None:
        """Return the duration played before the end of the source over the whole duration."""
        end = timing.source_length
        before_end = sum(
            max(0.0, min(start + length, end) - start) for start, length in timing.intervals
        )
        return before_end / sum(length for _, length in timing.intervals)


class SpeechATD(SpeechMetric):
    """Average Token Delay (Kano et al. 2023) of speech output: seconds.

    As in SimulEval, pieces with the same delay form a chunk. A chunk is divided into target tokens
    of 0.3 s and a shorter last token, and its compute is distributed evenly over them. The
    computation uses milliseconds, as for text. The metric is defined for single sentences only: in
    a whole talk, the n-th target token does not correspond to the n-th source token.
    """

    def score(self, timing: SpeechTiming) -> float | None:
        """Return the mean delay of the ends of the target tokens in seconds."""
        delays: list[float] = []
        spent: list[float] = []
        lengths: list[float] = []
        previous = 0.0
        for delay, duration, compute in _chunks(timing):
            tokens = _tokens(duration)
            delays += [delay] * len(tokens)
            lengths += tokens
            spent += [
                previous + (compute - previous) * (token + 1) / len(tokens)
                for token in range(len(tokens))
            ]
            previous = compute
        return token_delay(delays, spent, lengths) / MS


def _chunks(timing: SpeechTiming) -> Iterator[tuple[float, float, float]]:
    """Yield (delay, duration, compute so far) of each chunk in milliseconds."""
    rows = list(zip(timing.delays, timing.computed, timing.intervals, strict=True))
    for delay, group in groupby(rows, key=lambda row: row[0]):
        members = list(group)
        duration = sum(length for *_, (_, length) in members)
        yield _ms(delay), _ms(duration), _ms(members[-1][1] - delay)


def _tokens(duration: float) -> list[float]:
    """Divide a duration in milliseconds into target tokens and return their durations."""
    whole, rest = divmod(duration, TARGET_TOKEN_MS)
    return [TARGET_TOKEN_MS] * int(whole) + ([rest] if rest else [])


def _ms(time: Seconds) -> float:
    """Convert seconds to milliseconds; rounding removes the errors of floating point."""
    return round(time * MS, 6)


SPEECH_METRICS: dict[str, type[SpeechMetric]] = {
    "StartOffset": SpeechStartOffset,
    "EndOffset": SpeechEndOffset,
    "DiscontinuitySum": DiscontinuitySum,
    "DiscontinuityAve": DiscontinuityAve,
    "DiscontinuityNum": DiscontinuityNum,
    "SpeechOverlap": SpeechOverlap,
}
