"""Speech of a long stream is in files, with the samples that were emitted."""

import sys
import tempfile
from typing import Any

import psutil
import pytest
import torch

from zoo.streaming import spool
from zoo.streaming.spool import SpeechSpool


def test_speech_after_the_first_block_is_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "BLOCK", 100)
    kept = SpeechSpool()
    emitted = [torch.randn(size) for size in (60, 30, 30, 10, 80, 150, 40, 0, 100)]
    found = []
    for place, samples in enumerate(emitted):
        found.append(kept.add(samples.clone()))
        assert kept.files == [0, 0, 1, 1, 2, 3, 4, 4, 5][place]
    for samples, expected in zip(found, emitted, strict=True):
        assert torch.equal(samples, expected)


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is that of Linux")
def test_two_hours_take_the_memory_of_minutes() -> None:
    kept, process = SpeechSpool(), psutil.Process()
    minute = torch.randn(60 * 16_000)
    found = [kept.add(minute.clone()) for _ in range(20)]
    before = process.memory_info().rss
    found += [kept.add(minute * place) for place in range(100)]
    grown = process.memory_info().rss - before  # bytes; the speech has 384 MB
    assert kept.files == 11
    assert grown < 150e6
    assert torch.equal(found[25], minute * 5)
    assert torch.equal(found[-1], minute * 99)


def test_without_space_speech_is_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool, "BLOCK", 10)
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    kept = SpeechSpool()
    emitted = [torch.randn(8) for _ in range(4)]
    found = [kept.add(samples.clone()) for samples in emitted]
    assert kept.files == 0
    for samples, expected in zip(found, emitted, strict=True):
        assert torch.equal(samples, expected)
