"""Systems as a server loads them, and the signals that end it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from starlette.applications import Starlette

import zoo
from zoo.apps.live.settings import Limits
from zoo.apps.live.work import load_systems, new_server, share_backbones
from zoo.base.audio import files as audio
from zoo.config import build, compose
from zoo.data.minitalks import corpus
from zoo.systems.base import StreamingSystem

SECONDS = 6.0


@contextmanager
def handling(number: int, handler: signal.Handlers) -> Iterator[None]:
    """Handle a signal in the block as the shell that has started the process asks for."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_server(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.apps.live.work.leave_terminal", lambda number: None)
    server = new_server(Starlette(), Limits())
    with handling(number, signal.SIG_DFL), server.capture_signals():
        signal.raise_signal(number)
        assert server.should_exit


def test_a_server_that_ignores_the_end_of_its_terminal_goes_on() -> None:
    server = new_server(Starlette(), Limits())
    with handling(signal.SIGHUP, signal.SIG_IGN), server.capture_signals():
        signal.raise_signal(signal.SIGHUP)
        assert not server.should_exit


def test_latencies_of_a_system_share_its_weights() -> None:
    slow: StreamingSystem = build(compose("live", ["system=simulu"]).system)
    fast: StreamingSystem = build(compose("live", ["system=simulu"]).system)
    fast.turn_knob(2)
    load_systems([slow, fast], torch.device("cpu"))
    assert fast.backbone is slow.backbone
    assert fast.synthesizer is slow.synthesizer
    assert (slow.knob_value, fast.knob_value) == (4, 2)


def test_a_system_with_shared_weights_writes_what_it_writes_alone() -> None:
    first: StreamingSystem = build(compose("live").system)
    second: StreamingSystem = build(compose("live").system)
    second.turn_knob(1)
    load_systems([first, second], torch.device("cpu"))
    (talk,) = corpus.build("tst", talks=1)
    samples = audio.load(talk.file, duration=SECONDS)
    alone = zoo.load("infinisst")
    for system, multiplier in ((first, 2), (second, 1), (first, 2)):
        alone.turn_knob(multiplier)
        expected = alone.translate(samples, sample_rate=16_000)
        words = system.translate(samples, sample_rate=16_000).words
        assert [(word.text, word.delay) for word in words] == [
            (word.text, word.delay) for word in expected.words
        ]


def test_systems_on_equal_backbones_share_one() -> None:
    typed = {
        "attention": ["system=streamatt"],
        "agreement": ["system=local_agreement"],
        "other": ["system=streamatt", "backbone.max_tokens=9"],
    }
    configurations = {name: compose("live", items) for name, items in typed.items()}
    systems: dict[str, StreamingSystem] = {
        name: build(cfg.system) for name, cfg in configurations.items()
    }
    share_backbones(systems, configurations)
    assert systems["agreement"].backbone is systems["attention"].backbone
    assert systems["other"].backbone is not systems["attention"].backbone
    for system in systems.values():
        load_systems([system], torch.device("cpu"))
    (talk,) = corpus.build("tst", talks=1)
    samples = audio.load(talk.file, duration=SECONDS)
    expected = zoo.load("local_agreement").translate(samples, sample_rate=16_000)
    assert expected.text
    assert systems["agreement"].translate(samples, sample_rate=16_000).text == expected.text
