"""Talks streamed by SimulU: batches equal single streams; no state is left behind."""

from collections.abc import Sequence

import pytest
import torch

from tests.backbones.seamless_m4t.conftest import Load, noise
from tests.fixtures.streams import new_system
from zoo.backbones.decoding.branches import KeyValueCache
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.decoding.static_steps import StaticSteps
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.base.types import Instance, SpeechChunk
from zoo.history.recent_words import RecentWords
from zoo.policies.alignatt import AlignAtt
from zoo.streaming.simulate import Source, simulate
from zoo.synthesizers.simulu import SimulU
from zoo.systems.base import StreamingSystem


def system(backbone: SeamlessM4TSpeech) -> StreamingSystem:
    streaming_system = new_system(
        backbone,
        AlignAtt(frames=1),
        RecentWords(words=2),
        chunk_seconds=0.64,
        synthesizer=SimulU(close="at_end"),
    )
    streaming_system.configure_model()
    return streaming_system


@pytest.mark.parametrize("beams", [1, 2])
def test_a_batch_synthesises_the_speech_of_each_stream_alone(load: Load, beams: int) -> None:
    streaming_system = system(
        load(search=SearchConfig(beams=beams, no_repeat_ngram=2), max_units=20)
    )
    sources = [
        Source(f"{i}", noise(n, i).split(streaming_system.chunk_samples))
        for i, n in enumerate((300, 150, 420))
    ]

    def streamed(batch_size: int) -> Sequence[Instance]:
        done = list(simulate(streaming_system, sources, batch_size=batch_size))
        return sorted(done, key=lambda instance: instance.index)

    alone, together = streamed(1), streamed(2)
    for one, other in zip(alone, together, strict=True):
        assert (one.text, one.delays) == (other.text, other.delays)
        assert len(one.speech) == len(other.speech)
        for ours, theirs in zip(one.speech, other.speech, strict=True):
            assert ours.delay == theirs.delay
            torch.testing.assert_close(ours.samples, theirs.samples, rtol=0, atol=1e-5)
    spoken = [speech for instance in alone for speech in instance.speech]
    assert sum(len(speech.samples) > 0 for speech in spoken) > 3


def test_what_the_end_of_a_text_needs_goes_with_the_write(load: Load) -> None:
    streaming_system = system(load(max_units=20))
    session = streaming_system.open("talk")
    for part in noise(300).split(streaming_system.chunk_samples):
        streaming_system.step([session], [SpeechChunk(part)])
        assert session.backbone_state.branch is None
    assert session.prefix_ids.numel()


@pytest.mark.parametrize("beams", [1, 2])
def test_static_steps_synthesise_the_same_speech(
    load: Load, monkeypatch: pytest.MonkeyPatch, beams: int
) -> None:
    """Of text and of units, and all searches have the static memory."""
    held: list[bool] = []
    holds = StaticSteps.holds

    def counted(self: StaticSteps, cache: KeyValueCache) -> bool:
        held.append(holds(self, cache))
        return held[-1]

    def streamed(capture: str) -> list[Instance]:
        backbone = load(search=SearchConfig(beams=beams), capture=capture, max_units=20)
        streaming_system = system(backbone)
        sources = [
            Source(f"{i}", noise(n, i).split(streaming_system.chunk_samples))
            for i, n in enumerate((300, 150))
        ]
        done = list(simulate(streaming_system, sources, batch_size=2))
        for steps in (backbone.steps, backbone.speaker.steps):
            assert bool(steps._steps) == (capture == "static")
        backbone.release()
        for steps in (backbone.steps, backbone.speaker.steps):
            assert (steps._steps, steps.memory._regions) == ({}, {})
        return sorted(done, key=lambda instance: instance.index)

    expected = streamed("off")
    monkeypatch.setattr(StaticSteps, "holds", counted)
    found = streamed("static")
    assert all(held)
    for one, other in zip(found, expected, strict=True):
        assert (one.text, one.delays) == (other.text, other.delays)
        for ours, theirs in zip(one.speech, other.speech, strict=True):
            torch.testing.assert_close(ours.samples, theirs.samples, rtol=0, atol=1e-5)
    assert sum(len(speech.samples) > 0 for one in found for speech in one.speech) > 2
