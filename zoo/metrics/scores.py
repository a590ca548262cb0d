"""Shared by long-form and sentence scoring: values, computation-aware twins and their signatures. Knows no segment."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from torchmetrics import Metric

from zoo.errors import ZooError
from zoo.languages import Language
from zoo.metrics.latency import RTF, EndOffset, SegmentLatency, StartOffset, Timing
from zoo.metrics.quality import BLEU, ChrF
from zoo.metrics.rules import Rules
from zoo.metrics.signature import Score, signature
from zoo.metrics.speech import SPEECH_METRICS, SpeechMetric, SpeechTiming
from zoo.streaming.elapsed import with_convention
from zoo.types import Convention, Instance


def value_of(metric: Metric) -> float | None:
    """The computed number; None where it is not defined."""
    value = float(metric.compute())
    return value if isfinite(value) else None


@dataclass(frozen=True, slots=True)
class ElapsedInfo:
    """What the computation-aware scores of a run rest on. available: elapsed times are known."""

    available: bool
    convention: str
    batched: bool

    @classmethod
    def of(cls, instances: Sequence[Instance]) -> "ElapsedInfo":
        """Raises ZooError where streams of one run disagree about their elapsed times."""
        written = [instance for instance in instances if instance.units]
        timed = [instance for instance in written if instance.elapsed]
        if timed and len(timed) != len(written):
            missing = next(instance.talk for instance in written if not instance.elapsed)
            raise ZooError(f"Talk {missing!r} has no elapsed times, others have.")
        conventions = sorted({instance.convention for instance in timed})
        if len(conventions) > 1:
            raise ZooError(f"One run mixes elapsed conventions: {', '.join(conventions)}.")
        return cls(
            bool(timed), "".join(conventions), any(instance.batched for instance in instances)
        )


def prepare_instances(
    instances: Sequence[Instance], convention: Convention, rules: Rules
) -> list[Instance]:
    """The instances under ``convention``, where chunk times allow it, and without units that do not count."""
    return [
        with_convention(instance if rules.spaces else _without_spaces(instance), convention)
        for instance in instances
    ]


def _without_spaces(instance: Instance) -> Instance:
    if not any(unit.isspace() for unit in instance.units):
        return instance
    kept = [position for position, unit in enumerate(instance.units) if not unit.isspace()]

    def pick(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(values[position] for position in kept) if values else ()

    return replace(
        instance,
        units=pick(instance.units),
        delays=pick(instance.delays),
        elapsed=pick(instance.elapsed),
        chunk_indices=pick(instance.chunk_indices),
    )


@dataclass(frozen=True, slots=True)
class Scorer:
    """Makes scores with signatures. facts: what each signature of this run says; options: for every metric."""

    language: Language
    rules: Rules
    aware: ElapsedInfo
    facts: dict[str, str | None]
    options: dict[str, Any]

    def quality(
        self, hypotheses: Sequence[str], references: Sequence[str], *, prefix: str = ""
    ) -> list[Score]:
        """BLEU and chrF; ``prefix`` goes before the name."""
        scores: list[Score] = []
        metrics = {"BLEU": BLEU(self.language, **self.options), "chrF": ChrF(**self.options)}
        for name, metric in metrics.items():
            metric.update(hypotheses, references)
            facts = {"tool_": metric.signature(), **self.facts}
            scores.append(Score(prefix + name, value_of(metric), signature(prefix + name, **facts)))
        return scores

    def latency(
        self, name: str, metric: SegmentLatency, timings: Iterable[Timing], **facts: Any
    ) -> Score:
        """One latency score; names that end in _CA say on which elapsed times they stand."""
        for timing in timings:
            metric.update(timing)
        whole = isinstance(metric, StartOffset | EndOffset)
        counted = {} if whole else {"unit": self.language.unit, "length": self.rules.name}
        return Score(name, value_of(metric), self._timed(name, **(counted | self.facts | facts)))

    def _timed(self, name: str, **facts: Any) -> str:
        if name.endswith("_CA"):
            facts |= {
                "elapsed": self.aware.convention,
                "batched_": "batched" if self.aware.batched else None,
            }
        return signature(name, **facts)

    def streams(self, instances: Sequence[Instance], *, speaking: bool = False) -> list[Score]:
        """StartOffset, EndOffset and RTF over whole streams; speaking: of their speech, with its gaps and overlap."""
        whole = replace(self, facts={})
        scores = whole.speech(SPEECH_METRICS, instances) if speaking else whole._offsets(instances)
        return scores + self._real_time_factor(instances)

    def speech(
        self, metrics: Mapping[str, type[SpeechMetric]], instances: Sequence[Instance]
    ) -> list[Score]:
        """Scores of when target speech sounds, ideal and computation-aware."""
        scores: list[Score] = []
        for aware in (False, True) if self.aware.available else (False,):
            soundings = [SpeechTiming.of(instance, aware=aware) for instance in instances]
            for plain, kind in metrics.items():
                name, metric = f"{plain}_CA" if aware else plain, kind(**self.options)
                for sounding in soundings:
                    metric.update(sounding)
                scores.append(Score(name, value_of(metric), self._timed(name, of="speech")))
        return scores

    def _offsets(self, instances: Sequence[Instance]) -> list[Score]:
        kinds: dict[str, Callable[..., SegmentLatency]] = {
            "StartOffset": StartOffset,
            "EndOffset": EndOffset,
        }
        scores: list[Score] = []
        for name, kind in kinds.items():
            ideal = [Timing(instance.delays, instance.source_length, 0) for instance in instances]
            scores.append(self.latency(name, kind(**self.options), ideal))
            if self.aware.available:
                aware = [
                    Timing(instance.elapsed, instance.source_length, 0) for instance in instances
                ]
                scores.append(self.latency(f"{name}_CA", kind(**self.options), aware))
        return scores

    def _real_time_factor(self, instances: Sequence[Instance]) -> list[Score]:
        timed = [instance for instance in instances if instance.chunks]
        if not timed:
            return []
        metric = RTF(**self.options)
        for instance in timed:
            metric.update([chunk.compute for chunk in instance.chunks], instance.source_length)
        tag = "batched" if self.aware.batched else None
        return [Score("RTF", value_of(metric), signature("RTF", compute="all/audio", batched_=tag))]
