"""Quality of systems at equal latency, in a run folder: ``matched.json``."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from zoo.base.disk.files import write_text
from zoo.base.types import Seconds
from zoo.runs.rows.row import TestSet

NAME = "matched.json"


@dataclass(frozen=True, slots=True)
class MatchedPoint:
    """Quality of a system and of the baseline at one latency.

    Attributes:
        latency: the latency in seconds.
        baseline: quality of the baseline.
        quality: quality of the system.
        interval: bounds of the 95 % interval of the difference.
        p_value: probability of a difference at least as large by chance.
    """

    latency: Seconds
    baseline: float
    quality: float
    interval: tuple[float, float]
    p_value: float


@dataclass(frozen=True, slots=True)
class OutsideRow:
    """A row that is not compared with another system, which does not reach its latency.

    Attributes:
        system: name of the system.
        setting: latency setting, such as ``m=2``.
        latency: the latency in seconds.
    """

    system: str
    setting: str
    latency: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedCurve:
    """A system and the baseline at the latencies that both reach.

    Attributes:
        test_set: the test set.
        baseline: name of the baseline system.
        system: name of the system.
        latency: name of the latency, such as ``StreamLAAL``.
        quality: name of the quality, such as ``BLEU``.
        points: comparisons in the order of the latency; empty without a latency in common.
        outside: rows of both whose latency the other system does not reach.
    """

    test_set: TestSet
    baseline: str
    system: str
    latency: str
    quality: str
    points: tuple[MatchedPoint, ...]
    outside: tuple[OutsideRow, ...] = ()


def write_matched(folder: Path, curves: Sequence[MatchedCurve]) -> None:
    """Write the comparisons of a run; no file without any."""
    if curves:
        text = json.dumps([asdict(curve) for curve in curves], indent=2, ensure_ascii=False)
        write_text(folder / NAME, text + "\n")
