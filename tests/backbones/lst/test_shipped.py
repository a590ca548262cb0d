"""The shipped checkpoint translates audio of the test set; its attention follows the speech."""

from pathlib import Path

import pytest
import torch

from zoo.base.audio import files as audio
from zoo.base.talks import Segment, Talk
from zoo.base.types import SAMPLE_RATE, Capability, Request, SpeechChunk
from zoo.config import build, compose
from zoo.data.trajectories import emission_times
from zoo.evaluation.runner import Evaluator
from zoo.evaluation.settings import Settings
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem

SENTENCES = 10
AROUND = 0.2  # seconds before and after a sentence


@pytest.fixture(scope="module")
def system() -> StreamingSystem:
    system: StreamingSystem = build(
        compose("evaluate", ["system=streamatt", "backbone=lst_minitalks"]).system
    )
    system.configure_model()
    return system


@pytest.fixture(scope="module")
def talk() -> Talk:
    return build(compose("evaluate").data).talks("tst", limit=1)[0]  # type: ignore[no-any-return]


def test_streamatt_translates_a_talk(system: StreamingSystem, talk: Talk, tmp_path: Path) -> None:
    settings = Settings(upper_bound=False, oracle_k=(), knob_values=[4])
    row = next(
        iter(
            Evaluator(corpus="minitalks", talks=[talk], settings=settings, folder=tmp_path).run(
                system
            )
        )
    )
    assert row.flags == ()
    assert (row.scores["BLEU"] or 0) > 60
    assert 0.3 < (row.scores["StreamLAAL"] or 0) < 2.5


def session_with_audio(system: StreamingSystem, talk: Talk, segment: Segment) -> Session:
    """The sentence, with its reference as if it had been written."""
    session = system.open("talk")
    start = segment.offset - AROUND
    samples = audio.load(
        talk.file, start=talk.offset + start, duration=segment.duration + 2 * AROUND
    )
    session.receive(SpeechChunk(samples, final=True))
    ids = system.backbone.tokenizer.encode(segment.targets["de"].text, add_special_tokens=False)
    session.prefix_ids = torch.tensor(ids)
    return session


def test_attention_follows_the_spoken_words(system: StreamingSystem, talk: Talk) -> None:
    segments = talk.segments[:SENTENCES]
    sessions = [session_with_audio(system, talk, segment) for segment in segments]
    answers = system.backbone.decode(
        sessions, [Request()] * len(sessions), frozenset({Capability.ALIGNMENT})
    )
    near: list[bool] = []
    for segment, hypothesis in zip(segments, answers, strict=True):
        starts = hypothesis.word_starts[: hypothesis.prefix_length].nonzero().flatten().tolist()
        times = [time for _, time in emission_times(segment, "de")]
        assert len(starts) == len(times)
        for token, time in zip(starts, times, strict=True):
            place = (
                (float(hypothesis.attended_frames[token]) + 0.5)
                * system.backbone.frame_samples
                / SAMPLE_RATE
            )
            near.append(time - 0.65 <= segment.offset - AROUND + place <= time + 0.25)
    assert sum(near) / len(near) > 0.7
