"""Clips are drawn by a seed, synthesised once and paired with the source audio."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.base.errors import ZooError
from zoo.base.espeak.speech import Speaker, Utterance
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data import utterances
from zoo.data.clips import ClipConfig, Clips
from zoo.data.utterances import SpokenLine, read_utterances
from zoo.training.schedule import Limits, Schedule

GERMAN = language("de")
WORDS = ("Das", "Haus", "hier", "ist", "-", "gut.")
# The second source word is aligned with the last target word, the dash with no source word.
ALIGNMENT = ((0,), (2,), (3,), (1,), (), (1, 3))


def segment(offset: float, *, aligned: bool = True) -> Segment:
    words = tuple(
        Word(f"w{place}", offset + 0.5 * place, offset + 0.5 * place + 0.4) for place in range(4)
    )
    target = Target(" ".join(WORDS), WORDS, ALIGNMENT) if aligned else Target(" ".join(WORDS))
    return Segment(offset, 2.0, "w0 w1 w2 w3", words, {"de": target})


TALK = Talk(
    "talk", Path("talk.wav"), 21.0, "en", tuple(segment(1.0 + 4 * place) for place in range(5))
)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def mute(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Synthesises a tenth of a second per word without a process and records the texts."""
    texts: list[tuple[str, ...]] = []

    def speak(self: Speaker, words: tuple[str, ...], **how: object) -> Utterance:
        texts.append(words)
        timed = tuple(
            Word(word, 0.1 * place, 0.1 * place + 0.1) for place, word in enumerate(words)
        )
        return Utterance(np.full(1600 * len(words), 0.5, dtype=np.float32), timed, (), missing=0)

    monkeypatch.setattr(Speaker, "speak", speak)
    monkeypatch.setattr(Speaker, "__enter__", lambda self: self)
    monkeypatch.setattr(Speaker, "__exit__", lambda self, *error: None)
    return texts


def drawn(cache: Path, talk: Talk = TALK, **options: object) -> Clips:
    return Clips([talk], GERMAN, ClipConfig(**{"count": 300, **options}), cache=cache)  # type: ignore[arg-type]


def test_clip_audio_matches_its_text(cache: Path) -> None:
    clips = drawn(cache, count=6, fragments=0.0)
    for clip in clips:
        assert tuple(word.text for word in clip.words) == clip.excerpt.target
        assert len(clip.samples) % 320 == 0
        assert clip.samples.dtype == torch.float32
        assert 0.2 < clip.samples.abs().max() < 1.0
        assert float(clip.samples[-320:].abs().max()) == 0.0
        assert clip.words[-1].end <= len(clip.samples) / 16_000 - 0.02 <= clip.words[-1].end + 0.021
        assert clip.phonemes[0].text == "d"
    assert sum(len(clip.samples) for clip in clips) / 16_000 == pytest.approx(clips.duration)


def test_the_seed_decides(cache: Path, mute: list[tuple[str, ...]]) -> None:
    first, again, other = drawn(cache), drawn(cache), drawn(cache, seed=1)
    assert first.excerpts == again.excerpts
    assert first.excerpts != other.excerpts
    assert len(mute) == 600  # the second time they were there
    assert drawn(cache, count=200).excerpts == first.excerpts[:200]


@pytest.mark.parametrize("name", [utterances.SPEECH, utterances.INDEX])
def test_damaged_speech_is_made_again(cache: Path, mute: list[tuple[str, ...]], name: str) -> None:
    drawn(cache, count=20)
    (file,) = cache.glob(f"utterances-*/{name}")
    good = file.read_bytes()
    file.write_bytes(bytes(len(good)))
    drawn(cache, count=20)
    assert len(mute) == 40
    assert file.read_bytes() == good


