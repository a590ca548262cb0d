"""A source that ends with its last word is translated to its end, and no time includes silence."""

from dataclasses import replace

import pytest

import zoo
from tests.contract.scripted import FRAME, Scripted, source, text_of
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE
from zoo.data.minitalks import corpus as minitalks
from zoo.history.keep_all import KeepAll
from zoo.policies.alignatt import AlignAtt
from zoo.policies.read_all import ReadAll
from zoo.streaming.simulate import simulate
from zoo.systems.base import StreamingSystem

OFFLINE = "offline_minitalks_en-de"


@pytest.fixture(scope="module")
def cut() -> Talk:
    """A sentence of a test talk, without the pause after it."""
    talks = minitalks.build("tst", talks=2)
    talk, segment = next(
        (talk, segment)
        for talk in talks
        for segment in talk.segments
        if segment.targets["de"].text.endswith("die Zeitung wegwerfen muss.")
    )
    begin = segment.offset - 0.3
    return replace(talk, offset=begin, duration=segment.end - begin, segments=())


@pytest.mark.parametrize(
    ("checkpoint", "system", "options"),
    [
        (OFFLINE, "streamatt", {}),
        (OFFLINE, "alignatt", {"history": "keep_all"}),
        (OFFLINE, "edatt", {"history": "keep_all"}),
        (OFFLINE, "local_agreement", {}),
        (OFFLINE, "wait_k", {}),
        ("infinisst_minitalks_en-de", None, {}),
        ("simulu_minitalks_en-de", None, {}),
    ],
)
def test_the_last_words_of_a_talk_that_ends_with_them(
    cut: Talk, checkpoint: str, system: str | None, options: dict[str, str]
) -> None:
    translation = zoo.load(checkpoint, system, **options).translate(cut)
    assert translation.text.endswith("wegwerfen muss.")
    assert translation.duration == pytest.approx(cut.duration, abs=1 / SAMPLE_RATE)
    assert all(word.delay <= translation.duration for word in translation.words)
    assert sum(chunk.compute for chunk in translation.instance.chunks) > 0
    assert all(event.at <= translation.duration for event in translation.instance.events)


def scripted(**options: object) -> StreamingSystem:
    return StreamingSystem(
        name="scripted",
        backbone=Scripted(),
        policy=options.pop("policy", ReadAll()),  # type: ignore[arg-type]
        history=KeepAll(),
        source_language="en",
        target_language="de",
        chunk_seconds=4 * FRAME / SAMPLE_RATE,
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("seconds", "longest", "excerpt", "samples"),
    [
        (0.1, None, False, 8 * FRAME + 1600),
        (0.1, None, True, 8 * FRAME),  # it ends where a corpus divides the recording
        (0.0, None, False, 8 * FRAME),
        (0.1, 8 * FRAME + 100, False, 8 * FRAME + 100),  # the backbone accepts no more
        (0.1, 8 * FRAME, False, 8 * FRAME),
    ],
)
def test_the_audio_that_a_backbone_receives(
    seconds: float,
    longest: int | None,
    excerpt: bool,
    samples: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system = scripted(end_silence_seconds=seconds)
    system.backbone.longest_input = longest
    received: list[int] = []
    decode = Scripted.decode

    def recorded(self: Scripted, sessions: list, *rest: object) -> list:  # type: ignore[type-arg]
        received.extend(session.visible_audio().numel() for session in sessions)
        return decode(self, sessions, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Scripted, "decode", recorded)
    stream = replace(source([1, 2], system.chunk_samples), excerpt=excerpt)
    [instance] = simulate(system, [stream])
    assert received == [samples]
    assert instance.text == text_of([1, 2])
    assert instance.source_length == 8 * FRAME / SAMPLE_RATE
    assert set(instance.delays) == {instance.source_length}
    assert [chunk.arrival for chunk in instance.chunks] == [0.128, 0.256]


def test_a_source_without_audio_stays_empty() -> None:
    session = scripted().open("talk")
    [instance] = simulate(scripted(), [source([], 1)])
    assert (instance.text, instance.source_length, session.audio.numel()) == ("", 0, 0)


def test_a_batch_of_streams_has_the_words_and_delays_of_each_alone() -> None:
    system = scripted(policy=AlignAtt(frames=2))
    sources = [source(words, system.chunk_samples) for words in ([1, 2, 3], [4], [5, 6, 7, 8, 9])]
    alone = [next(simulate(system, [one])) for one in sources]
    together = sorted(simulate(system, sources, batch_size=2), key=lambda one: one.index)
    assert alone[2].text == text_of([5, 6, 7, 8, 9])
    for one, other in zip(alone, together, strict=True):
        assert (one.units, one.delays, one.events) == (other.units, other.delays, other.events)
        assert max(one.delays) <= one.source_length


@pytest.mark.parametrize("seconds", [-0.1, 11, float("nan"), float("inf")])
def test_a_silence_out_of_range_is_refused(seconds: float) -> None:
    with pytest.raises(ZooError, match="end_silence_seconds"):
        scripted(end_silence_seconds=seconds)
