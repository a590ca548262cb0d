"""Settings of an evaluation, and the talks and latency values that follow from them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, get_args

from zoo.alignment.recognisers.base import Recogniser
from zoo.base.errors import ZooError, check_choice, check_name, check_numbers
from zoo.base.types import Convention
from zoo.data.views import View
from zoo.metrics.latency import SegmentLatency
from zoo.metrics.quality import CorpusQuality
from zoo.metrics.resegmentation import Resegmentation, Resegmenter, check_encoder
from zoo.metrics.rules import find_rules
from zoo.metrics.significance import Resampling, Test
from zoo.metrics.sums import SummedMetric

if TYPE_CHECKING:
    from zoo.systems.system import System  # imports Lightning; a recorded log has no knob


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of an evaluation.

    Attributes:
        split: split of the corpus.
        development: split of the corpus whose talks are streamed too and set the latency regime of
            a row (``zoo.runs.rows.regimes``); with it, the ranking of each regime is printed (None:
            neither).
        talks: number of talks from the start of each split (None: all talks).
        view: ``talks`` streams whole recordings, ``segments`` their reference segments one by one.
        knob_values: values of the system's latency knob (None: the values that the system lists).
        batch_size: number of streams that advance in lockstep.
        offline_batch_size: number of segments that the offline row decodes together (None:
            ``batch_size``); its words do not depend on it, and it has no latency.
        convention: how elapsed times follow from compute times.
        resegmentation: method that assigns the units of a hypothesis to reference segments.
        encoder: hub id or folder of the encoder of ``resegmentation=meaning``, such as
            ``sentence-transformers/LaBSE`` (None for the other methods).
        encoder_layer: layer whose output is compared (None: two thirds of the layers).
        rules: name of the counting rules (``zoo.metrics.rules``).
        upper_bound: whether to add a row for offline decoding of each reference segment.
        oracle_k: value of k of each wait-k oracle row (talks need word times).
        recogniser: speech recogniser for ASR scores of target speech (None: no ASR scores).
        metrics: more metrics by name, each a ``SegmentLatency`` or a ``CorpusQuality``.
        utmos: path of the UTMOS network for naturalness (``zoo/metrics/naturalness.py``).
        utmos_trusted: whether the code that this file contains may run.
        random_weights: whether systems may have randomly initialised parts, because their weights
            are not named.
        comet: folders and hub ids of COMET models, such as ``Unbabel/wmt22-comet-da``
            (``zoo/metrics/comet``).
        comet_python: Python of the environment of COMET (None: that of ``make comet``).
        significance: tests of the differences between rows, ``bootstrap`` and ``randomisation``;
            with at least one, rows also have 95 % intervals (empty: neither).
        baseline: row with which the others are compared, such as ``infinisst m=2``, or name of a
            system, whose first row it is (None: the first row of each test set).
        resamples: number of bootstrap resamples, at least 40.
        trials: number of trials of approximate randomisation, at least 20.
        resampling_seed: seed of resamples and trials.
    """

    split: str = "tst"
    development: str | None = None
    talks: int | None = None
    view: View = "talks"
    knob_values: Sequence[float] | None = None
    batch_size: int = 1
    offline_batch_size: int | None = None
    convention: Convention = "queue"
    resegmentation: Resegmentation = "mwer"
    encoder: str | None = None
    encoder_layer: int | None = None
    rules: str = "zoo"
    upper_bound: bool = True
    oracle_k: Sequence[int] = (3, 5, 7)
    recogniser: Recogniser | None = None
    metrics: Mapping[str, SummedMetric] = field(default_factory=dict)
    utmos: str | None = None
    utmos_trusted: bool = False
    random_weights: bool = False
    comet: Sequence[str] = ()
    comet_python: str | None = None
    significance: Sequence[Test] = ()
    baseline: str | None = None
    resamples: int = 1000
    trials: int = 10_000
    resampling_seed: int = 12345

    def __post_init__(self) -> None:
        """Raise ZooError for a value that is unknown, out of range or of another type."""
        for key in ("split", "development"):
            name = getattr(self, key)
            if name is not None:
                check_name(f"evaluation.{key}", name)
        check_choice("view", self.view, get_args(View))
        check_choice("elapsed convention", self.convention, get_args(Convention))
        check_choice("re-segmentation", self.resegmentation, get_args(Resegmentation))
        check_encoder(self.resegmentation, self.encoder)
        check_numbers("evaluation", least=0, encoder_layer=self.encoder_layer)
        if self.encoder is None and self.encoder_layer is not None:
            raise ZooError("evaluation.encoder_layer needs evaluation.encoder.")
        find_rules(self.rules)
        resampling(self)  # raises ZooError for an unknown test or number
        check_numbers(
            "evaluation",
            least=1,
            batch_size=self.batch_size,
            offline_batch_size=self.offline_batch_size,
            talks=self.talks,
        )
        for k in self.oracle_k:
            check_numbers("evaluation", least=1, oracle_k=k)
        for name, metric in self.metrics.items():
            if not isinstance(metric, SegmentLatency | CorpusQuality):
                raise ZooError(
                    f"evaluation.metrics.{name} must be a SegmentLatency or a CorpusQuality, "
                    f"not {type(metric).__name__}."
                )
        if self.knob_values is not None and not self.knob_values:
            raise ZooError(
                "evaluation.knob_values is empty; "
                "name at least one value, or null for the values that the system lists."
            )
        for key in ("knob_values", "oracle_k", "significance", "comet"):
            repeated = [
                one for one, count in Counter(getattr(self, key) or ()).items() if count > 1
            ]
            if repeated:
                shown = repeated[0] if isinstance(repeated[0], str) else f"{repeated[0]:g}"
                raise ZooError(f"evaluation.{key} has {shown} twice; name it once.")

    @cached_property
    def resegmenter(self) -> Resegmenter:
        """The method that assigns units to reference segments."""
        if self.encoder is None:
            return Resegmenter(self.resegmentation)
        # imports torch and Transformers, which the other methods do not need
        from zoo.alignment.words.encoder import WordEncoder

        encoder = WordEncoder(self.encoder, layer=self.encoder_layer)
        return Resegmenter(self.resegmentation, encoder)


def resampling(settings: Settings) -> Resampling | None:
    """Return what is resampled for intervals and tests; None if no test is wanted."""
    if not settings.significance:
        if settings.baseline is not None:
            raise ZooError(
                "evaluation.baseline needs a test; add evaluation.significance=[bootstrap]."
            )
        return None
    return Resampling(
        tests=settings.significance,
        resamples=settings.resamples,
        trials=settings.trials,
        seed=settings.resampling_seed,
    )


def knob_values(system: "System", settings: Settings) -> Sequence[float | None]:
    """Return the knob values to evaluate; [None] for a system without a knob.

    Raises ZooError for a value that the system does not accept.
    """
    given = settings.knob_values
    if system.knob is None:
        if given is not None:
            raise ZooError(
                f"System {system.name!r} has no latency knob; leave evaluation.knob_values out."
            )
        return [None]
    values = list(system.knob.values if given is None else given)
    if not values:
        raise ZooError(
            f"The knob {system.knob.name!r} of system {system.name!r} has no values; "
            "name at least one value."
        )
    for value in values:
        system.check_knob(value)  # raises ZooError for a value that the system does not accept
    return values
