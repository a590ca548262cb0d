"""Policies and histories on scripted networks, alone and in ragged batches."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from tests.contract.parts import UnitSynthesizer, sound
from tests.contract.scripted import FRAME, WORD_FRAMES, Scripted, TurnTaker, source, speak, text_of
from zoo.base.types import (
    SAMPLE_RATE,
    Capability,
    Instance,
    Seconds,
    SpeechChunk,
    StreamEvent,
    Task,
)
from zoo.history.keep_all import KeepAll
from zoo.history.recent_words import RecentWords
from zoo.history.voice_activity import VoiceActivity
from zoo.policies.alignatt import AlignAtt
from zoo.policies.local_agreement import LocalAgreement
from zoo.policies.transcript_wait_k import TranscriptWaitK
from zoo.policies.turn_taking import TurnTaking
from zoo.policies.wait_k import WaitK
from zoo.streaming.simulate import simulate
from zoo.streaming.waveforms import timeline
from zoo.systems.base import StreamingSystem

FRAME_SECONDS = FRAME / SAMPLE_RATE
TALK = [1, 2, 3, 4, 5, 6, 7]


def build(**parts: object) -> StreamingSystem:
    """A system that takes three frames per step by default, without silence after the source."""
    defaults: dict[str, object] = {
        "backbone": Scripted(),
        "history": KeepAll(),
        "chunk_seconds": 3 * FRAME_SECONDS,
        "end_silence_seconds": 0.0,
    }
    names = {"name": "scripted", "source_language": "en", "target_language": "de"}
    return StreamingSystem(**{**names, **defaults, **parts})  # type: ignore[arg-type]


def pauses() -> VoiceActivity:
    """A segment ends at the first silent frame after 8 frames, at the latest after 40."""
    return VoiceActivity(
        min_seconds=8 * FRAME_SECONDS,
        max_seconds=40 * FRAME_SECONDS,
        pause_seconds=FRAME_SECONDS,
        pad_seconds=0,
        detector=lambda: lambda window: float(window[0] >= 1),
    )


SYSTEMS: dict[str, Callable[[], StreamingSystem]] = {
    "alignatt": lambda: build(policy=AlignAtt(frames=2)),
    "streamatt": lambda: build(policy=AlignAtt(frames=2), history=RecentWords(words=2)),
    "local agreement": lambda: build(policy=LocalAgreement(n=2)),
    "wait-k": lambda: build(policy=WaitK(k=3)),
    "vad": lambda: build(policy=LocalAgreement(n=2), history=pauses()),
    "vad and alignatt": lambda: build(policy=AlignAtt(frames=2), history=pauses()),
    "vad and streamuni": lambda: build(policy=TranscriptWaitK(k=1), history=pauses()),
    "streamuni": lambda: build(policy=TranscriptWaitK(k=1)),
    "infinisst": lambda: build(backbone=TurnTaker(), policy=TurnTaking()),
    "simulu": lambda: build(
        policy=AlignAtt(frames=2), history=RecentWords(words=2), synthesizer=UnitSynthesizer()
    ),
    "simulu by segments": lambda: build(
        policy=AlignAtt(frames=2), history=pauses(), synthesizer=UnitSynthesizer()
    ),
}
TALKS = {
    "seven": TALK,
    "none": [],
    "one": [8],
    "sentences": [1, 2, 51, 3, 4, 5, 52, 6],
    "pauses": [1, 2, 0, 0, 0, 0, 3, 4, 5, 0, 0, 6, 7, 8, 9],
    "silence": [0, 0, 0, 0, 0],
    "repeats": [5, 5, 5, 0, 5, 5],
}


def run(system: StreamingSystem, words: list[int]) -> Instance:
    return next(simulate(system, [source(words, system.chunk_samples)]))


def frames(*counts: int) -> tuple[Seconds, ...]:
    """Seconds at the end of so many frames."""
    return tuple(count * FRAME_SECONDS for count in counts)


@pytest.mark.parametrize("batch_size", [2, 5, 20])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_ragged_batch_writes_every_word_once_as_each_stream_does_alone(
    name: str, batch_size: int
) -> None:
    system = SYSTEMS[name]()
    alone = [run(system, words) for words in TALKS.values()]
    sources = [source(words, system.chunk_samples, talk) for talk, words in TALKS.items()]
    system.backbone.batches.clear()
    together = sorted(
        simulate(system, sources, batch_size=batch_size), key=lambda instance: instance.index
    )
    assert max(system.backbone.batches) > 1
    assert [instance.talk for instance in together] == list(TALKS)
    for words, single, batched in zip(TALKS.values(), alone, together, strict=True):
        assert single.text == text_of(words)
        assert all(before <= after for before, after in pairwise(single.delays))
        assert all(delay <= single.source_length for delay in single.delays)
        assert (single.text, single.delays, single.chunk_indices) == (
            batched.text,
            batched.delays,
            batched.chunk_indices,
        )
        assert [(output.delay, output.text) for output in single.speech] == [
            (output.delay, output.text) for output in batched.speech
        ]
        assert all(
            torch.equal(output.samples, other.samples)
            for output, other in zip(single.speech, batched.speech, strict=True)
        )
    assert any(instance.speech for instance in alone) == (system.synthesizer is not None)


def test_streams_that_write_at_the_same_moment_are_spoken_as_a_batch() -> None:
    batches = []
    for size in (1, 5):
        system = SYSTEMS["simulu"]()
        list(
            simulate(
                system,
                [source(words, system.chunk_samples) for words in TALKS.values()],
                batch_size=size,
            )
        )
        batches.append(system.synthesizer.batches)
    alone, together = batches
    assert set(alone) == {1}
    assert max(together) > 1
    assert sum(together) == len(alone)


def test_speech_contains_each_written_word_once() -> None:
    for name in ("simulu", "simulu by segments"):
        for words in TALKS.values():
            instance = run(SYSTEMS[name](), words)
            tokens = torch.tensor(
                [[2.0 * word + half] for word in words if word for half in (0, 1)]
            ).reshape(-1, 1)
            output = torch.cat([torch.zeros(0), *(spoken.samples for spoken in instance.speech)])
            assert torch.equal(output, sound(tokens))
            assert " ".join(spoken.text for spoken in instance.speech) == instance.text
            if words:
                assert torch.equal(timeline(instance)[timeline(instance) > 0], output)


def test_alignatt_waits_until_a_word_lies_f_frames_back() -> None:
    # Word i ends in frame 4 i - 1; it is written with the first chunk (3 frames) that ends
    # f or more frames later.
    for f, expected in (
        (1, frames(6, 9, 15, 18, 21, 27, 28)),
        (4, frames(9, 12, 18, 21, 24, 28, 28)),
    ):
        assert run(build(policy=AlignAtt(frames=f)), TALK).delays == pytest.approx(expected)


def test_alignments_and_states_are_asked_for_only_when_a_part_needs_them() -> None:
    seen = {}
    for name in ("local agreement", "alignatt", "simulu"):
        system = SYSTEMS[name]()
        run(system, TALK)
        seen[name] = system.backbone.needs
    aligned = {Capability.ALIGNMENT, Capability.PREFIX}
    assert seen == {
        "local agreement": {Capability.PREFIX},
        "alignatt": aligned,
        "simulu": aligned | {Capability.AUDIO_TRIMMING, Capability.SPEECH},
    }


def test_streamatt_forgets_text_and_the_audio_before_what_is_kept() -> None:
    system = SYSTEMS["streamatt"]()
    session = system.open("talk")
    for chunk in speak(TALK).split(system.chunk_samples)[
        :8
    ]:  # 24 frames: words 1 to 6, of which 5 are written
        system.step([session], [SpeechChunk(chunk)])
    assert session.prefix_ids.tolist() == [8, 9, 10, 11]  # words 4 and 5
    # the last frame of word 4, where it is aligned
    assert session.audio_start == (4 * WORD_FRAMES - 1) * FRAME
    assert session.received_samples == 24 * FRAME


def test_local_agreement_writes_the_agreement_of_two_hypotheses() -> None:
    # Word i is complete at frame 4 i, decoded again one chunk later and then written.
    expected = frames(9, 12, 15, 21, 24, 27, 28)
    assert run(build(policy=LocalAgreement(n=2)), TALK).delays == pytest.approx(expected)


def test_wait_k_reads_k_chunks_then_writes_a_word_per_chunk() -> None:
    system = build(policy=WaitK(k=3), chunk_seconds=WORD_FRAMES * FRAME_SECONDS)
    assert run(system, TALK).delays == pytest.approx(frames(12, 16, 20, 24, 28, 28, 28))
    assert [request.max_words for request in system.backbone.requests] == [1, 1, 1, 1, None]


def test_streamuni_truncates_and_decodes_the_tail_again() -> None:
    system = build(policy=TranscriptWaitK(k=1), chunk_seconds=2 * WORD_FRAMES * FRAME_SECONDS)
    instance = run(system, [1, 51, 2, 3, 4, 5])
    # Chunk 1: "1 51." writes one word. Chunk 2: "1 51. 2 3" truncates at chunk 1, and the tail
    # "2 3" gives word 2.
    assert instance.text == text_of([1, 51, 2, 3, 4, 5])
    assert instance.chunk_indices == (0, 1, 1, 2, 2, 2)
    kinds = [
        (request.task is Task.TRANSCRIPTION, request.audio_end)
        for request in system.backbone.requests
    ]
    second = [(True, None), (False, 2 * WORD_FRAMES), (True, None), (False, None)]
    assert kinds == [(True, None), (False, None), *second, (True, None), (False, None)]


def test_streamuni_drops_silence_and_the_silent_tail_of_the_last_chunk() -> None:
    system = build(policy=TranscriptWaitK(k=1), chunk_seconds=WORD_FRAMES * FRAME_SECONDS)
    session = system.open("talk")
    for chunk in speak([0, 0, 0, 1, 2]).split(system.chunk_samples):
        system.step([session], [SpeechChunk(chunk)])
    assert session.audio_start == 3 * WORD_FRAMES * FRAME
    assert session.prefix_ids.tolist() == [2, 3]


def test_a_pause_flushes_the_segment_and_what_follows_begins_afresh() -> None:
    system = build(policy=AlignAtt(frames=6), history=pauses())
    instance = run(system, [1, 2, 3, 0, 4, 5])
    # The pause begins at frame 12 and is received with the chunk that ends at 15; f = 6 alone
    # would wait until 18.
    assert instance.delays == pytest.approx(frames(12, 15, 15, 24, 24))


def test_a_flush_opens_the_policy_anew() -> None:
    system = build(policy=WaitK(k=3), history=pauses(), chunk_seconds=WORD_FRAMES * FRAME_SECONDS)
    # Chunk 3 is a pause: flushed, and not counted among the next segment's three chunks, 4 to 6.
    assert run(system, [1, 2, 0, 3, 4, 5, 6]).delays == pytest.approx(
        frames(12, 12, 24, 28, 28, 28)
    )


def test_two_segments_may_end_in_one_chunk() -> None:
    system = build(policy=AlignAtt(frames=1), history=pauses(), chunk_seconds=30 * FRAME_SECONDS)
    session = system.open("talk")
    [action] = system.step([session], [SpeechChunk(speak([1, 2, 0, 3, 4, 0, 5, 6])[: 30 * FRAME])])
    assert action.text == text_of([1, 2, 3, 4, 5])
    assert session.prefix_ids.tolist() == [10, 11]
    assert session.segment_end is None
    assert not session.must_flush


def test_a_policy_may_request_again_during_a_flush() -> None:
    system = build(policy=TranscriptWaitK(k=9), history=pauses(), chunk_seconds=8 * FRAME_SECONDS)
    session = system.open("talk")
    first, second = speak([1, 51, 2, 0]).split(system.chunk_samples)
    assert system.step([session], [SpeechChunk(first)])[0].text == ""
    # The pause at frame 13 flushes "1 51. 2": cut at frame 8, where "1 51." was complete; then
    # word 2 alone.
    assert system.step([session], [SpeechChunk(second)])[0].text == text_of([1, 51, 2])
    assert session.audio_start == 15 * FRAME  # of the pause, only what may be padding is left
    assert session.prefix_ids.numel() == 0
    assert not session.must_flush


def dropped(instance: Instance) -> list[StreamEvent]:
    """Events besides transcripts."""
    return [event for event in instance.events if event.kind != "transcript"]


def test_events_of_streamuni_are_its_transcripts_and_truncations() -> None:
    system = build(policy=TranscriptWaitK(k=1), chunk_seconds=2 * WORD_FRAMES * FRAME_SECONDS)
    instance = run(system, [1, 51, 2, 3, 4, 5])
    frame_count = 2 * WORD_FRAMES
    chunk = frame_count * FRAME_SECONDS
    first, second, truncation, tail, last = instance.events
    assert [event.chunk for event in instance.events] == [0, 1, 1, 1, 2]
    assert [event.at for event in instance.events] == pytest.approx(
        [chunk, 2 * chunk, chunk, 2 * chunk, 3 * chunk]
    )
    assert (truncation.kind, truncation.reason) == ("truncation", "sentence")
    assert (truncation.tokens, truncation.frames) == (4, frame_count)
    assert {event.kind for event in (first, second, tail, last)} == {"transcript"}
    assert second.text.startswith(first.text)
    assert second.text.endswith(tail.text)


def test_events_of_silence_have_one_transcript_and_name_the_reason() -> None:
    system = build(policy=TranscriptWaitK(k=9), chunk_seconds=WORD_FRAMES * FRAME_SECONDS)
    instance = run(system, [1, 0, 0, 0, 0, 0, 2])
    [silence, *others] = dropped(instance)
    assert (silence.chunk, silence.reason) == (2, "silence")
    assert others  # of the silence that follows, which has no words
    transcripts = [event for event in instance.events if event.kind == "transcript"]
    assert [event.chunk for event in transcripts] == [0, 3, 6]


def test_a_segment_at_its_cap_is_truncated_for_that_reason() -> None:
    policy = TranscriptWaitK(k=9, max_seconds=2 * WORD_FRAMES * FRAME_SECONDS)
    system = build(policy=policy, chunk_seconds=WORD_FRAMES * FRAME_SECONDS)
    [event, *_] = dropped(run(system, [1, 2, 3, 4]))
    assert (event.chunk, event.reason) == (2, "max_seconds")


def test_events_of_a_detector_are_its_flushes_and_skipped_silence() -> None:
    system = build(policy=AlignAtt(frames=6), history=pauses())
    flush, *others = dropped(run(system, [1, 2, 3, 0, 4, 5]))
    assert (flush.kind, flush.reason, flush.chunk) == ("flush", "VoiceActivity", 4)
    assert flush.frames == 13
    assert flush.at == pytest.approx(13 * FRAME_SECONDS)
    assert all(event.kind == "cut" and event.tokens == 0 for event in others)


def test_events_of_a_history_are_its_cuts_and_a_batch_has_those_of_each_stream() -> None:
    system = build(policy=AlignAtt(frames=2), history=RecentWords(words=2))
    sources = [source(words, system.chunk_samples) for words in (TALK, [8], [5, 5, 5, 0, 5, 5])]
    alone = [next(simulate(system, [one])) for one in sources]
    together = sorted(simulate(system, sources, batch_size=3), key=lambda one: one.index)
    assert [stream.events for stream in together] == [stream.events for stream in alone]
    cuts = dropped(alone[0])
    assert {(event.kind, event.reason) for event in cuts} == {("cut", "RecentWords")}
    assert all(event.tokens and event.frames for event in cuts)
    assert dropped(alone[1]) == []


def test_infinisst_turns_keep_no_audio_and_commit_empty_turns() -> None:
    system = SYSTEMS["infinisst"]()
    session = system.open("talk")
    texts = []
    for chunk in speak(TALK).split(system.chunk_samples):
        texts.append(system.step([session], [SpeechChunk(chunk)])[0].text)
        assert session.audio.numel() == 0
        assert session.prefix_ids.numel() <= 2
    assert texts[:4] == ["", "w1en", " w2en", " w3en"]
    assert session.backbone_state.turns[:4] == [0, 2, 2, 2]


def test_simulu_synthesises_every_token_once_while_its_text_history_moves_on() -> None:
    system = SYSTEMS["simulu"]()
    session = system.open("talk")
    chunks = speak(TALK).split(system.chunk_samples)
    actions = [
        system.step([session], [SpeechChunk(chunk, final=index == len(chunks) - 1)])[0]
        for index, chunk in enumerate(chunks)
    ]
    tokens = torch.tensor([[2.0 * word + half] for word in TALK for half in (0, 1)])
    assert torch.equal(
        torch.cat([action.speech for action in actions if action.speech is not None]), sound(tokens)
    )
    assert actions[0].speech is None
    assert [bool(action.text) for action in actions] == [
        action.speech is not None for action in actions
    ]
