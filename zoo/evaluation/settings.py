"""Settings of an evaluation, and the talks and latency values that follow from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from zoo.data.talks import Talk
from zoo.data.views import sentences
from zoo.errors import ZooError, check_choice, check_numbers
from zoo.metrics.latency import SegmentLatency
from zoo.metrics.quality import CorpusQuality
from zoo.metrics.resegment import Resegmentation
from zoo.metrics.rules import find_rules
from zoo.metrics.sums import SummedMetric
from zoo.recognisers.base import Recogniser
from zoo.types import Convention

if TYPE_CHECKING:
    from zoo.systems.base import StreamingSystem  # imports Lightning; a recorded log has no knob

View = Literal["talks", "segments"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of an evaluation.

    Attributes:
        split: split of the corpus.
        talks: number of talks from the start of the split (None: all talks).
        view: ``talks`` streams whole recordings, ``segments`` their reference segments one by one.
        knob_values: values of the system's latency knob (None: the values that the system lists).
        batch_size: number of streams that advance in lockstep.
        convention: how elapsed times follow from compute times.
        resegmentation: method that assigns the units of a hypothesis to reference segments.
        rules: name of the counting rules (``zoo.metrics.rules``).
        upper_bound: whether to add a row for offline decoding of each reference segment.
        oracle_k: value of k of each wait-k oracle row (talks need word times).
        recogniser: speech recogniser for ASR scores of target speech (None: no ASR scores).
        metrics: more metrics by name, each a ``SegmentLatency`` or a ``CorpusQuality``.
        utmos: path of the UTMOS network for naturalness (``zoo/metrics/naturalness.py``).
    """

    split: str = "tst"
    talks: int | None = None
    view: View = "talks"
    knob_values: Sequence[float] | None = None
    batch_size: int = 1
    convention: Convention = "queue"
    resegmentation: Resegmentation = "mwer"
    rules: str = "zoo"
    upper_bound: bool = True
    oracle_k: Sequence[int] = (3, 5, 7)
    recogniser: Recogniser | None = None
    metrics: Mapping[str, SummedMetric] = field(default_factory=dict)
    utmos: str | None = None

    def __post_init__(self) -> None:
        """Raise ZooError for a value that is unknown, out of range or of another type."""
        check_choice("view", self.view, get_args(View))
        check_choice("elapsed convention", self.convention, get_args(Convention))
        check_choice("re-segmentation", self.resegmentation, get_args(Resegmentation))
        find_rules(self.rules)
        check_numbers("evaluation", least=1, batch_size=self.batch_size, talks=self.talks)
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


def knob_values(system: "StreamingSystem", settings: Settings) -> Sequence[float | None]:
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


def talks_to_stream(talks: Sequence[Talk], settings: Settings) -> list[Talk]:
    """Return whole recordings, or one talk per reference segment, as ``settings.view`` demands."""
    return list(talks) if settings.view == "talks" else sentences(talks)
