"""Sources that arrive in time and end when the user stops them; the clock of the tests is fake."""

import signal
from collections.abc import Iterator

import pytest
import torch

from zoo.apps.translate.live import Speed, Stop, arriving, check_speed
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, SpeechChunk


class Clock:
    """A clock that only sleep and ``now`` move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def chunks(count: int = 3) -> Iterator[SpeechChunk]:
    """Chunks of a second, whose samples count up."""
    for place in range(count):
        samples = torch.arange(place * SAMPLE_RATE, (place + 1) * SAMPLE_RATE)
        yield SpeechChunk(samples.float(), final=place == count - 1)


def arrivals(speed: Speed, compute: float) -> list[float]:
    """The times at which the chunks are there if each takes ``compute`` seconds."""
    clock = Clock()
    times = []
    for _ in arriving(chunks(), speed=speed, stop=Stop(), clock=clock, sleep=clock.sleep):
        times.append(round(clock.now - 100, 6))
        clock.now += compute
    return times


def test_a_chunk_is_there_when_its_last_sample_is() -> None:
    assert arrivals(1.0, compute=0.25) == [1.0, 2.0, 3.0]
    assert arrivals(2.0, compute=0.25) == [0.5, 1.0, 1.5]


def test_a_slow_system_finds_waiting_chunks() -> None:
    assert arrivals(1.0, compute=1.5) == [1.0, 2.5, 4.0]
    assert arrivals("max", compute=0.25) == [0.0, 0.25, 0.5]


def test_a_stopped_source_ends_with_what_has_arrived() -> None:
    clock, stop = Clock(), Stop()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        stop.requested = clock.now >= 101.5

    found = list(arriving(chunks(), speed=1.0, stop=stop, clock=clock, sleep=sleep))
    assert [chunk.final for chunk in found] == [False, True]
    assert found[1].samples.numel() == pytest.approx(0.5 * SAMPLE_RATE, abs=0.06 * SAMPLE_RATE)
    assert found[1].samples[0] == SAMPLE_RATE


@pytest.mark.parametrize("speed", ["max", 1.0])
def test_a_source_that_is_stopped_during_compute_ends_at_the_next_chunk(speed: Speed) -> None:
    clock, stop = Clock(), Stop()
    source = arriving(chunks(), speed=speed, stop=stop, clock=clock, sleep=clock.sleep)
    next(source)
    clock.now += 10
    stop.requested = True
    (last,) = source
    assert last.final
    assert last.samples.numel() == SAMPLE_RATE


def test_a_source_that_is_stopped_before_it_begins_has_a_sample() -> None:
    stop = Stop()
    stop.requested = True
    clock = Clock()
    (last,) = arriving(chunks(), speed=1.0, stop=stop, clock=clock, sleep=clock.sleep)
    assert (last.final, last.samples.numel()) == (True, 1)


def test_the_first_interrupt_is_noted_and_the_second_one_raises() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job may ignore it
    try:
        _interrupt_twice()
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt_twice() -> None:
    stop = Stop()
    with stop.on_interrupt():
        signal.raise_signal(signal.SIGINT)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("speed", [0, -1, True, "fast", None, float("inf"), float("nan")])
def test_a_wrong_speed_is_refused(speed: object) -> None:
    with pytest.raises(ZooError, match="speed must be a number above 0 or max"):
        check_speed(speed)


def test_speeds() -> None:
    assert (check_speed(1), check_speed(0.5), check_speed("max")) == (1.0, 0.5, "max")
