"""Delays, elapsed times and refilled batches, with a scripted system and a clock set by hand."""

import time
from collections.abc import Iterator, Sequence

import pytest
import torch

from zoo.base.languages import language
from zoo.base.types import SAMPLE_RATE, Action, Instance, Seconds, SpeechChunk
from zoo.streaming.simulate import Source, locate_units, mark_final, simulate

SECOND = SAMPLE_RATE


class Stream:
    """The fields of a session that ``simulate`` reads."""

    def __init__(self, talk: str) -> None:
        self.talk = talk
        self.source_ended = False
        self.chunks: list[SpeechChunk] = []


class Script:
    """A system that writes ``texts[talk][i]`` after chunk i and takes ``compute`` s per step."""

    def __init__(
        self,
        texts: dict[str, list[str]],
        target: str = "de",
        compute: Sequence[float] = (),
        speech: dict[str, list[torch.Tensor | None]] | None = None,
    ) -> None:
        self.texts = texts
        self.speech = speech or {}
        self.target_language = language(target)
        self.compute = iter(compute)
        self.now = 100.0
        self.steps: list[tuple[str, ...]] = []
        self.opened: list[str] = []

    def open(self, talk: str, *, segments: Sequence[tuple[Seconds, Seconds]] = ()) -> Stream:
        self.opened.append(talk)
        return Stream(talk)

    def step(self, sessions: Sequence[Stream], chunks: Sequence[SpeechChunk]) -> list[Action]:
        self.now += next(self.compute, 0.0)
        self.steps.append(tuple(session.talk for session in sessions))
        actions = []
        for session, chunk in zip(sessions, chunks, strict=True):
            session.source_ended = chunk.final
            place = len(session.chunks)
            speech = self.speech[session.talk][place] if session.talk in self.speech else None
            actions.append(Action(self.texts[session.talk][place], speech))
            session.chunks.append(chunk)
        return actions


def source(seconds: Sequence[float], talk: str = "talk") -> Source:
    return Source(
        talk,
        [torch.zeros(round(length * SECOND)) for length in seconds],
        reference=f"{talk} reference",
    )


def one(system: Script, seconds: Sequence[float]) -> Instance:
    [instance] = simulate(system, [source(seconds)])  # type: ignore[arg-type]
    return instance


def test_a_delay_is_the_source_received_when_the_word_was_written() -> None:
    instance = one(Script({"talk": ["", "Guten Tag", "", " allerseits"]}), [1, 1, 1, 0.25])
    assert instance.units == ("Guten", "Tag", "allerseits")
    assert instance.delays == (2.0, 2.0, 3.25)
    assert instance.chunk_indices == (1, 1, 3)
    assert [chunk.arrival for chunk in instance.chunks] == [1.0, 2.0, 3.0, 3.25]
    assert (instance.source_length, instance.text) == (3.25, "Guten Tag allerseits")
    assert (instance.reference, instance.unit, instance.batched) == (
        "talk reference",
        "word",
        False,
    )


def test_a_word_split_over_two_emissions_has_the_later_delay() -> None:
    instance = one(Script({"talk": ["Gu", "ten T", "ag"]}), [1, 1, 1])
    assert (instance.units, instance.delays) == (("Guten", "Tag"), (2.0, 3.0))


def test_units_of_chinese_are_characters() -> None:
    instance = one(Script({"talk": ["你好", " AI", "。"]}, target="zh"), [1, 1, 1])
    assert instance.units == ("你", "好", "A", "I", "。")
    assert instance.delays == (1.0, 1.0, 2.0, 2.0, 3.0)
    assert instance.unit == "char"


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("a a aa", "de", (["a", "a", "aa"], [1, 3, 6])),
        ("  x \n x", "de", (["x", "x"], [3, 7])),
        ("你 你", "zh", (["你", "你"], [1, 3])),
        ("", "de", ([], [])),
    ],
)
def test_spans_find_repeated_units_in_order(
    text: str, target: str, expected: tuple[list[str], list[int]]
) -> None:
    assert locate_units(text, language(target)) == expected


