"""Settings of a row of results: on what its scores depend, and facts of its streaming."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from zoo.base.types import Convention, Seconds

# How pydantic reads the classes of results: other keys, NaN and infinities are errors.
STRICT: Final = {"extra": "forbid", "allow_inf_nan": False}

Axis = Literal["quality", "latency"]
Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Compute:
    """The machine during a row.

    Attributes:
        chunk_seconds: mean duration of a chunk.
        cpu_share: share of the compute time in which the streaming thread had a CPU.
        load_average: load average of the last minute.
        cores: number of cores.
    """

    __pydantic_config__ = STRICT
    chunk_seconds: Seconds
    cpu_share: float
    load_average: float
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFacts:
    """How a metric of ``evaluation.metrics`` is shown.

    Attributes:
        axis: axis of the curves on which it is drawn.
        unit: unit of its values.
        digits: number of decimals.
        better: which values are better; None: neither.
    """

    __pydantic_config__ = STRICT
    axis: Axis
    unit: str = ""
    digits: int = 2
    better: Better | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSettings:
    """Settings of a row. What is not known, as of the row of another tool, has its default.

    Attributes:
        batch_size: number of streams that advance in lockstep.
        convention: how elapsed times follow from compute times; None: there are no elapsed times.
        resegmentation: method that assigned the units of a hypothesis to reference segments.
        encoder: its encoder, in signatures of scores; None: the method has none.
        rules: name of the counting rules.
        view: ``talks``, or ``segments`` if each stream is one reference segment.
        talks: number of streams.
        segments: number of lines of ``segments.jsonl``.
        metrics: metrics of ``evaluation.metrics`` by name.
        references: whether the talks have references.
        ranks: number of processes that streamed.
        streaming_seconds: wall-clock time of the streaming.
        weights: hub ids and folders of the weights, by configuration key.
        parameters: number of parameters.
        reference_segments: whether the system receives the reference segmentation.
        compute: the machine during the row; None: the stages were not measured.
        comet: name of the COMET model of each COMET score.
        significance: tests that were made.
        baseline: label of the row with which the row was compared.
        resamples: number of bootstrap resamples.
        trials: number of trials of approximate randomisation.
        resampling_seed: seed of resamples and trials.
        run: folder of the run, of a joined row.
        overrides: overrides of that run that can change a result.
        corpus_hash: hash of the talks of that run, or their number.
        talk_set: description of the talks, where joined rows of one corpus have others.
        regime: latency regime of IWSLT (``zoo.runs.rows.regimes``); None: the row has none.
    """

    __pydantic_config__ = STRICT
    batch_size: int | None = None
    convention: Convention | None = None
    resegmentation: Literal["mwer", "soft", "meaning"] | None = None
    encoder: str | None = None
    rules: str | None = None
    view: str | None = None
    talks: int | None = None
    segments: int | None = None
    metrics: Mapping[str, MetricFacts] = field(default_factory=dict)
    references: bool = True
    ranks: int | None = None
    streaming_seconds: Seconds | None = None
    weights: Mapping[str, str] = field(default_factory=dict)
    parameters: int | None = None
    reference_segments: bool = False
    compute: Compute | None = None
    comet: Mapping[str, str] = field(default_factory=dict)
    significance: tuple[str, ...] = ()
    baseline: str | None = None
    resamples: int | None = None
    trials: int | None = None
    resampling_seed: int | None = None
    run: str | None = None
    overrides: tuple[str, ...] = ()
    corpus_hash: str | None = None
    talk_set: str = ""
    regime: str | None = None

    def record(self) -> dict[str, Any]:
        """Return the settings that have another value than their default, by name."""
        defaults = asdict(RowSettings())
        return {name: value for name, value in asdict(self).items() if value != defaults[name]}
