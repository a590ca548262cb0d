"""The shipped checkpoint transcribes real audio; its attention follows the speech."""

import pytest
import torch

from zoo.base.languages import language, spelling
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Capability, Hypothesis, Request, SpeechChunk, Task
from zoo.config import build, compose
from zoo.data.excerpts import Excerpt, ExcerptConfig, Excerpts
from zoo.data.trajectories import emission_times
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem

SENTENCES = 10


@pytest.fixture(scope="module")
def system() -> StreamingSystem:
    system: StreamingSystem = build(compose("evaluate", ["system=streamatt"]).system)
    system.configure_model()
    return system


@pytest.fixture(scope="module")
def talk() -> Talk:
    return build(compose("evaluate").data).talks("tst", limit=1)[0]  # type: ignore[no-any-return]


def sentences(talk: Talk) -> list[Excerpt]:
    """The first sentences, each with a fifth of a second around it."""
    german = language("de")
    Excerpts([talk], german, ExcerptConfig())  # raises where the talk lacks something
    return [
        Excerpt(
            talk,
            segment.offset - 0.2,
            segment.end + 0.2,
            tuple(word.text for word in segment.words),
            segment.targets["de"].words,
            german,
        )
        for segment in talk.segments[:SENTENCES]
    ]


def session_with_audio(system: StreamingSystem, excerpt: Excerpt) -> Session:
    session = system.open("talk")
    session.receive(SpeechChunk(excerpt.samples(), final=True))
    return session


def answer(system: StreamingSystem, sessions: list[Session], task: Task) -> list[Hypothesis]:
    needs = frozenset({Capability.ALIGNMENT})
    return system.backbone.decode(sessions, [Request(task=task)] * len(sessions), needs)


def test_transcripts_have_most_words(system: StreamingSystem, talk: Talk) -> None:
    excerpts = sentences(talk)
    transcripts = answer(
        system, [session_with_audio(system, excerpt) for excerpt in excerpts], Task.TRANSCRIPTION
    )
    words = right = 0
    for excerpt, transcript in zip(excerpts, transcripts, strict=True):
        recognised = set((transcript.transcript or "").split())
        words += len(excerpt.source)
        right += sum(spelling(word) in recognised for word in excerpt.source)
    assert right / words > 0.85


def test_attention_follows_the_spoken_words(system: StreamingSystem, talk: Talk) -> None:
    segments, excerpts = talk.segments[:SENTENCES], sentences(talk)
    sessions = [session_with_audio(system, excerpt) for excerpt in excerpts]
    for session, excerpt in zip(
        sessions, excerpts, strict=True
    ):  # the reference, as if it had been written
        ids = system.backbone.tokenizer.encode(excerpt.text, add_special_tokens=False)
        session.prefix_ids = torch.tensor(ids)
    near: list[bool] = []
    frame = system.backbone.frame_samples / SAMPLE_RATE
    for segment, excerpt, hypothesis in zip(
        segments, excerpts, answer(system, sessions, Task.TRANSLATION), strict=True
    ):
        starts = hypothesis.word_starts[: hypothesis.prefix_length].nonzero().flatten()
        times = [time for _, time in emission_times(segment, "de")]
        assert len(starts) == len(times)
        for token, time in zip(starts.tolist(), times, strict=True):
            seen = excerpt.start + (float(hypothesis.attended_frames[token]) + 0.5) * frame
            near.append(time - 0.65 <= seen <= time + 0.25)
    assert sum(near) / len(near) > 0.75
