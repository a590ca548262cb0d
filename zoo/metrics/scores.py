"""Scores with signatures, ideal and computation-aware, for sentences and whole talks."""

import copy
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, TypeVar

from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import Convention, Instance
from zoo.metrics.latency import RTF, EndOffset, SegmentLatency, StartOffset, Timing
from zoo.metrics.quality import BLEU, ChrF, CorpusQuality
from zoo.metrics.rules import Rules
from zoo.metrics.signature import Score, signature
from zoo.metrics.speech import SPEECH_METRICS, SpeechMetric, SpeechTiming
from zoo.metrics.sums import SummedMetric, reset
from zoo.streaming.elapsed import with_convention

logger = logging.getLogger(__name__)

MetricT = TypeVar("MetricT", bound=SummedMetric)


def value_of(metric: SummedMetric) -> float | None:
    """Return the computed value of a metric, or None if it is not finite."""
    value = metric.compute()
    return value if isfinite(value) else None


@dataclass(frozen=True, slots=True)
class ElapsedInfo:
    """How the elapsed times of a run were measured.

    Attributes:
        available: Whether the instances have elapsed times.
        convention: Elapsed convention of all instances; empty without elapsed times.
        batched: Whether several streams shared the compute.
    """

    available: bool
    convention: str
    batched: bool

    @classmethod
    def of(cls, instances: Sequence[Instance]) -> "ElapsedInfo":
        """Collect the information from all instances of a run.

        Raises:
            ZooError: Only some instances have elapsed times, or their conventions differ.
        """
        non_empty = [instance for instance in instances if instance.units]
        timed = [instance for instance in non_empty if instance.elapsed]
        if timed and len(timed) != len(non_empty):
            missing = next(instance.talk for instance in non_empty if not instance.elapsed)
            raise ZooError(f"Talk {missing!r} has no elapsed times, but other talks have.")

        conventions = sorted({instance.convention for instance in timed})
        if len(conventions) > 1:
            raise ZooError(f"One run mixes elapsed conventions: {', '.join(conventions)}.")
        return cls(
            available=bool(timed),
            convention=conventions[0] if conventions else "",
            batched=any(instance.batched for instance in instances),
        )


def prepare_instances(
    instances: Sequence[Instance], convention: Convention, rules: Rules
) -> list[Instance]:
    """Prepare instances for scoring.

    Args:
        instances: Streams of a run.
        convention: Elapsed convention; a recorded log without chunk times keeps its convention.
        rules: Counting rules. They may exclude units of white space.
    """
    return [
        with_convention(instance if rules.spaces else _without_spaces(instance), convention)
        for instance in instances
    ]


def _without_spaces(instance: Instance) -> Instance:
    """Return an instance without units of white space."""
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


def _settings_of(metric: SegmentLatency) -> dict[str, Any]:
    """Return the plain attributes of a metric of the configuration: its constructor arguments."""
    own = {
        name: value for name, value in vars(metric).items() if name not in vars(SegmentLatency())
    }
    return {name: value for name, value in own.items() if isinstance(value, str | int | float)}


