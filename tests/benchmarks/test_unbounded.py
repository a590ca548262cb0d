"""The windows and ratios of the unbounded benchmark, computed by hand."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.contract.scripted import Scripted, speak
from zoo.config import build, compose
from zoo.errors import ZooError
from zoo.history.base import History
from zoo.history.keep_all import KeepAll
from zoo.history.recent_words import RecentWords
from zoo.policies.alignatt import AlignAtt
from zoo.systems.base import StreamingSystem
from zoo.types import SAMPLE_RATE

MINUTES = [minute + half for minute in range(60) for half in (0.25, 0.75)]


def lines(
    script: ModuleType, compute: list[float], memory: list[float], arrivals: list[float] = MINUTES
) -> list[Any]:
    """A line per chunk; a chunk takes half of its compute on a CPU."""
    return [
        script.ChunkLine(minute * 60, seconds, seconds / 2, "", used, 0.0, 0)
        for minute, seconds, used in zip(arrivals, compute, memory, strict=True)
    ]


def test_constant_values_have_growth_one_and_the_first_minutes_do_not_count(
    script: ModuleType,
) -> None:
    compute = [9.0 if minute < 5 else 0.2 for minute in MINUTES]
    memory = [50.0 if minute < 10 else 100.0 for minute in MINUTES]
    assert script.growth(lines(script, compute, memory), 60) == {
        "compute_growth": 1.0,
        "cpu_growth": 1.0,
        "memory_growth": 1.0,
    }


def test_compute_is_the_last_ten_minutes_over_minutes_5_to_15(script: ModuleType) -> None:
    compute = [0.3 if minute >= 50 else 0.2 if 5 <= minute < 15 else 7.0 for minute in MINUTES]
    found = script.growth(lines(script, compute, [1.0] * len(MINUTES)), 60)
    assert found["compute_growth"] == found["cpu_growth"] == 1.5


def test_memory_that_grows_in_between_counts_and_one_outlier_does_not(script: ModuleType) -> None:
    calm = [0.2] * len(MINUTES)
    swollen = [120.0 if 30 <= minute < 32 else 100.0 for minute in MINUTES]
    assert script.growth(lines(script, calm, swollen), 60)["memory_growth"] == 1.2
    often = [minute + tenth / 10 for minute in range(60) for tenth in range(1, 10)]
    outlier = [200.0 if abs(minute - 30.5) < 0.01 else 100.0 for minute in often]
    found = script.growth(lines(script, [0.2] * len(often), outlier, often), 60)
    assert found["memory_growth"] == 1.0


def test_the_recording_repeats_in_whole_chunks(script: ModuleType) -> None:
    chunks = list(script.looped(torch.arange(5.0), length=9 / 16_000, chunk_samples=4))
    assert [chunk.tolist() for chunk in chunks] == [[0, 1, 2, 3], [4, 0, 1, 2]]


@pytest.mark.parametrize(("history", "bounded"), [(RecentWords(words=3), True), (KeepAll(), False)])
def test_kept_audio_and_text_are_reported_by_halves(
    history: History, bounded: bool, script: ModuleType, tmp_path: Path
) -> None:
    """Two minutes of repeated words; a session without reference segments."""
    system = StreamingSystem(
        name="scripted",
        backbone=Scripted(),
        policy=AlignAtt(frames=2),
        history=history,
        source_language="en",
        target_language="de",
        chunk_seconds=3.0,
    )
    length, recording = 2 * 60, speak(range(1, 41))
    chunks = script.looped(recording, length=length, chunk_samples=system.chunk_samples)
    sittings = script.Sittings(tmp_path, {}, save_chunks=None)
    script.stream(system, chunks, sittings, length)
    streamed = list(sittings.lines())
    found = script.histories(streamed, 2)
    assert len(streamed) == 40
    if bounded:
        assert found["text_tokens_second_half"] == found["text_tokens_first_half"] == 2 * 3
        assert (
            0
            < found["audio_seconds_second_half"]
            == pytest.approx(found["audio_seconds_first_half"], abs=0.2)
        )
        assert found["audio_seconds_second_half"] < 1
    else:
        assert found["audio_seconds_first_half"] == 60
        assert found["audio_seconds_second_half"] == 2 * 60
        assert found["text_tokens_second_half"] > 1.9 * found["text_tokens_first_half"]


def test_too_short_a_stream_is_refused(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["unbounded.py", "--minutes", "5"])
    with pytest.raises(SystemExit) as left:
        script.main()
    assert left.value.code == 2
    assert "--minutes must be at least 25, not 5" in capsys.readouterr().err


@pytest.fixture(scope="module", params=["streamatt", "infinisst"])
def shipped(request: pytest.FixtureRequest, script: ModuleType) -> tuple[StreamingSystem, Tensor]:
    """A shipped system and talks."""
    cfg = compose("evaluate", [f"system={request.param}"])
    system: StreamingSystem = build(cfg.system)
    system.configure_model()
    return system.eval(), script.recording_of(cfg)


def interrupted(chunks: Iterator[Tensor], after: int) -> Iterator[Tensor]:
    yield from islice(chunks, after)
    raise KeyboardInterrupt


def test_an_interrupted_stream_goes_on_with_the_same_words(
    shipped: tuple[StreamingSystem, Tensor], script: ModuleType, tmp_path: Path
) -> None:
    """Also a finished one, to a greater length; its last chunk is then an ordinary one."""
    system, recording = shipped

    def written(folder: Path, chunks: int, *, after: int | None = None) -> list[tuple[Any, ...]]:
        seconds = chunks * system.chunk_samples / SAMPLE_RATE
        sittings = script.Sittings(folder, {}, save_chunks=3)
        given = script.looped(recording, length=seconds, chunk_samples=system.chunk_samples)
        if after is not None:
            given = interrupted(given, after)
        with suppress(KeyboardInterrupt):
            script.stream(system, given, sittings, seconds)
        return [(line.arrival, line.text, line.audio, line.tokens) for line in sittings.lines()]

    whole = written(tmp_path / "whole", 20)
    assert len(whole) == 20
    assert len({text for _, text, _, _ in whole[9:]}) > 1
    parts = tmp_path / "parts"
    assert written(parts, 20, after=8) == whole[:6]  # one chunk is held until the next one is known
    assert len(written(parts, 11)) == 11
    assert written(parts, 20) == whole

    instance = script.instance_of(list(script.Sittings(parts, {}, save_chunks=3).lines()), system)
    assert instance.text == "".join(text for _, text, _, _ in whole)
    assert instance.source_length == whole[-1][0]


def test_a_folder_belongs_to_one_stream(script: ModuleType, tmp_path: Path) -> None:
    script.Sittings(tmp_path, {"overrides": ["system=streamatt"]}, save_chunks=3)
    with pytest.raises(ZooError, match="name another --folder"):
        script.Sittings(tmp_path, {"overrides": ["system=infinisst"]}, save_chunks=3)


def test_a_session_with_other_objects_is_refused_before_it_is_streamed(
    script: ModuleType, tmp_path: Path
) -> None:
    system = StreamingSystem(
        name="scripted",
        backbone=Scripted(),
        policy=AlignAtt(frames=2),
        history=KeepAll(),
        source_language="en",
        target_language="de",
        chunk_seconds=3.0,
    )
    session = system.open("talk")
    for other in (Path(), lambda: None):
        session.backbone_state = other
        with pytest.raises(ZooError, match="has no --folder"):
            script.Sittings(tmp_path, {}, save_chunks=3).resume(session)
