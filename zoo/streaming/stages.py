"""Stages of a step, such as the encoder: marks in the code, and a meter of their time.

Code marks a stage with ``@stage("encoder")`` above a function or ``with stage("encoder"):``. The
clock belongs to the simulation: a mark reads no time and does nothing unless a ``StageMeter``
measures. Stages may be nested; the time of the inner stage does not count for the outer one.
"""

from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

from zoo.base.types import Seconds

Stage = Literal["features", "encoder", "prefill", "decode", "policy", "synthesizer"]
OTHER = "other"  # time of a step outside of all stages
STAGES = (*get_args(Stage), OTHER)

Clock = Callable[[], Seconds]


class StageMeter:
    """Measures the seconds of each stage of one step.

    Args:
        clock: Returns the time in seconds.
        synchronize: Waits until the accelerator has done its work; called before the clock is read,
            so that work counts for the stage that started it. None: there is no accelerator.

    Attributes:
        seconds: Seconds by stage. Their sum is the time of the step.
    """

    def __init__(self, clock: Clock, synchronize: Callable[[], None] | None = None) -> None:
        self.seconds: dict[str, Seconds] = {}
        self._clock = clock
        self._synchronize = synchronize
        self._open: list[str] = []
        self._since: Seconds = 0.0

    def enter(self, name: str) -> None:
        """Begin a stage; the stage around it is interrupted."""
        self._count()
        self._open.append(name)

    def leave(self) -> None:
        """End the stage that began last; the stage around it continues."""
        self._count()
        self._open.pop()

    def _count(self) -> None:
        """Add the time since the last change of stages to the current stage."""
        if self._synchronize is not None:
            self._synchronize()
        now = self._clock()
        if self._open:
            name = self._open[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now


_METER: ContextVar[StageMeter | None] = ContextVar("_METER", default=None)


class stage(ContextDecorator):
    """Marks code as a stage: a decorator and a context manager.

    Args:
        name: The stage.
    """

    __slots__ = ("_name",)

    def __init__(self, name: Stage) -> None:
        self._name = name

    def __enter__(self) -> None:
        meter = _METER.get()
        if meter is not None:
            meter.enter(self._name)

    def __exit__(self, *error: object) -> None:
        meter = _METER.get()
        if meter is not None:
            meter.leave()


@contextmanager
def measure_stages(meter: StageMeter) -> Iterator[None]:
    """Measure the stages in the ``with`` block; time outside of all stages counts as ``other``."""
    token = _METER.set(meter)
    meter.enter(OTHER)
    try:
        yield
    finally:
        meter.leave()
        _METER.reset(token)
