"""Systems x talks -> streams -> scores -> rows. Knows no Hydra and no logger."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from zoo.data.talks import Talk
from zoo.data.views import sentences
from zoo.evaluation.references import wait_k_oracle
from zoo.evaluation.sources import reference_segments, sources
from zoo.languages import Language
from zoo.metrics.flags import flags
from zoo.metrics.longform import LongFormScores, score_talks
from zoo.metrics.sentences import score_sentences
from zoo.report.instance_log import write_log
from zoo.report.page import ReportStream
from zoo.report.results import KnobValue, Row
from zoo.streaming.simulate import simulate
from zoo.systems.base import StreamingSystem
from zoo.types import Convention, Instance, Seconds


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to evaluate.

    view: whole talks, or their reference segments one by one. knob_values: None means the system's own list.
    upper_bound: add a row that hears each segment whole before it writes. oracle_k: rows of a gold-word wait-k oracle.
    """

    split: str
    view: str = "talks"
    batch_size: int = 1
    convention: Convention = "queue"
    resegmentation: str = "mwer"
    knob_values: Sequence[float] | None = None
    upper_bound: bool = True
    oracle_k: Sequence[int] = (1, 3, 5)


@dataclass
class Evaluation:
    """What came out: rows for results.json and, for the report, every stream of every row."""

    rows: list[Row] = field(default_factory=list)
    streams: list[ReportStream] = field(default_factory=list)