def test_sentences_are_whole_and_sometimes_two(cache: Path, mute: list[tuple[str, ...]]) -> None:
    clips = drawn(cache, fragments=0.0, pairs=0.5)
    lengths = [len(excerpt.target) // len(WORDS) for excerpt in clips.excerpts]
    assert set(lengths) == {1, 2}
    assert 0.3 < lengths.count(2) / 300 < 0.6
    for excerpt, length in zip(clips.excerpts, lengths, strict=True):
        held = [s for s in TALK.segments if s.offset < excerpt.end and s.end > excerpt.start]
        assert excerpt.target == WORDS * length
        assert len(held) == length
        assert 0 <= held[0].offset - excerpt.start <= 0.2
        assert 0 <= excerpt.end - held[-1].end <= 0.2
        assert excerpt.source == ("w0", "w1", "w2", "w3") * length


def test_fragments_have_one_to_the_longest_word_anywhere(
    cache: Path, mute: list[tuple[str, ...]]
) -> None:
    excerpts = drawn(cache, fragments=1.0, count=1500, longest=8).excerpts
    stream = " ".join(WORDS * 5)
    assert {len(excerpt.target) for excerpt in excerpts} == set(range(1, 9))
    assert {excerpt.target[0] for excerpt in excerpts} == set(WORDS) - {"-"}
    assert {excerpt.target[-1] for excerpt in excerpts} == set(WORDS)
    assert all(" ".join(excerpt.target) in stream for excerpt in excerpts)


def test_a_fragment_spans_the_source_it_is_aligned_to(
    cache: Path, mute: list[tuple[str, ...]]
) -> None:
    excerpts = drawn(cache, fragments=1.0, count=1500, longest=6, margin=0.05).excerpts
    spans = {
        ("Haus",): (1.0, 1.4),  # w2
        ("Haus", "hier", "ist"): (0.5, 1.9),  # w1 to w3, for "ist" stands early
        ("ist", "-"): (0.5, 0.9),
        ("gut.", "Das"): (0.5, 4.4),  # to w0 of the next one
    }
    for target, (start, end) in spans.items():
        found = [excerpt for excerpt in excerpts if excerpt.target == target]
        assert found, target
        for excerpt in found:
            begin = next(
                s.offset for s in TALK.segments if abs(excerpt.start - s.offset - start) < 0.06
            )
            assert 0 <= begin + start - excerpt.start <= 0.05
            assert 0 <= excerpt.end - begin - end <= 0.05
    alone = next(excerpt for excerpt in excerpts if excerpt.target == ("Haus",))
    assert alone.source == ("w2",)


def test_without_an_alignment_a_fragment_has_its_segments(
    cache: Path, mute: list[tuple[str, ...]]
) -> None:
    talk = Talk("talk", Path("talk.wav"), 4.0, "en", (segment(1.0, aligned=False),))
    for excerpt in drawn(cache, talk, fragments=1.0, margin=0.0).excerpts:
        assert (excerpt.start, excerpt.end) == (1.0, 3.0)


def test_shuffled_words_are_the_same_words(cache: Path, mute: list[tuple[str, ...]]) -> None:
    excerpts = drawn(cache, fragments=0.0, pairs=0.0, shuffled=0.5).excerpts
    assert {tuple(sorted(excerpt.target)) for excerpt in excerpts} == {tuple(sorted(WORDS))}
    assert 0.3 < sum(excerpt.target != WORDS for excerpt in excerpts) / 300 < 0.7


def test_voices_rates_and_pitches_vary(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SpokenLine] = []

    def record_lines(lines: list[SpokenLine], *, cache: Path) -> utterances.Utterances:
        asked.extend(lines)
        return read_utterances(lines[:1], cache=cache)

    monkeypatch.setattr("zoo.data.clips.read_utterances", record_lines)
    drawn(
        cache, voices=["de", "de+f2"], rates=[150, 152], pitches=[40, 60], ranges=[0, 30], count=200
    )
    assert {line.voice for line in asked} == {"de", "de+f2"}
    assert {line.rate for line in asked} == {150, 151, 152}
    assert min(line.pitch for line in asked) >= 40
    assert {line.pitch_range for line in asked} <= set(range(31))
    assert len({line.seed for line in asked}) > 190


def test_batches_have_a_size_and_a_pass_has_every_clip_once(
    cache: Path, mute: list[tuple[str, ...]]
) -> None:
    clips = drawn(cache)
    planned = clips.plan(0, np.random.default_rng(0))
    schedule = Schedule(clips, Limits(30), steps=40, batches=1, seed=[0])
    seen: list[Any] = []
    step = 0
    while len(seen) < len(clips):
        batch: list[Any] = list(schedule.examples(step, 0))
        lengths = [clip.seconds for clip in batch]
        assert len(lengths) * max(lengths) < 40
        seen += batch
        step += 1
    assert sorted(planned.positions) == list(range(len(clips)))
    texts = sorted(clip.excerpt.target for clip in seen)
    assert texts == sorted(excerpt.target for excerpt in clips.excerpts)


def test_an_interrupted_corpus_starts_again(
    cache: Path, mute: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [SpokenLine((word,), "de", 165, 60, 0, 1) for word in ("ja", "nein", "doch")]
    whole = Speaker.speak

    def broken(self: Speaker, words: list[str], **how: object) -> Utterance:
        if words == ("doch",):
            raise KeyboardInterrupt
        return whole(self, words, **how)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Speaker, "speak", broken)
        with pytest.raises(KeyboardInterrupt):
            read_utterances(lines, cache=cache / "broken")
    (folder,) = (cache / "broken").glob("utterances-*")
    assert [path.name for path in folder.iterdir()] == [".lock"]
    (folder / "speech.pcm.part").write_bytes(b"x" * 100_000)
    speech_of_lines = read_utterances(lines, cache=cache / "broken")
    assert speech_of_lines.samples.tolist() == [1920, 1920, 1920]
    assert float(speech_of_lines.speech(2).max()) == pytest.approx(0.4, abs=1e-4)
    assert speech_of_lines.times(2)[0] == (Word("doch", 0.0, 0.1),)
    assert (folder / "speech.pcm").stat().st_size == 2 * 3 * 1920


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fragments": 1.5}, "ClipConfig needs fragments from 0 to 1, not 1.5."),
        ({"longest": 0}, "longest of at least 1"),
        ({"voices": []}, "need at least one voice"),
        (
            {"rates": [170, 160]},
            "rates of clips is two whole numbers, least and most, not [170, 160].",
        ),
    ],
)
def test_what_makes_no_clip_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ZooError) as refusal:
        ClipConfig(**options)  # type: ignore[arg-type]
    assert message in str(refusal.value)


def test_talks_that_give_no_clip_are_refused(cache: Path) -> None:
    with pytest.raises(ZooError, match="no translated segments"):
        drawn(cache, Talk("talk", Path("talk.wav"), 1.0, "en", ()))
    with pytest.raises(ZooError, match="No 'de' translation for 'hello'; it has: es"):
        drawn(
            cache,
            Talk(
                "t",
                Path("t.wav"),
                1.0,
                "en",
                (Segment(0, 1, "hello", targets={"es": Target("hola")}),),
            ),
        )
    with pytest.raises(ZooError, match="rejected voice 'xx'"):
        drawn(cache, voices=["xx"], count=1)
