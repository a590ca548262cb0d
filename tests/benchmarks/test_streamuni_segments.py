"""Segments are counted where text is cut off, on scripted streams."""

from types import ModuleType

import pytest

from zoo.config import build, compose
from zoo.streaming.session import Session
from zoo.streaming.text import TextStream
from zoo.systems.base import StreamingSystem
from zoo.types import Cut, Instance


def test_cuts_with_words_are_segments(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two segments of 1.6 and 0.8 s with five words, and silence, of frames of 80 ms."""
    cfg = compose("evaluate", ["system=streamuni"])
    system: StreamingSystem = build(cfg.system)
    talks = build(cfg.data).talks("tst", limit=1)

    def simulate(_: object, streams: object, *, on_chunk: object) -> list[Instance]:
        text = TextStream(decode=lambda ids: "", separator=" ")
        language = system.target_language
        session = Session(
            talk="",
            source_language=language,
            target_language=language,
            frame_samples=1280,
            text_stream=text,
        )
        session.audio = session.audio.new_zeros(48_000)
        for cut in (Cut(frames=5), Cut(tokens=3, frames=20), Cut(tokens=2, frames=10)):
            session.forget(cut)
        assert session.audio_start == 35 * 1280
        units = ("a", "b", "c", "d", "e")
        return [Instance(0, "", 3.0, "", units, delays=(1.0,) * 5, elapsed=(1.0,) * 5)]

    monkeypatch.setattr(script, "simulate", simulate)
    assert script.segments(system, talks) == {
        "segments": 2,
        "mean_seconds": 1.2,
        "longest_seconds": 1.6,
        "words": 2.5,
    }
