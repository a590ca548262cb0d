"""Playback that catches up: what is cut from which piece, on speech made by hand."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from tests.contract.scripted import TurnTaker, source
from tests.evaluation.test_runner import system
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE
from zoo.config import build, compose
from zoo.streaming.playback import playback_intervals
from zoo.streaming.session import SpeechRequest
from zoo.streaming.simulate import simulate
from zoo.synthesizers.base import Synthesizer
from zoo.systems.playback.base import Playback, PlaybackState
from zoo.systems.playback.drop_pauses import DropPauses, pauses
from zoo.systems.playback.stretch import HOP, SEARCH, Stretch, change_tempo


def tone(seconds: float, hertz: float = 200.0) -> Tensor:
    times = torch.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return 0.5 * torch.sin(2 * torch.pi * hertz * times)


def silence(seconds: float) -> Tensor:
    return torch.zeros(round(seconds * SAMPLE_RATE))


def hertz_of(speech: Tensor) -> float:
    """The strongest frequency."""
    return float(torch.fft.rfft(speech).abs().argmax()) * SAMPLE_RATE / len(speech)


class Halve(Playback):
    """Plays half of what is late, to see what it is asked for."""

    def __init__(self, behind_seconds: float = 1.0) -> None:
        super().__init__(behind_seconds=behind_seconds)
        self.asked: list[float] = []

    def shorten(self, speech: Tensor, samples: int) -> Tensor:
        self.asked.append(samples / SAMPLE_RATE)
        return speech[: len(speech) // 2]


def played(playback: Playback, *steps: tuple[float, Tensor]) -> list[float]:
    """Seconds of each piece; a step is the seconds of source received and the new speech."""
    state = PlaybackState()
    lengths = []
    for seconds, speech in steps:
        playback.receive(state, round(seconds * SAMPLE_RATE))
        lengths.append(playback.play(state, speech).numel() / SAMPLE_RATE)
    return lengths


def test_speech_is_shortened_only_while_earlier_speech_is_late() -> None:
    playback = Halve()
    # Source at 1, 2, 3, 4 and 9 s; speech ends at 3, 5, 6, 7 and 11 s: before the pieces it is
    # behind by 0, 1, 2, 2 and 0 s. One second is allowed.
    steps = [(1.0, tone(2.0)), (1.0, tone(2.0)), (1.0, tone(2.0)), (1.0, tone(2.0))]
    assert played(playback, *steps, (5.0, tone(2.0))) == [2.0, 2.0, 1.0, 1.0, 2.0]
    assert playback.asked == [1.0, 1.0]
    assert played(Halve(), (1.0, tone(9.0)), (1.0, silence(0.0))) == [9.0, 0.0]


def test_stretch_makes_up_for_the_delay_within_a_piece_up_to_the_limit() -> None:
    # Behind by 1.5 s at the second piece and by 5 s at the third.
    assert played(
        Stretch(fastest=1.25), (1.0, tone(2.5)), (1.0, tone(4.5)), (1.0, tone(2.0))
    ) == pytest.approx([2.5, 4.0, 1.6], abs=1e-4)


@pytest.mark.parametrize("tempo", [1.1, 1.3, 2.0])
def test_the_pitch_remains(tempo: float) -> None:
    speech = tone(2.0) + 0.5 * tone(2.0, 400)
    faster = change_tempo(speech, round(len(speech) / tempo))
    assert len(faster) == round(len(speech) / tempo)
    assert hertz_of(faster) == pytest.approx(200, abs=2)
    middle = faster[SAMPLE_RATE // 4 : -SAMPLE_RATE // 4]  # without the end of the input
    assert float(middle.square().mean()) == pytest.approx(float(speech.square().mean()), rel=0.1)


def test_stretched_speech_begins_and_ends_as_before() -> None:
    speech = torch.cat([tone(0.5, 150), tone(0.5, 300)])
    faster = change_tempo(speech, round(len(speech) / 1.3))
    assert torch.equal(faster[:HOP], speech[:HOP])
    half = len(faster) // 2
    assert hertz_of(faster[: half - SEARCH]) == pytest.approx(150, abs=5)
    assert hertz_of(faster[half + SEARCH :]) == pytest.approx(300, abs=5)
    short = tone(0.05)
    assert change_tempo(short, 400) is short, "shorter than two frames"


def test_pauses_are_found_relative_to_the_loudest_sound() -> None:
    quiet = 0.002 * tone(0.3)  # 54 dB below the rest
    speech = torch.cat([tone(0.3), quiet, 0.1 * tone(0.3), silence(0.2)])
    hops = [(first / SAMPLE_RATE, last / SAMPLE_RATE) for first, last in pauses(speech, -40.0)]
    assert hops == [pytest.approx((0.3, 0.6)), pytest.approx((0.9, 1.1))]
    assert pauses(speech, -60.0) == [(round(0.9 * SAMPLE_RATE), round(1.1 * SAMPLE_RATE))]
    assert pauses(silence(0.005), -40.0) == []


def test_pauses_are_cut_from_the_first_on_as_far_as_needed() -> None:
    words = [tone(0.3), tone(0.4, 300), tone(0.2, 400)]
    speech = torch.cat([words[0], silence(0.5), words[1], silence(0.4), words[2]])
    playback = DropPauses(pause_seconds=0.1)
    enough = playback.shorten(speech, round(0.6 * SAMPLE_RATE))
    expected = torch.cat([words[0], silence(0.1), words[1], silence(0.2), words[2]])
    assert torch.equal(enough, expected)
    most = playback.shorten(speech, 9 * SAMPLE_RATE)
    assert len(most) == round(1.1 * SAMPLE_RATE), "two pauses of 0.1 s remain"
    assert torch.equal(playback.shorten(words[0], SAMPLE_RATE), words[0])
    assert len(playback.shorten(silence(2.0), 9 * SAMPLE_RATE)) == round(0.1 * SAMPLE_RATE)


class Slow(Synthesizer):
    """Speaks for 0.2 s in each step, which has less source."""

    def synthesize(self, requests: Sequence[SpeechRequest]) -> list[Tensor]:
        return [tone(0.2) for _ in requests]


def lateness(playback: Playback | None) -> list[float]:
    """How far playback is behind after each piece of a system that speaks too slowly."""
    speaking = system(TurnTaker(), synthesizer=Slow(), playback=playback)
    speaking.configure_model()
    words = source(range(1, 31), speaking.chunk_samples)
    [instance] = simulate(speaking, [words])
    delays = [output.delay for output in instance.speech]
    return [
        start + duration - delay
        for (start, duration), delay in zip(
            playback_intervals(instance.speech), delays, strict=True
        )
    ]


def test_a_system_that_stretches_stays_near_its_limit() -> None:
    queued, stretched = lateness(None), lateness(Stretch(fastest=3.0, behind_seconds=0.5))
    assert queued[-1] > 1.5, "the script must be too slow"
    assert max(stretched) == pytest.approx(0.5 + 0.2), "the limit and one piece"
    assert queued[:3] == stretched[:3]


def test_systems_without_speech_refuse_it() -> None:
    with pytest.raises(ZooError, match="Stretch shortens target speech, and the system has none"):
        build(compose("evaluate", ["system=streamatt", "playback=stretch"]).system)
    spoken = compose("evaluate", ["system=simulu", "playback=drop_pauses"])
    assert isinstance(build(spoken.system).playback, DropPauses)


@pytest.mark.parametrize(
    "options", [{"fastest": 1.0}, {"fastest": 4.0}, {"behind_seconds": -1.0}, {"level": 3.0}]
)
def test_values_out_of_range_are_refused(options: dict[str, float]) -> None:
    kind = DropPauses if "level" in options else Stretch
    with pytest.raises(ZooError):
        kind(**options)