@dataclass(frozen=True, slots=True)
class Scorer:
    """Computes scores with signatures.

    Attributes:
        language: Target language.
        rules: Counting rules.
        elapsed: How elapsed times were measured.
        facts: Settings that are part of every signature.
        extra: Metrics of the configuration by name, scored beside the built-in metrics.
    """

    language: Language
    rules: Rules
    elapsed: ElapsedInfo
    facts: dict[str, str | None]
    extra: Mapping[str, SummedMetric] = field(default_factory=dict)

    def extra_metrics(self, kind: type[MetricT]) -> dict[str, MetricT]:
        """Return unused copies of the extra metrics of one class, by name."""
        copies: dict[str, MetricT] = {}
        for name, metric in self.extra.items():
            if isinstance(metric, kind):
                copies[name] = copy.deepcopy(metric)
                reset(copies[name])
        return copies

    def quality(
        self, hypotheses: Sequence[str], references: Sequence[str], *, prefix: str = ""
    ) -> list[Score]:
        """Compute BLEU, chrF and extra quality metrics.

        Args:
            hypotheses: One hypothesis per reference.
            references: Reference translations.
            prefix: Start of the name of each score.
        """
        scores: list[Score] = []
        metrics: dict[str, CorpusQuality] = {
            "chrF": ChrF(),
            **self.extra_metrics(CorpusQuality),
        }
        try:
            metrics = {"BLEU": BLEU(self.language), **metrics}
        except ZooError as error:  # the other scores do not need the tokenizer
            logger.warning("%s", error)
            scores.append(Score(f"{prefix}BLEU", None, f"{prefix}BLEU: no tokenizer"))
        for name, metric in metrics.items():
            metric.update(hypotheses, references)
            # with the final underscore, the signature shows the value of this key without the key
            facts = {"tool_": metric.signature(), **self.facts}
            scores.append(Score(prefix + name, value_of(metric), signature(prefix + name, **facts)))
        return scores

    def latency(
        self, name: str, metric: SegmentLatency, timings: Iterable[Timing], **facts: Any
    ) -> Score:
        """Compute one latency score.

        Args:
            name: Name of the score. A name that ends with _CA is computation-aware, and its
                signature contains the elapsed convention.
            metric: The metric, without updates.
            timings: Timing of each segment.
            **facts: Additional settings for the signature.
        """
        for timing in timings:
            metric.update(timing)
        counting = {"unit": self.language.unit, "length": self.rules.name}
        if isinstance(metric, StartOffset | EndOffset):
            counting = {}  # offsets do not depend on the number of units
        if name.removesuffix("_CA") in self.extra:
            counting |= _settings_of(metric)
        return Score(name, value_of(metric), self._sign(name, **(counting | self.facts | facts)))

    def _sign(self, name: str, **facts: Any) -> str:
        """Return the signature, with the elapsed convention if the name ends with _CA."""
        if name.endswith("_CA"):
            # with the final underscore, the signature shows the value of this key without the key
            facts |= {"elapsed": self.elapsed.convention, "batched_": self._batched}
        return signature(name, **facts)

    @property
    def _batched(self) -> str | None:
        """The word for signatures if streams shared the compute."""
        return "batched" if self.elapsed.batched else None

    def streams(self, instances: Sequence[Instance], *, with_speech: bool = False) -> list[Score]:
        """Compute StartOffset, EndOffset and RTF of whole streams.

        Args:
            instances: The streams.
            with_speech: Whether to compute the offsets from the target speech, and also its gaps
                and overlap.
        """
        whole = replace(self, facts={})
        scores = (
            whole.speech(SPEECH_METRICS, instances) if with_speech else whole._offsets(instances)
        )
        return scores + self._real_time_factor(instances)

    def speech(
        self, metrics: Mapping[str, type[SpeechMetric]], instances: Sequence[Instance]
    ) -> list[Score]:
        """Compute metrics of target speech, ideal and computation-aware."""
        scores: list[Score] = []
        for computation_aware in [False, True] if self.elapsed.available else [False]:
            timings = [
                SpeechTiming.of(instance, computation_aware=computation_aware)
                for instance in instances
            ]
            for ideal_name, kind in metrics.items():
                name = f"{ideal_name}_CA" if computation_aware else ideal_name
                metric = kind()
                for timing in timings:
                    metric.update(timing)
                scores.append(Score(name, value_of(metric), self._sign(name, of="speech")))
        return scores

    def _offsets(self, instances: Sequence[Instance]) -> list[Score]:
        """Compute StartOffset and EndOffset of the text of whole streams."""
        ideal = [Timing(instance.delays, instance.source_length, 0) for instance in instances]
        elapsed = [Timing(instance.elapsed, instance.source_length, 0) for instance in instances]
        scores: list[Score] = []
        kinds: tuple[type[SegmentLatency], ...] = (StartOffset, EndOffset)
        for kind in kinds:
            name = kind.__name__
            scores.append(self.latency(name, kind(), ideal))
            if self.elapsed.available:
                scores.append(self.latency(f"{name}_CA", kind(), elapsed))
        return scores

    def _real_time_factor(self, instances: Sequence[Instance]) -> list[Score]:
        """Compute RTF of the streams with chunk times; no score without such streams."""
        timed = [instance for instance in instances if instance.chunks]
        if not timed:
            return []

        metric = RTF()
        for instance in timed:
            metric.update([chunk.compute for chunk in instance.chunks], instance.source_length)
        facts = {"compute": "all/audio", "batched_": self._batched}
        return [Score("RTF", value_of(metric), signature("RTF", **facts))]
