"""Playback of target speech, on cases computed by hand."""

from dataclasses import replace

import pytest
import torch

from zoo.base.types import SAMPLE_RATE, Instance, SpeechOutput
from zoo.streaming.playback import playback_intervals
from zoo.streaming.waveforms import mix, timeline


def spoken(delay: float, seconds: float, value: float, elapsed: float = 0.0) -> SpeechOutput:
    return SpeechOutput(
        torch.full((round(seconds * SAMPLE_RATE),), value), delay, elapsed, chunk=0, text=""
    )


def instance(*speech: SpeechOutput, length: float = 6.0) -> Instance:
    return Instance(0, "talk", length, "", (), (), (), speech=speech)


# Immediately; queued behind the previous piece; after a gap; beyond the end of the source (6 s).
PIECES = (
    spoken(1.0, 1.0, 1.0, 1.5),
    spoken(1.5, 0.5, 2.0, 4.0),
    spoken(4.0, 1.5, 3.0, 4.25),
    spoken(5.0, 1.0, 4.0, 9.0),
)


def test_intervals_queue_behind_each_other() -> None:
    assert playback_intervals(PIECES) == [(1.0, 1.0), (2.0, 0.5), (4.0, 1.5), (5.5, 1.0)]


def test_intervals_when_speech_must_be_computed_first() -> None:
    assert playback_intervals(PIECES, computation_aware=True) == [
        (1.5, 1.0),
        (4.0, 0.5),
        (4.5, 1.5),
        (9.0, 1.0),
    ]


@pytest.mark.parametrize(("computation_aware", "length"), [(False, 6.5), (True, 10.0)])
def test_the_timeline_has_speech_in_its_intervals_and_silence_elsewhere(
    computation_aware: bool, length: float
) -> None:
    wave = timeline(instance(*PIECES), computation_aware=computation_aware)
    expected = torch.zeros(round(length * SAMPLE_RATE))
    for value, (start, duration) in enumerate(
        playback_intervals(PIECES, computation_aware=computation_aware), start=1
    ):
        expected[round(start * SAMPLE_RATE) : round((start + duration) * SAMPLE_RATE)] = value
    assert torch.equal(wave, expected)


def test_no_sample_is_lost_or_played_twice_at_any_timing() -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        sizes = torch.randint(1, 9000, (12,), generator=generator).tolist()
        moments = (
            torch.rand(12, generator=generator, dtype=torch.double).mul(4).sort().values.tolist()
        )
        values = torch.arange(1.0, sum(sizes) + 1).split(sizes)
        pieces = [
            SpeechOutput(wave, at, at, 0, "") for wave, at in zip(values, moments, strict=True)
        ]
        wave = timeline(instance(*pieces, length=1.0))
        assert torch.equal(wave[wave > 0], torch.cat(values))
        assert wave[-1] > 0


def test_what_is_written_when_the_source_has_ended_begins_there() -> None:
    wave = timeline(instance(spoken(6.0, 0.25, 1.0)))
    assert wave.numel() == round(6.25 * SAMPLE_RATE)
    assert torch.equal(wave.nonzero()[:, 0], torch.arange(6 * SAMPLE_RATE, wave.numel()))


def test_silence_is_as_long_as_the_source() -> None:
    assert playback_intervals(()) == []
    assert torch.equal(timeline(instance()), torch.zeros(6 * SAMPLE_RATE))
    assert timeline(replace(instance(), source_length=0.0)).numel() == 0


def test_the_mix_has_the_source_on_the_left_and_the_target_on_the_right() -> None:
    assert mix(torch.tensor([0.5, 0.25]), torch.tensor([0.0, -0.5, 1.0])).tolist() == [
        [0.5, 0],
        [0.25, -0.5],
        [0, 1],
    ]
    assert mix(torch.tensor([0.5]), torch.tensor([0.5, -2.0])).tolist() == [[0.5, 0.25], [0, -1]]
    assert mix(torch.zeros(0), torch.zeros(0)).shape == (0, 2)
