"""Systems as a server loads them."""

import torch

import zoo
from zoo.apps.live.work import load_systems, share_backbones
from zoo.base.audio import files as audio
from zoo.config import build, compose
from zoo.data.minitalks import corpus
from zoo.systems.base import StreamingSystem

SECONDS = 6.0


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
