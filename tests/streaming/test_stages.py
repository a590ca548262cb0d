"""The time of a step by stage, with a clock set by hand."""

import time
from collections.abc import Sequence

import pytest
import torch

from zoo.base.languages import language
from zoo.base.types import Action, SpeechChunk
from zoo.streaming.simulate import Source, simulate, warm_up
from zoo.streaming.stages import StageMeter, measure_stages, stage


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


@stage("encoder")
def encode(clock: Clock, seconds: float) -> float:
    clock.pass_by(seconds)
    with stage("features"):
        clock.pass_by(0.25)
    clock.pass_by(seconds)
    return seconds


def test_an_inner_stage_does_not_count_for_the_outer_one_and_all_add_up() -> None:
    clock = Clock()
    meter = StageMeter(clock)
    with measure_stages(meter):
        clock.pass_by(0.5)
        assert encode(clock, 1.0) == 1.0
        clock.pass_by(0.125)
    clock.pass_by(7.0)
    assert meter.seconds == {"other": 0.625, "encoder": 2.0, "features": 0.25}
    assert sum(meter.seconds.values()) == 2.875


def test_nothing_is_counted_unless_a_meter_measures() -> None:
    clock = Clock()
    meter = StageMeter(clock)
    encode(clock, 1.0)
    assert meter.seconds == {}


def test_an_exception_ends_its_stage() -> None:
    clock = Clock()
    meter = StageMeter(clock)

    @stage("decode")
    def fail() -> None:
        clock.pass_by(1.0)
        raise RuntimeError("stop")

    with measure_stages(meter):
        with pytest.raises(RuntimeError, match="stop"):
            fail()
        clock.pass_by(2.0)
    assert meter.seconds == {"other": 2.0, "decode": 1.0}


def test_the_accelerator_finishes_its_work_within_the_stage_that_started_it() -> None:
    clock = Clock()
    queued: list[float] = []

    def wait() -> None:
        while queued:
            clock.pass_by(queued.pop())

    meter = StageMeter(clock, wait)
    with measure_stages(meter):
        with stage("encoder"):
            queued.append(3.0)
        with stage("decode"):
            queued.append(1.0)
    assert meter.seconds == {"other": 0.0, "encoder": 3.0, "decode": 1.0}


class Session:
    """The fields of a session that ``simulate`` reads."""

    def __init__(self) -> None:
        self.source_ended = False


class Encoding:
    """A system that encodes for one second per stream, and writes in its second step."""

    def __init__(self, clock: Clock) -> None:
        self.target_language = language("de")
        self.clock = clock
        self.received: list[int] = []

    def open(self, talk: str, *, segments: object = ()) -> Session:
        self.received.append(0)
        return Session()

    def step(self, sessions: Sequence[Session], chunks: Sequence[SpeechChunk]) -> list[Action]:
        self.clock.pass_by(0.5)
        encode(self.clock, 0.5 * len(sessions))
        torch.rand(3)
        for session, chunk in zip(sessions, chunks, strict=True):
            session.source_ended = chunk.final
        self.received[-1] += 1
        return [Action("ja " if self.received[-1] > 1 else "") for _ in sessions]


def sources(*seconds: int) -> list[Source]:
    return [Source(f"{n}", [torch.zeros(16_000)] * n) for n in seconds]


def test_the_stages_of_a_stream_are_its_compute_and_a_batch_shares_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    (alone,) = simulate(Encoding(clock), sources(3))  # type: ignore[arg-type]
    assert alone.stages is not None
    assert alone.stages.seconds == {"other": 1.5, "encoder": 3.0, "features": 0.75}
    assert sum(chunk.compute for chunk in alone.chunks) == 5.25
    assert alone.stages.cpu > 0

    short, long = simulate(Encoding(clock), sources(1, 2), batch_size=2)  # type: ignore[arg-type]
    assert short.stages is not None
    assert long.stages is not None
    # one step of both streams, one of the longer stream alone
    assert short.stages.seconds == {"other": 0.25, "encoder": 1.0, "features": 0.125}
    assert long.stages.seconds == {"other": 0.75, "encoder": 2.0, "features": 0.375}


def test_a_warm_up_ends_with_the_first_output_and_changes_no_random_number() -> None:
    system = Encoding(Clock())
    torch.manual_seed(1)
    expected = torch.rand(4)
    torch.manual_seed(1)
    warm_up(system, sources(5)[0])  # type: ignore[arg-type]
    assert system.received == [2]
    assert torch.equal(torch.rand(4), expected)
    warm_up(system, sources(1)[0])  # type: ignore[arg-type]
    assert system.received == [2, 1]
