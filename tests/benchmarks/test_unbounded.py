"""The windows and ratios of the unbounded benchmark, computed by hand."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.contract.scripted import Scripted, speak
from tests.fixtures.streams import new_system
from zoo.history.base import History
from zoo.history.keep_all import KeepAll
from zoo.history.recent_words import RecentWords
from zoo.policies.alignatt import AlignAtt

MINUTES = [minute + half for minute in range(60) for half in (0.25, 0.75)]


def lines(
    script: ModuleType, compute: list[float], memory: list[float], arrivals: list[float] = MINUTES
) -> list[Any]:
    """A line per chunk; a chunk takes half of its compute on a CPU."""
    return [
        script.ChunkLine(minute * 60, seconds, seconds / 2, used, 0.0, 0)
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
    history: History, bounded: bool, script: ModuleType
) -> None:
    """Two minutes of repeated words; a session without reference segments."""
    system = new_system(Scripted(), AlignAtt(frames=2), history, chunk_seconds=3.0)
    length, recording = 2 * 60, speak(range(1, 41))
    chunks = script.looped(recording, length=length, chunk_samples=system.chunk_samples)
    streamed, instance = script.stream(system, chunks, length)
    assert instance.source_length == streamed[-1].arrival == length
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
