"""Histories that drop audio without speech: Silero VAD in front of StreamAtt's selection."""

import pytest
import torch

from tests.history.streams import FRAME, answered, session
from zoo.base.errors import ZooError
from zoo.base.espeak.speech import Speaker
from zoo.base.types import SAMPLE_RATE, Cut, Frames, SpeechChunk
from zoo.history.recent_words import RecentWords
from zoo.history.speech import Speech
from zoo.streaming.session import Session

WORDS = ["the", "old", "man", "reads", "a", "long", "book", "in", "the", "garden"]
PAD: Frames = SAMPLE_RATE // 2 // FRAME


def spoken() -> torch.Tensor:
    with Speaker() as speaker:
        utterance = speaker.speak(WORDS, voice="en-us", rate=160, pitch=50, seed=1)
    return torch.as_tensor(utterance.samples, dtype=torch.float32)


def opened(history: RecentWords) -> Session:
    stream = session()
    stream.history_state = history.open()
    return stream


def test_silence_is_dropped_and_a_pause_ends_the_text() -> None:
    history = RecentWords(words=4, speech="silero", restart=None)
    stream = opened(history)
    stream.receive(SpeechChunk(torch.zeros(3 * SAMPLE_RATE)))
    assert history.onset(stream) is None
    cut = history.trim(stream, None)
    assert stream.kept_frames - PAD - 1 <= cut.frames <= stream.kept_frames - PAD
    stream.forget(cut)

    speech = spoken()
    stream.receive(SpeechChunk(torch.cat([speech, torch.zeros(SAMPLE_RATE)])))
    onset = history.onset(stream)
    assert onset is not None
    assert onset <= PAD
    assert history.boundary(stream) is None  # a pause of 1 s
    stream.prefix_ids = torch.arange(5)
    frames = stream.kept_frames
    answer = answered("wwwww", [2, 4, 6, 8, 10], prefix=5, frames=frames)
    assert history.trim(stream, answer) == Cut(tokens=1, frames=4)  # StreamAtt's selection

    stream.receive(SpeechChunk(torch.zeros(2 * SAMPLE_RATE)))
    end = history.boundary(stream)
    assert end is not None
    assert end * FRAME >= speech.numel() + SAMPLE_RATE  # with the pause


def test_speech_after_a_kept_sample_is_counted() -> None:
    history = RecentWords(words=4, speech=Speech(), restart=None)
    stream = opened(history)
    speech = spoken()
    pause = torch.zeros(SAMPLE_RATE)
    stream.receive(SpeechChunk(torch.cat([speech, pause])))
    history.onset(stream)
    segments = history._segments
    assert segments is not None
    seconds = speech.numel() / SAMPLE_RATE
    assert 0.5 * seconds <= segments.speech_after(stream, 0) <= seconds + 0.5
    assert segments.speech_after(stream, speech.numel() + SAMPLE_RATE // 2) == 0


def test_impossible_values_are_refused() -> None:
    for values in ({"pause_seconds": 0}, {"pad_seconds": -1}, {"threshold": 1.5}):
        with pytest.raises(ZooError, match=f"speech.* {next(iter(values))}"):
            Speech(**values)
