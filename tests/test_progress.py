"""Progress where nobody watches: at most ten lines."""

import pytest

from zoo.progress import audio_progress, show_progress


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