def test_elapsed_follows_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    # Chunk by chunk: arrivals 1, 2, 3, 3.5; computing takes 0.5, 1.75, 0.25, 0.125.
    # Done at 1.5; 2 + 1.75 = 3.75 (late); 3.75 + 0.25 = 4.0 (queued); 4.0 + 0.125 = 4.125.
    system = Script({"talk": ["a", " b", " c", " d"]}, compute=[0.5, 1.75, 0.25, 0.125])
    monkeypatch.setattr(time, "perf_counter", lambda: system.now)
    instance = one(system, [1, 1, 1, 0.5])
    assert instance.delays == (1.0, 2.0, 3.0, 3.5)
    assert instance.elapsed == (1.5, 3.75, 4.0, 4.125)
    assert [chunk.compute for chunk in instance.chunks] == [0.5, 1.75, 0.25, 0.125]
    assert instance.convention == "queue"


def test_speech_has_the_delay_of_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    waves = [None, torch.ones(SECOND), torch.zeros(0), torch.full((SECOND // 2,), 2.0)]
    system = Script(
        {"talk": ["", "Guten Tag", " so", " allerseits"]},
        compute=[0.5, 1.75, 0.25, 0.125],
        speech={"talk": waves},
    )
    monkeypatch.setattr(time, "perf_counter", lambda: system.now)
    instance = one(system, [1, 1, 1, 0.5])
    first, last = instance.speech  # " so" has no speech
    assert (first.delay, first.elapsed, first.chunk, first.text) == (2.0, 3.75, 1, "Guten Tag")
    assert (last.delay, last.elapsed, last.chunk, last.text) == (3.5, 4.125, 3, "allerseits")
    assert (first.duration, last.duration) == (1.0, 0.5)
    assert last.delay == instance.source_length  # what is written when the source has ended
    assert [float(spoken.samples[0]) for spoken in instance.speech] == [1.0, 2.0]
    assert instance.units == ("Guten", "Tag", "so", "allerseits")


def test_a_system_that_only_writes_has_no_speech() -> None:
    assert one(Script({"talk": ["ja"]}), [1]).speech == ()


def test_a_batch_shares_its_compute_time_and_flags_it(monkeypatch: pytest.MonkeyPatch) -> None:
    system = Script({"a": ["x", "y"], "b": ["z"]}, compute=[0.5, 0.25])
    monkeypatch.setattr(time, "perf_counter", lambda: system.now)
    sources = [source([1, 1], "a"), source([1], "b")]
    instances = {instance.talk: instance for instance in simulate(system, sources, batch_size=2)}  # type: ignore[arg-type]
    assert (instances["b"].elapsed, instances["a"].elapsed) == ((1.5,), (2.25,))
    assert all(instance.batched for instance in instances.values())


def test_finished_slots_are_refilled_and_indices_count_sources() -> None:
    lengths = {"a": 3, "b": 1, "c": 1, "d": 2}
    system = Script({talk: [talk] * length for talk, length in lengths.items()})
    opened = iter([source([1] * length, talk) for talk, length in lengths.items()])
    instances = list(simulate(system, opened, batch_size=2))  # type: ignore[arg-type]
    assert system.steps == [("a", "b"), ("a", "c"), ("a", "d"), ("d",)]
    assert [(instance.index, instance.talk) for instance in instances] == [
        (1, "b"),
        (2, "c"),
        (0, "a"),
        (3, "d"),
    ]
    assert all(instance.source_length == lengths[instance.talk] for instance in instances)


def test_sources_are_opened_only_when_a_slot_is_free() -> None:
    system = Script({talk: [talk] for talk in "abc"})
    instances = simulate(system, (source([1], talk) for talk in "abc"), batch_size=1)  # type: ignore[arg-type]
    assert next(instances).talk == "a"
    assert system.opened == ["a"]
    assert [instance.talk for instance in instances] == ["b", "c"]


@pytest.mark.parametrize("chunks", [[], [0]])
def test_a_source_without_audio_is_an_instance_without_units(chunks: list[float]) -> None:
    instance = one(Script({"talk": [""]}), chunks)
    assert (instance.units, instance.delays, instance.elapsed, instance.text) == ((), (), (), "")
    assert instance.source_length == 0.0


def test_a_source_without_audio_does_not_stop_its_batch() -> None:
    system = Script({"a": ["x", "y"], "none": [""], "b": ["z"]})
    sources = [source([1, 1], "a"), source([], "none"), source([1], "b")]
    assert [instance.talk for instance in simulate(system, sources, batch_size=2)] == [
        "none",
        "a",
        "b",
    ]  # type: ignore[arg-type]


def test_a_talk_of_a_tenth_of_a_second() -> None:
    instance = one(Script({"talk": ["ja"]}), [0.1])
    assert (instance.units, instance.delays, instance.source_length) == (("ja",), (0.1,), 0.1)


@pytest.mark.parametrize(
    ("sizes", "finals"), [([2, 2, 1], [False, False, True]), ([3], [True]), ([], [True])]
)
def test_only_the_last_chunk_is_final(sizes: list[int], finals: list[bool]) -> None:
    chunks = list(mark_final(torch.zeros(size) for size in sizes))
    assert [chunk.final for chunk in chunks] == finals
    assert [chunk.samples.numel() for chunk in chunks] == (sizes or [0])


def test_a_chunk_is_flagged_without_waiting_for_more_than_one() -> None:
    taken: list[int] = []

    def arriving() -> Iterator[torch.Tensor]:
        for index in range(5):
            taken.append(index)
            yield torch.zeros(1)

    next(mark_final(arriving()))
    assert taken == [0, 1]


def test_progress_is_reported_in_source_seconds() -> None:
    durations: list[float] = []
    system = Script({"talk": ["", ""]})
    list(
        simulate(
            system,  # type: ignore[arg-type]
            [source([1, 0.5])],
            on_chunk=lambda stream: durations.append(stream.newest),
        )
    )
    assert durations == [1.0, 0.5]


def test_a_live_source_marks_its_last_chunk_and_no_chunk_waits_for_the_next() -> None:
    taken: list[int] = []

    def arriving() -> Iterator[SpeechChunk]:
        for index in range(3):
            taken.append(index)
            yield SpeechChunk(torch.zeros(1), final=index == 2)

    chunks = mark_final(arriving())
    next(chunks)
    assert taken == [0]
    assert [chunk.final for chunk in chunks] == [False, True]


def test_output_is_reported_at_the_chunk_that_has_it() -> None:
    seen: list[list[str]] = []
    list(
        simulate(
            Script({"talk": ["eins", ""]}),  # type: ignore[arg-type]
            [source([1, 0.5])],
            on_chunk=lambda stream: seen.append([one.text for one in stream.emissions]),
        )
    )
    assert seen == [["eins"], ["eins"]]


def test_retracted_text_is_replaced_and_keeps_no_delay() -> None:
    class Retranslation(Script):
        def step(self, sessions: Sequence[Stream], chunks: Sequence[SpeechChunk]) -> list[Action]:
            [session] = sessions
            session.source_ended = chunks[0].final
            session.chunks += chunks
            outputs = [("a bc", 0), (" de", 0), ("x f", 5), ("", 0)]
            text, retracted = outputs[len(session.chunks) - 1]
            return [Action(text, retracted=retracted)]

    instance = one(Retranslation({}), [1, 1, 1, 1])
    assert (instance.text, instance.units) == ("a x f", ("a", "x", "f"))
    assert instance.delays == (1.0, 3.0, 3.0)
    [revision] = instance.events
    assert (revision.kind, revision.text, revision.chunk, revision.at) == (
        "revision",
        "bc de",
        2,
        3.0,
    )
    assert revision.pieces == ((2, 0), (3, 1))  # "bc" of the first chunk, " de" of the second
