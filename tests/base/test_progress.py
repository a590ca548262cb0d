"""Progress: a bar on a terminal, and at most ten lines elsewhere."""

import pytest

from zoo.base.progress import audio_progress, show_progress


def test_items_are_counted_in_at_most_ten_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "zoo")
    assert list(show_progress(iter(range(25)), total=25, title="Work")) == list(range(25))
    assert len(caplog.messages) == 10
    assert (caplog.messages[0], caplog.messages[-1]) == ("Work: 3 of 25", "Work: 25 of 25")


def test_audio_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "zoo")
    with audio_progress("system", 61.2) as report:
        report(30.0)
    assert caplog.messages == ["system: 61 s of audio"]


def test_a_terminal_shows_audio_once_in_a_bar(
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level("INFO", "zoo")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes any stream for a terminal
    with audio_progress("system", 61.2) as report:
        report(30.0)
        report(31.2)
    assert "61/61 s" in capsys.readouterr().err
    assert caplog.messages == []
