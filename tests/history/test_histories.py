"""Each history, asked by hand: what it cuts and where a segment ends."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.data.minitalks.speech import Speaker
from zoo.errors import ZooError
from zoo.history.keep_all import KeepAll
from zoo.history.recent_words import RecentWords
from zoo.history.voice_activity import WINDOW, VoiceActivity, silero
from zoo.languages import language
from zoo.streaming.session import Session
from zoo.streaming.text import TextStream
from zoo.types import SAMPLE_RATE, Cut, Hypothesis, SpeechChunk

FRAME = 1600  # 100 ms


def session(frames: int = 0, *, prefix: int = 0, frame_samples: int = FRAME) -> Session:
    """A stream that has heard and written so much."""
    text = TextStream(decode=lambda ids: "", separator=" ")
    made = Session(talk="talk", source=language("en"), target=language("de"), frame_samples=frame_samples, text=text)
    made.receive(SpeechChunk(torch.zeros(frames * frame_samples)))
    made.prefix = torch.arange(prefix)
    return made


def answered(starts: str, attended: Sequence[int], *, prefix: int = 0, frames: int = 20) -> Hypothesis:
    """``starts``: "w" where a word begins, "." where it goes on; ``prefix``: before the write."""
    return Hypothesis(
        token_ids=torch.arange(prefix, len(starts)),
        word_starts=torch.tensor([start == "w" for start in starts]),
        prefix=prefix,
        alignment=torch.eye(frames)[list(attended)],
    )


def test_keep_all_keeps_all() -> None:
    stream = session(1000, prefix=50)
    assert KeepAll().boundary(stream) is None
    assert not KeepAll().trim(stream, answered("w" * 50, [0] * 50))


@pytest.mark.parametrize(
    ("starts", "attended", "written", "cut"),
    [
        ("w.ww", [3, 4, 8, 9], 4, Cut(tokens=2, frames=8)),  # the first word goes, audio to the next one's frame
        ("w.ww", [3, 4, 9, 8], 4, Cut(tokens=2, frames=8)),  # ... to the earliest frame of those kept
        ("w.w.", [3, 4, 8, 9], 4, Cut()),  # two words are kept: nothing goes, though audio could
        ("www.w", [1, 4, 6, 2, 0], 4, Cut(tokens=1, frames=2)),  # the last token is not written: its frame is no matter
        ("wwww", [5, 6, 0, 0], 4, Cut(tokens=2, frames=0)),  # text may go where no audio can
        (".www", [0, 1, 5, 6], 4, Cut(tokens=2, frames=5)),  # the prefix begins within a word, dropped by an old cut
    ],
)
def test_recent_words_cuts_text_then_the_audio_that_no_kept_word_attends_to(
    starts: str, attended: list[int], written: int, cut: Cut
) -> None:
    stream = session(20, prefix=written)
    assert RecentWords(words=2).trim(stream, answered(starts, attended, prefix=1)) == cut


def test_recent_words_cuts_nothing_when_nothing_was_asked() -> None:
    assert RecentWords(words=2).trim(session(20, prefix=9), None) == Cut()


@pytest.mark.parametrize(("frames", "dropped"), [(287, 0), (288, 0), (289, 1), (500, 212)])
def test_recent_words_caps_the_audio(frames: int, dropped: int) -> None:
    assert RecentWords(words=2).trim(session(frames), None) == Cut(frames=dropped)


def test_the_cap_does_not_give_back_what_the_words_cut() -> None:
    history = RecentWords(words=1, max_seconds=1.9)
    assert history.trim(session(20, prefix=2), answered("ww", [0, 7])) == Cut(tokens=1, frames=7)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RecentWords(words=0),
        lambda: RecentWords(words=1, max_seconds=0),
        lambda: VoiceActivity(min_seconds=9, max_seconds=8),
        lambda: VoiceActivity(min_seconds=0),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ZooError, match="needs"):
        make()


def window_seconds(windows: int) -> float:
    return windows * WINDOW / SAMPLE_RATE


def activity(**settings: Any) -> VoiceActivity:
    """Segments of 4 to 8 windows, 6 without speech; a sample says how likely speech is."""
    defaults = {
        "min_seconds": window_seconds(4),
        "max_seconds": window_seconds(8),
        "max_unvoiced_seconds": window_seconds(6),
        "voice": lambda: lambda window: float(window[0]),
    }
    return VoiceActivity(**{**defaults, **settings})


def listening(history: VoiceActivity, chances: Sequence[float], frame_samples: int = WINDOW) -> Session:
    """A stream that hears one window per probability."""
    stream = session(frame_samples=frame_samples)
    stream.history = history.open()
    stream.receive(SpeechChunk(torch.tensor(list(chances)).repeat_interleave(WINDOW)))
    return stream


@pytest.mark.parametrize(
    ("chances", "end"),
    [
        ([0.9, 0.9, 0.9, 0.9, 0.05, 0.9], 5),  # the first pause
        ([0.9, 0.05, 0.9, 0.9, 0.9], None),  # a pause too early
        ([0.9, 0.9, 0.9, 0.05], 4),  # just long enough
        ([0.9, 0.9, 0.9, 0.9, 0.9], None),  # no pause yet
        ([0.9, 0.1, 0.9, 0.9, 0.3, 0.2, 0.8, 0.9], 6),  # no pause: at the quietest window after the minimum
        ([0.0, 0.0, 0.0, 0.0, 0.0], None),  # nothing said: wait longer
        ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 6),  # ... but not for ever
        ([0.0, 0.0, 0.0, 0.9, 0.0], 5),
        ([0.1] * 5, None),  # the threshold itself is speech
    ],
)
def test_segment_ends(chances: list[float], end: int | None) -> None:
    history = activity()
    assert history.boundary(listening(history, chances)) == end


def test_a_segment_is_closed_when_no_other_length_is_allowed() -> None:
    history = activity(max_seconds=window_seconds(4))
    assert history.boundary(listening(history, [0.9] * 5)) == 4


def test_windows_are_scored_once_whatever_the_chunks() -> None:
    scored: list[Tensor] = []
    history = activity(voice=lambda: lambda window: scored.append(window) or 0.9)
    stream = session(frame_samples=WINDOW)
    stream.history = history.open()
    heard = torch.arange(3 * WINDOW, dtype=torch.float32)
    for chunk in heard.split(700):
        stream.receive(SpeechChunk(chunk))
        history.boundary(stream)
    assert torch.equal(torch.cat(scored), heard)


def test_after_a_flush_windows_count_from_what_is_kept() -> None:
    history = activity()
    stream = listening(history, [0.9] * 4 + [0.0] + [0.9] * 4 + [0.0] + [0.9])
    ends = []
    while (end := history.boundary(stream)) is not None:
        ends.append(end)
        stream.forget(Cut(frames=end))
    assert ends == [5, 5]
    assert stream.kept_frames == 1


@pytest.mark.parametrize("frame_samples", [160, 640, 1600])
def test_a_boundary_is_rounded_up_to_a_frame_and_the_next_segment_still_ends(frame_samples: int) -> None:
    history = activity()
    stream = listening(history, [0.9] * 4 + [0.0] + [0.9] * 6 + [0.0], frame_samples)
    end = history.boundary(stream)
    assert end == -(-5 * WINDOW // frame_samples)
    stream.forget(Cut(frames=end))
    second = history.boundary(stream)
    assert second is not None
    assert 0 < second <= stream.kept_frames


def test_speech_of_a_flushed_segment_does_not_count_for_the_next() -> None:
    history = activity()
    stream = listening(history, [0.9] * 4 + [0.0] * 5)
    assert history.boundary(stream) == 5
    stream.forget(Cut(frames=5))
    assert history.boundary(stream) is None  # four silent windows, in which nothing was said
    assert len(stream.history.windows) == 4


def test_scoring_goes_on_behind_a_cut_that_went_further() -> None:
    scored: list[Tensor] = []
    history = activity(voice=lambda: lambda window: scored.append(window) or 0.9)
    stream = session(frame_samples=1600)
    stream.history = history.open()
    heard = torch.arange(6000, dtype=torch.float32)
    stream.receive(SpeechChunk(heard[:3000]))
    history.boundary(stream)
    stream.forget(Cut(frames=2))  # all 3000 samples, though only 2560 were scored
    stream.receive(SpeechChunk(heard[3000:]))
    history.boundary(stream)
    assert [int(window[0]) for window in scored[5:]] == [3000, 3512, 4024, 4536, 5048]


def test_silero_hears_no_speech_in_silence_and_streams_do_not_mix() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(10, WINDOW, generator=generator) * 0.1
    alone = silero()
    expected = [alone(window) for window in noise]
    first, second = silero(), silero()
    mixed = []
    for window in noise:
        second(torch.zeros(WINDOW))
        mixed.append(first(window))
    assert mixed == pytest.approx(expected, abs=1e-6)
    assert all(second(torch.zeros(WINDOW)) < 0.1 for _ in range(5))


def test_silero_finds_the_pause_between_two_spoken_sentences() -> None:
    words = ["the", "old", "man", "reads", "a", "long", "book", "in", "the", "garden"]
    with Speaker() as speaker:
        said = speaker.speak(words, voice="en-us", rate=160, pitch=50, seed=1)
    speech = torch.as_tensor(said.samples, dtype=torch.float32)
    pause = torch.zeros(SAMPLE_RATE)
    history = VoiceActivity(min_seconds=speech.numel() / SAMPLE_RATE - 0.5, max_seconds=30)
    stream = session()
    stream.history = history.open()
    stream.receive(SpeechChunk(torch.cat([speech, pause, speech])))
    end = history.boundary(stream)
    assert end is not None
    assert speech.numel() - 0.5 * SAMPLE_RATE <= end * FRAME <= speech.numel() + pause.numel()
