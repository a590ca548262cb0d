"""Segments between pauses by hand: begin, end, and the audio kept in silence."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.history.streams import FRAME, session
from zoo.base.errors import ZooError
from zoo.base.espeak.speech import Speaker
from zoo.base.types import SAMPLE_RATE, Cut, SpeechChunk
from zoo.history.voice_activity import (
    RENEWED,
    WINDOW,
    Silero,
    VoiceActivity,
    _silero_network,
    silero,
)
from zoo.streaming.session import Session


@pytest.mark.parametrize(
    "make",
    [
        lambda: VoiceActivity(min_seconds=9, max_seconds=8),
        lambda: VoiceActivity(min_seconds=0),
        lambda: VoiceActivity(pause_seconds=0),
        lambda: VoiceActivity(pad_seconds=-1),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ZooError, match="VoiceActivity needs"):
        make()


def window_seconds(windows: int) -> float:
    return windows * WINDOW / SAMPLE_RATE


def activity(**settings: Any) -> VoiceActivity:
    """Segments of 4 to 8 windows, a pause of one, no padding; samples are speech probabilities."""
    defaults = {
        "min_seconds": window_seconds(4),
        "max_seconds": window_seconds(8),
        "pause_seconds": window_seconds(1),
        "pad_seconds": 0.0,
        "detector": lambda: lambda window: float(window[0]),
    }
    return VoiceActivity(**{**defaults, **settings})


def stream_of(
    history: VoiceActivity, chances: Sequence[float], frame_samples: int = WINDOW
) -> Session:
    """A stream of one window per probability."""
    stream = session(frame_samples=frame_samples)
    stream.history_state = history.open()
    stream.receive(SpeechChunk(torch.tensor(list(chances)).repeat_interleave(WINDOW)))
    return stream


@pytest.mark.parametrize(
    ("chances", "end"),
    [
        ([0.9, 0.9, 0.9, 0.9, 0.05, 0.9], 5),  # the first pause
        ([0.9, 0.05, 0.9, 0.9, 0.9], None),  # a pause too early
        ([0.9, 0.9, 0.9, 0.05], 4),  # just long enough
        ([0.9, 0.9, 0.9, 0.9, 0.9], None),  # no pause yet
        # no pause: at the quietest window after the minimum
        ([0.9, 0.1, 0.9, 0.9, 0.3, 0.2, 0.8, 0.9], 6),
        ([0.1] * 5, None),  # the threshold itself is speech
    ],
)
def test_segment_ends(chances: list[float], end: int | None) -> None:
    history = activity()
    assert history.boundary(stream_of(history, chances)) == end


@pytest.mark.parametrize(("windows", "end"), [(1, 5), (2, 8), (2.5, 12), (3, 12), (4, None)])
def test_a_pause_must_last(windows: float, end: int | None) -> None:
    history = activity(pause_seconds=windows * WINDOW / SAMPLE_RATE, max_seconds=1)
    # of one, two and three windows
    pauses = [0.9] * 4 + [0.0] + [0.9] + [0.0] * 2 + [0.9] + [0.0] * 3 + [0.9]
    assert history.boundary(stream_of(history, pauses)) == end
    longer = activity(pause_seconds=(5 * WINDOW + 1) / SAMPLE_RATE)  # than five silent windows
    assert longer.boundary(stream_of(longer, [0.0] * 5)) is None


@pytest.mark.parametrize(
    ("chances", "pad", "onset"),
    [
        ([0.0, 0.0, 0.0, 0.9], 0, 3),
        ([0.0, 0.0, 0.0, 0.9], 2, 1),
        ([0.0, 0.0, 0.0, 0.9], 9, 0),
        ([0.9, 0.0, 0.9], 0, 0),
        ([0.0, 0.1], 0, 1),  # the threshold itself is speech
        ([0.0] * 9, 0, None),  # however long the silence
        ([], 0, None),
    ],
)
def test_a_segment_begins_with_the_first_voice(
    chances: list[float], pad: int, onset: int | None
) -> None:
    history = activity(pad_seconds=window_seconds(pad))
    assert history.onset(stream_of(history, chances)) == onset


@pytest.mark.parametrize("frame_samples", [160, 640, 1600])
def test_an_onset_is_rounded_down_to_a_frame(frame_samples: int) -> None:
    history = activity()
    onset = history.onset(stream_of(history, [0.0] * 5 + [0.9], frame_samples))
    assert onset == 5 * WINDOW // frame_samples


def test_within_a_segment_silence_is_kept() -> None:
    history = activity()
    stream = stream_of(history, [0.9, 0.0, 0.0])
    assert history.onset(stream) == 0
    stream.forget(Cut(frames=1))  # a policy has dropped all speech
    assert history.onset(stream) == 0
    assert not history.trim(stream, None)


def test_silence_between_segments_leaves_only_the_padding() -> None:
    history = activity(pad_seconds=window_seconds(2))
    stream = stream_of(history, [])
    for _ in range(40):
        stream.receive(SpeechChunk(torch.zeros(1000)))
        assert history.onset(stream) is None
        stream.forget(history.trim(stream, None))
        assert stream.audio.numel() < 4 * WINDOW
        # The next window to be scored may begin a segment, which has two windows of padding.
        assert stream.audio_start <= max(stream.history_state.scored - 2 * WINDOW, 0)
    assert len(stream.history_state.windows) <= 6
    loud = stream.received_samples
    stream.receive(SpeechChunk(torch.ones(1000)))
    onset = history.onset(stream)
    assert onset is not None
    begin = stream.audio_start + onset * WINDOW
    assert loud - 4 * WINDOW <= begin <= loud - WINDOW  # the padding is still there


def test_a_segment_is_not_closed_within_the_audio_already_scored() -> None:
    history = activity()
    stream = stream_of(history, [0.9] * 4 + [0.1, 0.1])
    assert history.boundary(stream) is None
    stream.receive(SpeechChunk(torch.tensor([0.5, 0.9]).repeat_interleave(WINDOW)))
    # the windows before were quieter, but words beyond them may be written
    assert history.boundary(stream) == 7


def test_a_segment_is_closed_when_no_other_length_is_allowed() -> None:
    history = activity(max_seconds=window_seconds(4))
    assert history.boundary(stream_of(history, [0.9] * 5)) == 4


def test_without_a_maximum_only_a_pause_closes_a_segment() -> None:
    history = activity(max_seconds=None)
    stream = stream_of(history, [0.9] * 1000)
    assert history.boundary(stream) is None
    stream.receive(SpeechChunk(torch.tensor([0.0]).repeat_interleave(WINDOW)))
    assert history.boundary(stream) == 1001


def test_windows_are_scored_once_whatever_the_chunks() -> None:
    scored: list[Tensor] = []
    history = activity(detector=lambda: lambda window: scored.append(window) or 0.9)
    stream = session(frame_samples=WINDOW)
    stream.history_state = history.open()
    samples = torch.arange(3 * WINDOW, dtype=torch.float32)
    for chunk in samples.split(700):
        stream.receive(SpeechChunk(chunk))
        history.boundary(stream)
    assert torch.equal(torch.cat(scored), samples)


def test_after_a_flush_windows_count_from_what_is_kept() -> None:
    history = activity()
    stream = stream_of(history, [0.9] * 4 + [0.0] + [0.9] * 4 + [0.0] + [0.9])
    ends = []
    while (end := history.boundary(stream)) is not None:
        ends.append(end)
        stream.forget(Cut(frames=end))
    assert ends == [5, 5]
    assert stream.kept_frames == 1


@pytest.mark.parametrize("frame_samples", [160, 640, 1600])
def test_a_boundary_is_rounded_up_to_a_frame_and_the_next_segment_still_ends(
    frame_samples: int,
) -> None:
    history = activity()
    stream = stream_of(history, [0.9] * 4 + [0.0] + [0.9] * 6 + [0.0], frame_samples)
    end = history.boundary(stream)
    assert end == -(-5 * WINDOW // frame_samples)
    stream.forget(Cut(frames=end))
    second = history.boundary(stream)
    assert second is not None
    assert 0 < second <= stream.kept_frames


def test_speech_of_a_flushed_segment_does_not_count_for_the_next() -> None:
    history = activity()
    stream = stream_of(history, [0.9] * 4 + [0.0] * 5)
    assert history.onset(stream) == 0
    assert history.boundary(stream) == 5
    stream.forget(Cut(frames=5))
    assert history.onset(stream) is None  # four silent windows, without speech
    assert len(stream.history_state.windows) == 4


def test_scoring_goes_on_behind_a_cut_that_went_further() -> None:
    scored: list[Tensor] = []
    history = activity(detector=lambda: lambda window: scored.append(window) or 0.9)
    stream = session(frame_samples=1600)
    stream.history_state = history.open()
    samples = torch.arange(6000, dtype=torch.float32)
    stream.receive(SpeechChunk(samples[:3000]))
    history.boundary(stream)
    stream.forget(Cut(frames=2))  # all 3000 samples, though only 2560 were scored
    stream.receive(SpeechChunk(samples[3000:]))
    history.boundary(stream)
    assert [int(window[0]) for window in scored[5:]] == [3000, 3512, 4024, 4536, 5048]


def test_silero_leaves_the_threads_of_the_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "silero_vad"]:
        monkeypatch.delitem(sys.modules, name)
    _silero_network.cache_clear()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        silero()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_silero_detects_no_speech_in_silence_and_streams_do_not_mix() -> None:
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


def test_a_stream_has_a_network_as_it_is_loaded_whatever_other_streams_received() -> None:
    import silero_vad

    noise = torch.randn(10, WINDOW, generator=torch.Generator().manual_seed(0)) * 0.1
    loaded = Silero(silero_vad.load_silero_vad(onnx=False))
    expected = [loaded(window) for window in noise]
    other = silero()
    for window in reversed(noise):
        other(window)
    stream = silero()
    assert [stream(window) for window in noise] == expected


def test_silero_finds_the_pause_between_two_spoken_sentences() -> None:
    words = ["the", "old", "man", "reads", "a", "long", "book", "in", "the", "garden"]
    with Speaker() as speaker:
        utterance = speaker.speak(words, voice="en-us", rate=160, pitch=50, seed=1)
    speech = torch.as_tensor(utterance.samples, dtype=torch.float32)
    pause = torch.zeros(SAMPLE_RATE)
    history = VoiceActivity(min_seconds=speech.numel() / SAMPLE_RATE - 0.5, max_seconds=30)
    stream = session()
    stream.history_state = history.open()
    stream.receive(SpeechChunk(torch.cat([speech, pause, speech])))
    end = history.boundary(stream)
    assert end is not None
    assert speech.numel() - 0.5 * SAMPLE_RATE <= end * FRAME <= speech.numel() + pause.numel()


def test_no_segment_is_longer_than_the_longest_allowed_where_windows_do_not_fit_it() -> None:
    """Whisper's input of 30 s is not a whole number of windows."""
    history = activity(max_seconds=window_seconds(8) - 0.01)
    stream = stream_of(history, [0.9] * 7)
    assert history.onset(stream) == 0
    assert history.boundary(stream) in (4, 5, 6, 7)


