"""Chains of thought are pure functions of the generator: audio, transcript and translation."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo import audio
from zoo.data.chain_of_thought import (
    GRID,
    SpeechChainOfThought,
    SpeechChainOfThoughtConfig,
    SpeechChainsOfThought,
)
from zoo.data.sampling import BatchShape
from zoo.data.talks import Segment, Talk, Target, Word
from zoo.errors import ZooError
from zoo.languages import language

GERMAN = language("de")
CHUNK = 0.64
SEGMENT: dict[str, Any] = {
    "silence": 1.9,
    "missing": 0.8,
    "reach": 1.9,
    "settled": 0.12,
    "max_seconds": 18.0,
}
PREFIXES = {"mixture": {"streaming": 1.0}, **SEGMENT}
WHOLE = {"mixture": {"non_streaming": 1.0}, **SEGMENT}


def segment(offset: float, name: str) -> Segment:
    """Three source words in three seconds; target word 2 is aligned with the last source word."""
    texts = (f"{name}0", f"{name}1,", f"{name}2.")
    words = tuple(
        Word(text, offset + place, offset + place + 1) for place, text in enumerate(texts)
    )
    target = Target(
        f"{name}A {name}C {name}B.", (f"{name}A", f"{name}C", f"{name}B."), ((0,), (2,), (1,))
    )
    return Segment(offset, 3.0, " ".join(texts), words, {"de": target})


TALK = Talk(
    "talk",
    Path("talk.wav"),
    40.0,
    "en",
    tuple(segment(1 + 4 * k, name) for k, name in enumerate("pqrstuv")),
)
OFFSETS = [segment.offset for segment in TALK.segments]


def draw(
    steps: int = 60, seconds: float = 40.0, talks: tuple[Talk, ...] = (TALK,), **options: Any
) -> list[Any]:
    sampler = SpeechChainsOfThought(
        talks, GERMAN, SpeechChainOfThoughtConfig(**options), chunk_seconds=CHUNK
    )
    return [
        sampler.batch(np.random.default_rng([0, step]), BatchShape(seconds=seconds))
        for step in range(steps)
    ]


def draw_examples(**options: Any) -> list[SpeechChainOfThought]:
    return [example for batch in draw(**options) for example in batch]


def begun_segments(example: SpeechChainOfThought) -> list[Segment]:
    """Segments with at least one complete word."""
    return [
        s for s in TALK.segments if s.end > example.start and s.words[0].end <= example.end + 1e-6
    ]


def test_the_same_generator_draws_the_same_examples() -> None:
    assert draw(steps=5) == draw(steps=5)
    assert draw(steps=1)[0] != draw(steps=2)[1]


@pytest.mark.parametrize(
    "options", [{}, {"mixture": {"partial": 1.0, "non_streaming": 1.0}, **SEGMENT}]
)
def test_a_batch_has_one_kind_one_length_and_the_seconds_asked_for(options: dict[str, Any]) -> None:
    lengths = set()
    for batch in draw(steps=200, **options):
        assert len({example.kind for example in batch}) == 1
        length = batch[0].end - batch[0].start
        assert all(
            example.end - example.start == pytest.approx(length, abs=1e-9) for example in batch
        )
        assert abs(len(batch) * length - 40) <= length / 2 + 1e-6
        assert length / GRID == pytest.approx(round(length / GRID), abs=1e-6)
        assert all(example.start >= 0 and example.end <= TALK.duration + 1e-6 for example in batch)
        lengths.add(round(length / GRID))
    assert len(lengths) > 20


def test_lengths_are_whole_chunks_but_for_a_share() -> None:
    def on_grid(off: float) -> list[bool]:
        chunks = [
            (batch[0].end - batch[0].start) / CHUNK
            for batch in draw(steps=200, off_grid=off, **PREFIXES)
        ]
        return [abs(count - round(count)) < 1e-6 for count in chunks]

    assert all(on_grid(0.0))
    assert 100 < sum(on_grid(0.3)) < 180


def test_default_examples_begin_with_their_sentence_and_end_anywhere() -> None:
    fractions = []
    for example in draw_examples(steps=400, mixture={"streaming": 1.0}):
        assert min(abs(example.start - offset) for offset in OFFSETS) < 1e-6
        length = example.end - example.start
        assert length <= 3.0 + 1e-6
        fractions.append(length / 3.0)
        names = [f"p{place}" for place in range(int(length + 1e-6))]
        assert len(example.transcript.split()) == len(names)
    steps = [batch[0].end - batch[0].start for batch in draw(steps=400, mixture={"streaming": 1.0})]
    assert np.mean(steps) == pytest.approx(1.5, abs=0.15)  # uniform


def test_every_sentence_and_every_end_in_it_come_as_often() -> None:
    """A length is drawn first, and the longer sentence has more prefixes of that length."""
    targets = TALK.segments[0].targets
    spans = {1.0: 0.8, 4.0: 3.2}
    segments = tuple(
        Segment(at, long, "so", (Word("so", at, at + long),), targets) for at, long in spans.items()
    )
    sampler = SpeechChainsOfThought(
        [replace(TALK, segments=segments)],
        GERMAN,
        SpeechChainOfThoughtConfig(mixture={"streaming": 1.0}),
        chunk_seconds=CHUNK,
    )
    random = np.random.default_rng(0)
    lengths: dict[float, list[float]] = {1.0: [], 4.0: []}
    for _ in range(2000):
        (example,) = sampler.batch(random, BatchShape(seconds=1.0, examples=1))
        lengths[round(example.start, 6)].append(example.end - example.start)
    for at, long in spans.items():
        assert len(lengths[at]) == pytest.approx(1000, abs=80)
        quarters, _ = np.histogram(lengths[at], bins=4, range=(GRID / 2, long + GRID / 2))
        assert quarters / len(lengths[at]) == pytest.approx(np.full(4, 0.25), abs=0.06)


def test_a_prefix_has_the_words_that_ended_and_the_full_translation_of_begun_sentences() -> None:
    lengths = set()
    for example in draw_examples(steps=300, **PREFIXES):
        sentences = begun_segments(example)
        words = [word for s in sentences for word in s.words if word.end <= example.end + 1e-6]
        assert [word.text.strip(",.") for word in words] == [
            word.strip(",.") for word in example.transcript.split()
        ]
        assert example.translation == " ".join(s.targets["de"].text for s in sentences)
        lengths.add(len(words))
        if words:
            settled = words[-1].end + 0.12 <= example.end + 1e-6
            assert example.transcript.endswith(
                words[-1].text if settled else words[-1].text.strip(",.")
            )
            assert all(
                a == b.text for a, b in zip(example.transcript.split()[:-1], words, strict=False)
            )
    assert lengths == {
        0,
        1,
        2,
        3,
        4,
    }  # 0: silence or an incomplete word; 4: with a word of the next sentence


def test_a_partial_reference_covers_the_audio_received_so_far() -> None:
    counts = set()
    for example in draw_examples(steps=300, **{**PREFIXES, "mixture": {"partial": 1.0}}):
        for s in begun_segments(example):
            num_words = sum(word.end <= example.end + 1e-6 for word in s.words)
            allowed = s.targets["de"].words[
                : 3 if num_words == 3 else 1
            ]  # the second word waits for the last one
            assert all(word in example.translation.split() for word in allowed)
            assert len(
                [word for word in example.translation.split() if word[0] == s.source[0]]
            ) == len(allowed)
            counts.add(num_words)
    assert counts == {1, 2, 3}


def test_whole_sentences_have_no_audio_of_the_next_sentence() -> None:
    for example in draw_examples(steps=200, sentences=[0.0, 1.0], **WHOLE):
        whole = [s for s in TALK.segments if s.end > example.start and s.end <= example.end]
        assert len(whole) == 2
        assert example.transcript == " ".join(s.source for s in whole)
        assert example.translation == " ".join(s.targets["de"].text for s in whole)
        assert begun_segments(example) == whole
        assert example.end >= whole[-1].end + 0.12 - 1e-6


@pytest.mark.parametrize("options", [PREFIXES, WHOLE])
def test_an_example_begins_in_the_pause_or_in_the_first_word(options: dict[str, Any]) -> None:
    late = 0
    for example in draw_examples(steps=200, **options):
        previous = [s.end for s in TALK.segments if s.end <= example.start]
        following = next(s for s in TALK.segments if s.end > example.start)
        assert example.start <= following.offset + 0.8 + 1e-6
        assert example.start >= max([0.0, *previous, following.offset - 1.9]) - 1e-6
        late += example.start > following.offset
    assert late > 50


def test_several_sentences_end_in_the_last_of_them_or_after_it() -> None:
    shares = {1: 0, 2: 0, 3: 0}
    for batch in draw(steps=300, sentences=[0.5, 0.3, 0.2], **WHOLE):
        shares[len(batch[0].transcript.split()) // 3] += 1
    assert shares[1] > shares[2] > shares[3] > 30
    for example in draw_examples(steps=100, sentences=[0.0, 0.0, 1.0], **PREFIXES):
        assert (
            len([s for s in TALK.segments if s.end > example.start and s.end <= example.end + 1e-6])
            >= 2
        )
        assert example.end - example.start <= 18.0


def test_hours_limit_the_data_of_a_kind() -> None:
    other = Talk("other", Path("talk.wav"), 40.0, "en", TALK.segments)
    options = {
        "mixture": {"streaming": 0.5, "non_streaming": 0.5},
        "hours": {"streaming": 0.01, "non_streaming": None},
    }
    examples = [example for batch in draw(talks=(TALK, other), **options) for example in batch]
    assert {(example.kind, example.talk.name) for example in examples} == {
        ("streaming", "talk"),
        ("non_streaming", "talk"),
        ("non_streaming", "other"),
    }


def test_audio_has_the_samples_of_its_length(tmp_path: Path) -> None:
    samples = torch.arange(48_000) / 48_000
    audio.write(tmp_path / "talk.wav", samples)
    talk = Talk("talk", tmp_path / "talk.wav", 2.0, "en", (), offset=1.0)
    loaded = SpeechChainOfThought(talk, 0.5, 0.5 + 2 * CHUNK, "", "", GERMAN, "streaming").samples()
    assert loaded.shape == (20_480,)
    torch.testing.assert_close(loaded, samples[24_000:44_480], atol=1e-4, rtol=0)
    padded = SpeechChainOfThought(talk, 1.5, 1.5 + CHUNK, "", "", GERMAN, "streaming").samples()
    assert padded.shape == (10_240,)
    assert padded[8_000:].abs().max() == 0  # after the end of the file


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"mixture": {"nope": 1.0}},
            "Unknown kind of chain of thought 'nope'; choose one of: streaming, non_streaming",
        ),
        (
            {"mixture": {"streaming": 0.0}},
            r"mixture of chains of thought needs shares of at least 0, one above it",
        ),
        ({"sentences": []}, r"sentences of chains of thought needs shares .* not \[\]"),
        ({"missing": 1.5}, "needs missing from 0 to 1, not 1.5"),
        ({"silence": -1.0}, "needs silence of at least 0, not -1.0"),
        ({"hours": {"streaming": 0}}, r"needs hours\.streaming above 0, not 0"),
    ],
)
def test_an_error_is_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        SpeechChainOfThoughtConfig(**options)


def test_only_partial_examples_need_a_word_alignment() -> None:
    targets = {"de": Target("pA pC pB.", (), ())}
    talk = replace(TALK, segments=(replace(TALK.segments[0], targets=targets),))
    for mixture in ({"streaming": 1.0}, {"non_streaming": 1.0}):
        (batch,) = draw(steps=1, talks=(talk,), mixture=mixture)
        assert {example.translation for example in batch} <= {"pA pC pB.", ""}
    with pytest.raises(ZooError, match="lacks word times or a word alignment"):
        draw(talks=(talk,), mixture={"partial": 1.0})


def test_talks_without_suitable_sentences_are_refused() -> None:
    with pytest.raises(ZooError, match="no 8 consecutive sentences for streaming chains of"):
        SpeechChainsOfThought(
            [TALK], GERMAN, SpeechChainOfThoughtConfig(sentences=[0] * 7 + [1]), chunk_seconds=CHUNK
        )
    bare = replace(TALK, segments=(Segment(1.0, 3.0, "so", (), TALK.segments[0].targets),))
    with pytest.raises(ZooError, match="'so' lacks word times; align the corpus first"):
        SpeechChainsOfThought([bare], GERMAN, SpeechChainOfThoughtConfig(), chunk_seconds=CHUNK)
    with pytest.raises(ZooError, match="No 'es' translation"):
        SpeechChainsOfThought(
            [TALK], language("es"), SpeechChainOfThoughtConfig(), chunk_seconds=CHUNK
        )
