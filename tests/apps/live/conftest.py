"""A system that echoes its audio, and servers on it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from starlette.testclient import TestClient

from zoo.apps.live.hub import Hub
from zoo.apps.live.server import application
from zoo.apps.live.settings import Limits
from zoo.base.languages import language
from zoo.base.types import Action, SpeechChunk
from zoo.systems.base import StreamingSystem
from zoo.systems.system import Knob

CHUNK = 800  # samples, 50 ms


class Echo:
    """Writes the name of a stream and the loudness of each chunk, in hundredths.

    A chunk of loudness 99 fails. ``batches`` has the names of the streams of each batch.
    """

    source_language, target_language = language("en"), language("de")
    direction = "en-de"
    chunk_samples = CHUNK
    chunk_seconds, latency_multiplier = CHUNK / 16_000, 1
    knob: Knob | None = None
    knob_value: float | None = None
    emits_speech = False
    weights: ClassVar[dict[str, str]] = {}

    def __init__(self, latency: float | None = None) -> None:
        self.batches: list[list[str]] = []
        if latency is not None:
            self.knob, self.knob_value = Knob("m", "latency_multiplier"), latency

    def open(self, talk: str, *, segments: Sequence[Any] = ()) -> Any:
        return SimpleNamespace(talk=talk, source_ended=False)

    def step(self, sessions: Sequence[Any], chunks: Sequence[SpeechChunk]) -> list[Action]:
        self.batches.append([session.talk for session in sessions])
        actions = []
        for session, chunk in zip(sessions, chunks, strict=True):
            session.source_ended = chunk.final
            if not chunk.samples.numel():  # the end alone
                actions.append(Action())
                continue
            loud = round(100 * chunk.samples.abs().mean().item())
            if loud == 99:
                raise RuntimeError("too loud")
            actions.append(Action(text=f" {loud}"))
        return actions


@pytest.fixture
def echo() -> Echo:
    return Echo()


Serve = Callable[..., TestClient]


@pytest.fixture
def serve(echo: Echo, tmp_path: Path) -> Iterator[Serve]:
    """A client of a running server: ``serve(streams=2, access=..., talks=..., echoes=...)``.

    Its systems are those of ``echoes``, or else ``echo``.
    """
    clients: list[TestClient] = []

    def start(
        *,
        access: Any = None,
        talks: Sequence[Any] = (),
        echoes: Sequence[Echo] = (),
        **limits: Any,
    ) -> TestClient:
        systems = {"echo": [cast("StreamingSystem", one) for one in echoes or [echo]]}
        hub = Hub(systems, limits=Limits(**limits), folder=tmp_path, talks=talks)
        given = {} if access is None else {"access": access}
        client = TestClient(application(hub, **given), headers={"host": "localhost"})
        client.__enter__()
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.__exit__(None, None, None)
