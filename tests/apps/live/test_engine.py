"""The streams of many users in batches on one thread; the clock of most tests is fake."""

import threading
from collections.abc import Callable, Iterator
from typing import cast

import pytest
import torch

from tests.apps.live.conftest import CHUNK, Echo
from zoo.apps.live.engine import Engine, Failure, Progress, ServedStream
from zoo.systems.base import StreamingSystem

SECONDS = 30  # after which a test is taken to hang


class User:
    """Receives the results of its stream."""

    def __init__(self, engine: Engine, system: Echo, name: str) -> None:
        self.results: list[Progress | Failure] = []
        self.done = threading.Event()
        self.engine = engine
        self.served: ServedStream = engine.open(cast("StreamingSystem", system), name, self.add)

    def add(self, result: Progress | Failure) -> None:
        self.results.append(result)
        if isinstance(result, Failure) or result.final:
            self.done.set()

    def send(self, *loudness: int, final: bool = False) -> None:
        samples = [torch.full((CHUNK,), one / 100) for one in loudness]
        joined = torch.cat(samples) if samples else torch.zeros(0)
        self.engine.receive(self.served, joined, final=final)

    @property
    def text(self) -> str:
        assert self.done.wait(SECONDS)
        return self.served.instance().text


Join = Callable[[str], User]


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine whose thread a test starts."""
    engine = Engine(batch_size=2)
    yield engine
    engine.close()


@pytest.fixture
def join(engine: Engine, echo: Echo) -> Join:
    return lambda name: User(engine, echo, name)


def test_a_stream_has_the_same_output_in_any_company(engine: Engine, join: Join) -> None:
    engine.start()
    users = [join(str(index)) for index in range(5)]
    for place in range(6):
        for index, user in enumerate(users):
            user.send(10 * index + place, final=place == 5)
    texts = [user.text for user in users]
    expected = [" ".join(str(10 * index + place) for place in range(6)) for index in range(5)]
    assert [text.strip() for text in texts] == expected


def test_a_batch_begins_with_the_chunk_that_waits_longest(
    engine: Engine, join: Join, echo: Echo
) -> None:
    users = [join(name) for name in "abc"]
    for user in (users[2], users[0], users[1]):
        user.send(1, final=True)
    engine.start()
    for user in users:
        assert user.done.wait(SECONDS)
    assert echo.batches == [["c", "a"], ["b"]]


def test_streams_join_and_leave_between_batches(engine: Engine, join: Join) -> None:
    engine.start()
    first, second = join("first"), join("second")
    first.send(1, 2)
    engine.leave(first.served)
    second.send(3, final=True)
    assert second.text == " 3"
    first.send(4, final=True)  # nobody processes it any more
    third = join("third")
    third.send(5, final=True)
    assert third.text == " 5"
    assert not first.done.is_set()


def test_a_failure_ends_the_streams_of_its_batch_alone(engine: Engine, join: Join) -> None:
    loud, quiet = join("loud"), join("quiet")
    loud.send(99)
    engine.start()
    assert loud.done.wait(SECONDS)
    quiet.send(1, 2, final=True)
    assert quiet.text == " 1 2"
    assert loud.results == [Failure("RuntimeError: too loud")]
    assert loud.served.instance().text == ""


def test_times_are_those_of_the_clock(echo: Echo) -> None:
    now = [100.0]
    engine = Engine(batch_size=2, clock=lambda: now[0])
    user = User(engine, echo, "late")
    now[0] += CHUNK / 16_000
    user.send(1)  # was spoken from 100.0 s on
    now[0] = 102.0
    user.send(2, final=True)
    now[0] = 105.0
    engine.start()
    assert user.done.wait(SECONDS)
    engine.close()
    first, second = user.results
    assert isinstance(first, Progress)
    assert isinstance(second, Progress)
    assert first.lateness == pytest.approx(5 - CHUNK / 16_000)
    assert second.lateness == pytest.approx(3)
    assert first.output is not None
    assert first.output.elapsed == pytest.approx(5)
    instance = user.served.instance()
    assert instance.elapsed == pytest.approx([5, 5])
    assert instance.delays == pytest.approx([CHUNK / 16_000, 2 * CHUNK / 16_000])


def test_the_backlog_counts_what_waits(engine: Engine, join: Join) -> None:
    user = join("user")
    user.send(1, 2, 3)
    assert user.served.backlog == engine.backlog == pytest.approx(3 * CHUNK / 16_000)
    user.send(final=True)
    engine.start()
    assert user.text == " 1 2 3"
    assert engine.backlog == 0
