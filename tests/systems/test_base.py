"""One chunk through a system: its checks and the calls of its parts."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.contract.scripted import FRAME, Scripted, speak, text_of
from zoo.backbones.base import Backbone
from zoo.backbones.whisper import Whisper
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import (
    SAMPLE_RATE,
    Capability,
    Cut,
    Decision,
    EventKind,
    Frames,
    Hypothesis,
    Request,
    Seconds,
    SpeechChunk,
    StreamEvent,
    Task,
)
from zoo.history.base import History
from zoo.history.keep_all import KeepAll
from zoo.policies.alignatt import AlignAtt
from zoo.policies.base import DecisionGenerator, Policy
from zoo.policies.local_agreement import LocalAgreement
from zoo.policies.read_all import ReadAll
from zoo.streaming.session import Session, SpeechRequest, empty_token_ids
from zoo.synthesizers.base import Synthesizer
from zoo.systems.base import StreamingSystem
from zoo.systems.system import Knob


class Whole(Policy):
    """Writes all of every hypothesis."""

    def decide(self, session: Session, state: None) -> DecisionGenerator:
        hypothesis = yield Request()
        return Decision(write=hypothesis.num_new_tokens)


def build(*, policy: Policy | None = None, **parts: Any) -> StreamingSystem:
    """Four frames (one word) per step."""
    defaults: dict[str, Any] = {
        "name": "scripted",
        "backbone": Scripted(),
        "history": KeepAll(),
        "source_language": "en",
        "target_language": "de",
        "chunk_seconds": 4 * FRAME / SAMPLE_RATE,
    }
    return StreamingSystem(policy=policy or Whole(), **{**defaults, **parts})


def steps(
    system: StreamingSystem, session: Session, chunks: Sequence[Tensor], *, final: bool = False
) -> list[str]:
    """The texts of one step per chunk; ``final``: the last one ends the source."""
    flagged = [
        SpeechChunk(chunk, final=final and index == len(chunks) - 1)
        for index, chunk in enumerate(chunks)
    ]
    return [system.step([session], [chunk])[0].text for chunk in flagged]


def test_an_empty_chunk_in_mid_stream_is_no_evidence() -> None:
    system = build(policy=LocalAgreement(n=2))
    session = system.open("talk")
    word, none = speak([1]), torch.zeros(0)
    assert steps(system, session, [word, none, none]) == ["", "", ""]
    assert steps(system, session, [word]) != [""]


def test_an_empty_last_chunk_writes_what_was_waiting() -> None:
    system = build(policy=AlignAtt(frames=4))
    session = system.open("talk")
    assert steps(system, session, [speak([1]), torch.zeros(0)], final=True) == ["", text_of([1])]


def test_no_audio_at_all_asks_nothing() -> None:
    system = build()
    assert steps(system, system.open("talk"), [torch.zeros(0)], final=True) == [""]
    assert system.backbone.requests == []


def test_a_boundary_at_the_end_of_what_is_kept_leaves_nothing_to_ask() -> None:
    class Always(History):
        """Ends a segment wherever it is asked."""

        def boundary(self, session: Session) -> Frames | None:
            return session.kept_frames

    system = build(history=Always())
    session = system.open("talk")
    assert steps(system, session, [speak([1]), speak([2])], final=True) == ["w1en", " w2en"]
    assert len(system.backbone.requests) == 2


def test_a_boundary_of_no_frames_ends_nothing() -> None:
    class Zero(History):
        """Returns a boundary at the start of the segment."""

        def boundary(self, session: Session) -> Frames | None:
            return 0

    system = build(policy=AlignAtt(frames=1), history=Zero())
    session = system.open("talk")
    assert steps(system, session, [speak([1]), speak([2])]) == ["", "w1en"]


def test_repeated_requests_end_with_the_audio() -> None:
    class Nibble(Policy):
        """Drops a frame with every decision."""

        def decide(self, session: Session, state: None) -> DecisionGenerator:
            yield Request()
            return Decision(write=0, cut=Cut(frames=1), repeat=True)

    system = build(policy=Nibble())
    session = system.open("talk")
    assert steps(system, session, [speak([1])]) == [""]
    assert (len(system.backbone.requests), session.audio.numel()) == (4, 0)


def test_long_speech_without_output_is_an_event_unless_the_policy_waits_for_the_end() -> None:
    class Speech(History):
        """Finds 12 s of speech without output in each step without text."""

        def speech_without_output(self, session: Session, *, has_output: bool) -> Seconds:
            return 0.0 if has_output else 12.0

    cases: list[tuple[Policy, list[EventKind]]] = [
        (AlignAtt(frames=4), ["no_output"]),
        (ReadAll(), []),
    ]
    for policy, kinds in cases:
        system = build(policy=policy, history=Speech())
        session = system.open("talk")
        first, last = (
            system.step([session], [SpeechChunk(speak([word]), final=word == 2)])[0]
            for word in (1, 2)
        )
        events = [event for event in first.events if event.kind == "no_output"]
        at = 4 * FRAME / SAMPLE_RATE
        assert events == [StreamEvent(kind, at, reason="12 s of speech") for kind in kinds]
        assert last.text == text_of([1, 2])
        assert all(event.kind != "no_output" for event in last.events)


def test_a_transcript_is_neither_written_nor_spoken_nor_committed() -> None:
    class Transcribing(Policy):
        """Asks for a transcript, then reads."""

        def decide(self, session: Session, state: None) -> DecisionGenerator:
            transcript = yield Request(task=Task.TRANSCRIPTION)
            assert transcript.num_new_tokens == 1
            return Decision(write=0)

    class Mute(Synthesizer):
        """Must not be asked."""

        def synthesize(self, requests: Sequence[SpeechRequest]) -> list[Tensor]:
            raise AssertionError("spoke a transcript")

    history = Recorder()
    system = build(policy=Transcribing(), history=history, synthesizer=Mute())
    session = system.open("talk")
    assert steps(system, session, [speak([1])]) == [""]
    assert (session.prefix_ids.numel(), history.asked) == (0, [None])


class Recorder(History):
    """Records its requests."""

    def __init__(self) -> None:
        self.asked: list[Hypothesis | None] = []

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        self.asked.append(hypothesis)
        return Cut()


def test_a_history_never_sees_rows_that_a_cut_has_moved() -> None:
    class Cutting(Policy):
        """Writes everything and cuts it."""

        def decide(self, session: Session, state: None) -> DecisionGenerator:
            hypothesis = yield Request()
            return Decision(
                write=hypothesis.num_new_tokens, cut=Cut(tokens=hypothesis.num_new_tokens, frames=2)
            )

    class Silent(Policy):
        """Asks nothing."""

        def decide(self, session: Session, state: None) -> DecisionGenerator:
            yield from ()
            return Decision(write=0)

    for policy, seen in ((Cutting(), False), (Silent(), False), (Whole(), True)):
        history = Recorder()
        system = build(policy=policy, history=history)
        steps(system, system.open("talk"), [speak([1])])
        assert [hypothesis is not None for hypothesis in history.asked] == [seen]


def test_the_alignment_a_history_sees_begins_with_the_kept_prefix() -> None:
    history = Recorder()
    system = build(policy=AlignAtt(frames=1), history=history)
    session = system.open("talk")
    steps(system, session, [speak([1]), speak([2])])
    assert session.prefix_ids.tolist() == [2, 3]
    [_, hypothesis] = history.asked
    assert hypothesis is not None
    assert hypothesis.attended_frames.tolist() == [3, 3, 7, 7]


def test_a_hypothesis_that_does_not_continue_the_prefix_is_an_error() -> None:
    class Forgetful(Scripted):
        """Answers as if nothing had been written."""

        def answer(
            self, session: Session, request: Request, needs: frozenset[Capability]
        ) -> Hypothesis:
            session.prefix_ids, prefix = empty_token_ids(), session.prefix_ids
            answer = super().answer(session, request, needs)
            session.prefix_ids = prefix
            return answer

    system = build(backbone=Forgetful())
    with pytest.raises(ValueError, match="continues 0 tokens, but 2 are kept"):
        steps(system, system.open("talk"), [speak([1]), speak([2])])


def test_reading_neither_begins_a_text_nor_loses_its_context() -> None:
    """A transcript request has no prefix of its own; READ after it must not restart the text."""

    class Alternating(Policy):
        """Writes on every other chunk; asks for a transcript on the others."""

        def decide(self, session: Session, state: None) -> DecisionGenerator:
            if session.received_samples // (4 * FRAME) % 2:
                return Decision(write=(yield Request()).num_new_tokens)
            yield Request(task=Task.TRANSCRIPTION)
            return Decision(write=0)

    # no separator: only the context gives the space
    system = build(policy=Alternating(), target_language="zh")
    texts = steps(system, system.open("talk"), [speak([word]) for word in (1, 2, 3)])
    assert texts == ["w1en", "", " w2en w3en"]


def test_speech_is_made_before_its_tokens_join_the_prefix() -> None:
    class Counting(Synthesizer):
        """As many samples as tokens were kept before."""

        def synthesize(self, requests: Sequence[SpeechRequest]) -> list[Tensor]:
            return [
                torch.ones(request.session.prefix_ids.numel() + 1, dtype=torch.double)
                for request in requests
            ]

    system = build(synthesizer=Counting())
    session = system.open("talk")
    speech = [system.step([session], [SpeechChunk(speak([word]))])[0].speech for word in (1, 2, 3)]
    assert [wave.numel() for wave in speech if wave is not None] == [1, 3, 5]
    assert {wave.dtype for wave in speech if wave is not None} == {torch.float32}


def test_a_synthesizer_is_checked_then_loaded_after_the_backbone_and_opened_with_each_stream() -> (
    None
):
    order: list[str] = []

    class Loading(Scripted):
        """Records when it is loaded."""

        def load(self) -> None:
            order.append("backbone")

    class Opening(Synthesizer):
        """Synthesises German only and keeps a state per stream."""

        def check(self, target: Language) -> None:
            if target.code != "de":
                raise ZooError(f"cannot speak {target.code}")

        def load(self, backbone: Backbone) -> None:
            assert isinstance(backbone, Loading)
            order.append("synthesizer")

        def open(self, session: Session) -> list[str]:
            return [session.talk]

        def synthesize(self, requests: Sequence[SpeechRequest]) -> list[Tensor]:
            for request in requests:
                request.session.synthesizer_state.append(request.text)
            return [torch.zeros(request.tokens) for request in requests]

    with pytest.raises(ZooError, match="cannot speak es"):
        build(backbone=Loading(), synthesizer=Opening(), target_language="es")
    assert order == []
    system = build(backbone=Loading(), synthesizer=Opening())
    system.configure_model()
    system.configure_model()
    assert order == ["backbone", "synthesizer"]
    sessions = [system.open(talk) for talk in "ab"]
    actions = system.step(sessions, [SpeechChunk(speak([1, 2])), SpeechChunk(speak([3]))])
    assert [session.synthesizer_state for session in sessions] == [
        ["a", "w1en w2en"],
        ["b", "w3en"],
    ]
    assert [action.speech.numel() for action in actions if action.speech is not None] == [4, 2]


def test_streams_of_one_step_count_their_own_requests() -> None:
    system = build(policy=AlignAtt(frames=1))
    sessions = [system.open(talk) for talk in "abc"]
    chunks = [
        SpeechChunk(speak([1])),
        SpeechChunk(torch.zeros(0)),
        SpeechChunk(speak([2]), final=True),
    ]
    assert [action.text for action in system.step(sessions, chunks)] == ["", "", "w2en"]
    assert system.backbone.batches == [2]


def test_the_knob_reaches_into_the_parts() -> None:
    system = build(policy=AlignAtt(frames=2), knob=Knob("f", "policy.frames", (2.0, 4.0)))
    system.turn_knob(4)
    assert system.policy.frames == 4
    with pytest.raises(ZooError, match="no latency knob"):
        build().turn_knob(1)
    with pytest.raises(ZooError, match=r"policy\.farmes"):
        build(policy=AlignAtt(frames=2), knob=Knob("f", "policy.farmes", (2.0,))).turn_knob(2)


def test_a_knob_without_values_has_those_of_the_backbone() -> None:
    """A frame has 20 ms in Whisper and 80 ms in the small models."""
    whisper = build(
        policy=AlignAtt(frames=2),
        backbone=Whisper(name=""),
        knob=Knob("f", "policy.frames"),
        target_language="en",
    )
    small = build(policy=AlignAtt(frames=2), knob=Knob("f", "policy.frames"))
    chosen = build(policy=AlignAtt(frames=2), knob=Knob("f", "policy.frames", (3,)))
    for system, values in ((whisper, (12, 25, 50, 75)), (small, (2, 4, 8, 12)), (chosen, (3,))):
        assert system.knob is not None
        assert tuple(system.knob.values) == values


def test_a_direction_that_the_backbone_lacks_is_refused_without_weights() -> None:
    with pytest.raises(ZooError, match="Whisper translates into English only, not en-de"):
        build(backbone=Whisper(name=""))


def test_chunks_grow_with_the_multiplier() -> None:
    system = build(latency_multiplier=3)
    assert system.chunk_samples == 12 * FRAME


def test_weights_are_loaded_once() -> None:
    class Heavy(Scripted):
        """Counts its loads."""

        loads = 0

        def load(self) -> None:
            self.loads += 1

    system = build(backbone=Heavy())
    assert system.backbone.loads == 0
    system.configure_model()
    system.configure_model()
    assert system.backbone.loads == 1


def test_speech_cut_off_a_longer_wave_does_not_keep_the_rest() -> None:
    class Cutting(Synthesizer):
        """Synthesises all text so far and cuts off the speech of earlier text."""

        def synthesize(self, requests: Sequence[SpeechRequest]) -> list[Tensor]:
            return [torch.zeros(10_000)[-10:] for _ in requests]

    [action] = (system := build(synthesizer=Cutting())).step(
        [system.open("talk")], [SpeechChunk(speak([1]))]
    )
    assert action.speech is not None
    assert action.speech.untyped_storage().nbytes() == 4 * 10
