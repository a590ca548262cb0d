"""When target speech sounds: offsets, gaps and overlap of whole streams. Knows no word, no wave and no network.

Conventions of SimulEval (git main), which these numbers agree with, in seconds where it has milliseconds:

- A stretch of speech sounds from max(when it was made, end of the stretch before it); ``zoo.streaming.playback``.
- A discontinuity is a gap *between* two stretches; the silence before the first one is none. Gaps are counted and
  summed per stream, and the corpus value is the unweighted mean over streams; a stream without a gap has an average
  of 0, a stream without speech is left out of everything.
- Its ``StartOffset`` is the first delay; negative ones are left out here, as in IWSLT 2023 and in SimulU (section 3.2).
  SimulU's do not move with its word history (its Table 1): they are those of whole talks, where none can be negative.
- Its intervals come from ideal delays only. So computation-aware ``EndOffset`` and discontinuities are the ideal ones
  there; here (``_CA``) the intervals are those of the elapsed times. A replayed log loses its intervals for all but
  ``EndOffset``, and its ``ATD`` then counts as text.
- It has no score for overlap. ``SpeechOverlap`` is our own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

from zoo.metrics.latency import MS, StreamMean, token_delay
from zoo.streaming.playback import playback_intervals
from zoo.types import SAMPLE_RATE, Instance, Seconds

TARGET_TOKEN_MS = 300.0  # ATD takes a spoken target word to last this long
SHORTEST_GAP: Seconds = 0.5 / SAMPLE_RATE  # what is less than a sample is rounding


@dataclass(frozen=True, slots=True)
class SpeechTiming:
    """When the speech of one stream was made and when it sounds.

    stretches: (start, duration) in seconds since the stream began, in order. delays: seconds of source heard when each
    was made; made: the same, or elapsed seconds where the scores are computation-aware. source_length: seconds.
    """

    stretches: tuple[tuple[Seconds, Seconds], ...]
    delays: tuple[Seconds, ...]
    made: tuple[Seconds, ...]
    source_length: Seconds

    @classmethod
    def of(cls, instance: Instance, *, aware: bool = False) -> "SpeechTiming":
        """aware: on elapsed times, under the instance's convention."""
        return cls(
            stretches=tuple(playback_intervals(instance.speech, aware=aware)),
            delays=tuple(spoken.delay for spoken in instance.speech),
            made=tuple(spoken.elapsed if aware else spoken.delay for spoken in instance.speech),
            source_length=instance.source_length,
        )

    @property
    def gaps(self) -> list[Seconds]:
        """Silences between two stretches."""
        silences = [
            after - (start + length) for (start, length), (after, _) in pairwise(self.stretches)
        ]
        return [silence for silence in silences if silence > SHORTEST_GAP]


class SpeechMetric(StreamMean):
    """Unweighted mean over the streams in which something was said; NaN if there is none."""

    def score(self, sounding: SpeechTiming) -> float | None:
        """The value of one stream in which something was said, or None where the metric says nothing about it."""
        raise NotImplementedError

    def update(self, sounding: SpeechTiming) -> None:
        """Add one stream."""
        self.add(self.score(sounding) if sounding.stretches else None)


class SpeechStartOffset(SpeechMetric):
    """Seconds of source before the first speech; negative values are left out of the mean."""

    def score(self, sounding: SpeechTiming) -> float | None:
        start = sounding.stretches[0][0]
        return start if start >= 0 else None


class SpeechEndOffset(SpeechMetric):
    """Seconds from the end of the source to the end of the last speech: how long a listener still hears."""

    def score(self, sounding: SpeechTiming) -> float | None:
        start, duration = sounding.stretches[-1]
        return start + duration - sounding.source_length


class DiscontinuitySum(SpeechMetric):
    """Seconds of silence between the first speech and the last."""

    def score(self, sounding: SpeechTiming) -> float | None:
        return sum(sounding.gaps)


class DiscontinuityAve(SpeechMetric):
    """Seconds that a gap lasts on average in a stream; 0 where there is none."""

    def score(self, sounding: SpeechTiming) -> float | None:
        return sum(sounding.gaps) / len(sounding.gaps) if sounding.gaps else 0.0


class DiscontinuityNum(SpeechMetric):
    """Number of gaps in a stream."""

    def score(self, sounding: SpeechTiming) -> float | None:
        return float(len(sounding.gaps))


class SpeechOverlap(SpeechMetric):
    """What share of the target speech sounds before the source has ended: 1 is simultaneous, 0 consecutive."""

    def score(self, sounding: SpeechTiming) -> float | None:
        end = sounding.source_length
        during = sum(
            max(0.0, min(start + length, end) - start) for start, length in sounding.stretches
        )
        return during / sum(length for _, length in sounding.stretches)


class SpeechATD(SpeechMetric):
    """Average Token Delay (Kano et al. 2023) for speech in, speech out: seconds.

    As SimulEval has it: stretches with the same delay are one chunk; a chunk is cut into target tokens of 0.3 s and a
    rest, and its compute is spread evenly over them. Counted in milliseconds, as for text. In sentences only: over
    a talk the n-th token of the target has nothing to do with the n-th of the source.
    """

    def score(self, sounding: SpeechTiming) -> float | None:
        delays: list[float] = []
        spent: list[float] = []
        lengths: list[float] = []
        before = 0.0
        for delay, duration, compute in _chunks(sounding):
            tokens = _tokens(duration)
            delays += [delay] * len(tokens)
            lengths += tokens
            spent += [
                before + (compute - before) * (token + 1) / len(tokens)
                for token in range(len(tokens))
            ]
            before = compute
        return token_delay(delays, spent, lengths) / MS


def _chunks(sounding: SpeechTiming) -> Iterator[tuple[float, float, float]]:
    """(delay, duration, compute so far) of what was made at one moment, all in milliseconds."""
    rows = list(zip(sounding.delays, sounding.made, sounding.stretches, strict=True))
    for delay, group in groupby(rows, key=lambda row: row[0]):
        members = list(group)
        duration = sum(length for *_, (_, length) in members)
        yield _ms(delay), _ms(duration), _ms(members[-1][1] - delay)


def _tokens(duration: float) -> list[float]:
    whole, rest = divmod(duration, TARGET_TOKEN_MS)
    return [TARGET_TOKEN_MS] * int(whole) + ([rest] if rest else [])


def _ms(time: Seconds) -> float:
    return round(time * MS, 6)


SPEECH_METRICS: dict[str, type[SpeechMetric]] = {
    "StartOffset": SpeechStartOffset,
    "EndOffset": SpeechEndOffset,
    "DiscontinuitySum": DiscontinuitySum,
    "DiscontinuityAve": DiscontinuityAve,
    "DiscontinuityNum": DiscontinuityNum,
    "SpeechOverlap": SpeechOverlap,
}
