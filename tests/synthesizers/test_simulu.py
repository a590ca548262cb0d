"""SimulU over a scripted network: every token has as many units as its id, unit = its id."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from tests.contract.scripted import FRAME, OPENING, Scripted, speak
from tests.fixtures.streams import new_system
from zoo.backbones.base import Speaking, Units, UnitSpeech
from zoo.base.errors import ZooError
from zoo.base.languages import Language, language
from zoo.base.types import Action, Hypothesis, Samples, SpeechChunk, StreamEvent
from zoo.history.recent_words import RecentWords
from zoo.policies.alignatt import AlignAtt
from zoo.streaming.session import Session, SpeechRequest
from zoo.streaming.text import TextStream
from zoo.synthesizers.simulu import SimulU, fade, without_oldest

TALK = [3, 7, 51, 4, 9, 60]


class Speaker(Scripted):
    """Speaks a state s as s % 3 + 1 units of the number s.

    A unit lasts s % 2 + 1 frames of 4 samples, all equal to s.

    Attention is on the token's own state (or, ``predicting``, on the one before).
    """

    unit_samples: ClassVar[Samples] = 4

    def __init__(self, *, predicting: bool = False) -> None:
        super().__init__()
        self.back = int(predicting)
        self.asked: list[tuple[int, bool]] = []

    def load(self) -> None:
        """Nothing to read."""

    def check_speech(self, language: Language) -> None:
        """Any."""

    def generate_units(self, requests: Sequence[SpeechRequest], *, close: bool) -> list[Units]:
        self.asked.append((len(requests), close))
        return [self.units_of(request, close) for request in requests]

    def units_of(self, request: SpeechRequest, close: bool) -> Units:
        hypothesis = request.hypothesis
        assert hypothesis.decoder_states is not None
        states = hypothesis.decoder_states[
            : len(hypothesis.decoder_states) - hypothesis.num_new_tokens + request.tokens, 0
        ].long()
        counts = states[OPENING:] % 3 + 1
        places = torch.arange(OPENING, len(states)).repeat_interleave(counts) - self.back
        return Units(
            states[OPENING:].repeat_interleave(counts),
            torch.eye(len(states) + close)[places],
            OPENING,
        )

    def vocode(
        self, units: Sequence[Tensor], language: Language, *, needed: Sequence[range] | None = None
    ) -> list[UnitSpeech]:
        assert language.code == "de"
        assert needed is not None
        return [sound(ids, part) for ids, part in zip(units, needed, strict=True)]


def sound(ids: Tensor, needed: range) -> UnitSpeech:
    """The speech of units; the samples of those that are not needed are 0."""
    durations = ids % 2 + 1
    audible = torch.tensor([index in needed for index in range(len(ids))])
    samples = (ids * audible).repeat_interleave(durations * Speaker.unit_samples)
    return UnitSpeech(samples.float(), durations)


def spoken(tokens: Sequence[int]) -> list[float]:
    """Samples of tokens by the rule of the script."""
    return [float(token) for token in tokens for _ in range((token % 3 + 1) * (token % 2 + 1) * 4)]


def request(
    kept: Sequence[int], new: Sequence[int], *, waiting: Sequence[int] = (), ended: bool = False
) -> SpeechRequest:
    """``new`` is written after ``kept``; the hypothesis also has tokens that wait."""
    session = Session(
        "talk", language("en"), language("de"), FRAME, TextStream(decode=str, separator=" ")
    )
    session.prefix_ids, session.source_ended = torch.tensor(kept, dtype=torch.long), ended
    ids = torch.tensor([*kept, *new, *waiting])
    states = torch.cat([torch.full((OPENING,), -1), ids]).float()[:, None]
    starts = torch.ones(len(ids), dtype=torch.bool)
    hypothesis = Hypothesis(
        ids[len(kept) :], starts, prefix_length=len(kept), decoder_states=states
    )
    return SpeechRequest(session, hypothesis, len(new), "text")


def voiced(backbone: Speaker, **options: Any) -> SimulU:
    synthesizer = SimulU(**options)
    synthesizer.load(backbone)
    return synthesizer


def test_the_script_synthesises_speech() -> None:
    assert isinstance(Speaker(), Speaking)


@pytest.mark.parametrize("options", [{}, {"assignment": "monotone"}, {"discard": "split"}])
def test_only_the_new_tokens_are_synthesised(options: dict[str, Any]) -> None:
    simulu = voiced(Speaker(), **options)
    waves = simulu.synthesize(
        [request([5, 8], [4, 7], waiting=[9]), request([], [6]), request([3], [2])]
    )
    assert [wave.tolist() for wave in waves] == [spoken([4, 7]), spoken([6]), spoken([2])]


def test_alignment_is_read_at_the_position_that_predicts_the_token() -> None:
    [wave] = voiced(Speaker(predicting=True), offset=-1).synthesize([request([5, 8], [4, 7])])
    assert wave.tolist() == spoken([4, 7])
    [wave] = voiced(Speaker(predicting=True), offset=0).synthesize([request([5, 8], [4, 7])])
    assert wave.tolist() == spoken([7])


def test_new_tokens_without_a_unit_are_silent() -> None:
    class Silent(Speaker):
        """Has units for history only."""

        def units_of(self, request: SpeechRequest, close: bool) -> Units:
            return super().units_of(replace(request, tokens=0), close)

    simulu = voiced(Silent())
    assert [
        wave.numel() for wave in simulu.synthesize([request([5, 8], [4]), request([], [4])])
    ] == [0, 0]


def test_the_units_discarded_equal_the_papers_formula() -> None:
    ids = torch.tensor([5, 5, 5, 4, 4])  # three units of history, which last two frames each
    [wave] = voiced(Speaker(), counting="units").synthesize([request([5], [4])])
    assert wave.tolist() == sound(ids, range(len(ids))).samples[3 * 4 :].tolist()


def test_without_context_only_the_states_of_the_opening_and_the_new_tokens_are_fed() -> None:
    before = request([5, 8], [4, 7], waiting=[9])
    states = without_oldest(before, 2).hypothesis.decoder_states
    assert states is not None
    assert states[:, 0].tolist() == [-1, -1, 4, 7, 9]
    [wave] = voiced(Speaker(), context="none").synthesize([before])
    assert wave.tolist() == spoken([4, 7])
    assert before.hypothesis.prefix_length == 2


def test_units_that_stop_at_their_maximum_are_an_event_of_their_stream() -> None:
    class Breathless(Speaker):
        """Stops before the end of a text of more than two tokens."""

        def units_of(self, request: SpeechRequest, close: bool) -> Units:
            units = super().units_of(request, close)
            return replace(units, truncated=request.tokens > 2)

    requests = [request([5], [4, 7]), request([], [4, 7, 9])]
    requests[1].session.audio_start = 8_000
    voiced(Breathless()).synthesize(requests)
    assert [one.session.events for one in requests] == [[], [StreamEvent("unit_limit", 0.5)]]


@pytest.mark.parametrize(
    ("close", "asked"),
    [("always", [(3, True)]), ("never", [(3, False)]), ("at_end", [(1, True), (2, False)])],
)
def test_texts_are_closed_as_asked_and_answered_in_order(
    close: str, asked: list[tuple[int, bool]]
) -> None:
    backbone = Speaker()
    requests = [request([5], [4]), request([5], [7], ended=True), request([], [6])]
    waves = voiced(backbone, close=close).synthesize(requests)
    assert [wave.tolist() for wave in waves] == [spoken([4]), spoken([7]), spoken([6])]
    assert backbone.asked == asked


def test_both_ends_of_a_write_can_be_faded() -> None:
    assert fade(torch.ones(6), 2).tolist() == [0, 0.5, 1, 1, 0.5, 0]
    assert fade(torch.ones(3), 8).tolist() == [0, 1, 0]
    assert fade(torch.ones(3), 0).tolist() == [1, 1, 1]
    [wave] = voiced(Speaker(), fade_seconds=2 / 16_000).synthesize([request([5], [4])])
    assert wave.tolist() == [0, 2, *[4.0] * 4, 2, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offset": 1}, r"Unknown synthesizer\.offset '1'; choose one of: 0, -1"),
        ({"assignment": "best"}, "choose one of: argmax, monotone"),
        ({"normalisation": "softmax"}, "choose one of: none, share, z_score"),
        ({"discard": "all"}, "choose one of: count, last, first, keep_new, split"),
        ({"counting": "words"}, "choose one of: durations, units"),
        ({"close": "true"}, "choose one of: always, never, at_end"),
        ({"context": "text"}, "choose one of: history, none"),
        ({"fade_seconds": -1}, "at least 0, not -1"),
        (
            {"counting": "units", "discard": "keep_new"},
            "choose a synthesizer.discard other than keep_new",
        ),
        (
            {"discard": "split", "assignment": "monotone"},
            "does not use synthesizer.assignment=monotone; choose argmax",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        SimulU(**options)


def stream(
    synthesizer: SimulU,
    words: Sequence[int],
    *,
    streams: int = 1,
    backbone: Speaker | None = None,
    **options: Any,
) -> list[list[Action]]:
    """Actions per chunk and stream of a system with chunks of half a word."""
    system = new_system(
        backbone or Speaker(),
        AlignAtt(frames=2),
        RecentWords(words=2),
        chunk_seconds=FRAME / 8_000,
        synthesizer=synthesizer,
        **options,
    )
    system.configure_model()
    sessions = [system.open(f"talk {index}") for index in range(streams)]
    chunks = speak(words).split(system.chunk_samples)
    return [
        system.step(sessions, [SpeechChunk(chunk, final=index == len(chunks) - 1)] * streams)
        for index, chunk in enumerate(chunks)
    ]


@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"assignment": "monotone", "discard": "last"},
        {"discard": "split"},
        {"close": "at_end"},
        {"context": "none"},
    ],
)
def test_a_talk_is_spoken_once_and_its_end_is_not_lost(
    options: dict[str, Any], streams: int
) -> None:
    steps = stream(SimulU(**options), TALK, streams=streams)
    tokens = [token for word in TALK for token in (2 * word, 2 * word + 1)]
    for index in range(streams):
        waves = [step[index].speech for step in steps]
        waveform = torch.cat([wave for wave in waves if wave is not None])
        assert waveform.tolist() == spoken(tokens)
        assert sum(wave is not None for wave in waves) > 3, "spoken as it is written"
        last = steps[-1][index].speech
        assert last is not None
        assert last.tolist() == spoken(tokens)[-len(last) :]
        assert last.numel() > 0


@pytest.mark.parametrize(("order", "longest"), [("speech_first", 4), ("history_first", 2)])
def test_speech_has_the_context_of_its_step_order(order: str, longest: int) -> None:
    """Two words of two tokens are kept; with the history first, the new word is one of them."""

    class Noted(Speaker):
        kept: ClassVar[list[int]]

        def units_of(self, request: SpeechRequest, close: bool) -> Units:
            self.kept.append(request.hypothesis.prefix_length)
            return super().units_of(request, close)

    Noted.kept = []
    steps = stream(SimulU(), TALK, backbone=Noted(), step_order=order)
    assert max(Noted.kept) == longest
    waves = [step[0].speech for step in steps]
    tokens = [token for word in TALK for token in (2 * word, 2 * word + 1)]
    assert torch.cat([wave for wave in waves if wave is not None]).tolist() == spoken(tokens)


def test_an_unknown_step_order_is_refused() -> None:
    with pytest.raises(ZooError, match="choose one of: speech_first, history_first"):
        stream(SimulU(), TALK, step_order="both")