def test_long_speech_without_output_is_returned_once() -> None:
    """312.5 voiced windows are 10 s; those below the probability of speech do not count."""
    history = activity(max_seconds=None)
    stream = stream_of(history, [0.9] * 300 + [0.2] * 50)
    history.boundary(stream)
    assert history.speech_without_output(stream, has_output=False) == 0

    stream.receive(SpeechChunk(torch.full((13 * WINDOW,), 0.9)))
    history.boundary(stream)
    assert history.speech_without_output(stream, has_output=False) == window_seconds(313)
    assert history.speech_without_output(stream, has_output=False) == 0

    stream.receive(SpeechChunk(torch.full((400 * WINDOW,), 0.9)))
    history.boundary(stream)
    assert history.speech_without_output(stream, has_output=True) == 0
    assert history.speech_without_output(stream, has_output=False) == 0


def test_the_state_of_silero_begins_anew_in_pauses_with_the_pause() -> None:
    class Network:
        """Returns the first sample of each window; records what follows each reset."""

        def __init__(self) -> None:
            self.windows: list[list[float]] = [[]]

        def __call__(self, window: Tensor, rate: int) -> Tensor:
            self.windows[-1].append(float(window[0]))
            return window[0]

        def reset_states(self) -> None:
            self.windows.append([])

    network = Network()
    detector = Silero(network)
    chances = [0.75, *[0.0] * 10, 0.5, *[0.0625] * (2 * RENEWED - 1), 0.125]
    returned = [detector(torch.full((WINDOW,), chance)) for chance in chances]
    assert returned == chances
    before, after = network.windows  # a pause of 10 windows is too short for a new state
    assert before == chances[: 12 + RENEWED]
    assert after == [0.0625] * RENEWED + chances[12 + RENEWED :]
