"""Chains of thought are pure functions of the generator: audio, transcript and translation."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo import audio
from zoo.data.chain_of_thought import GRID, Thought, ThoughtConfig, Thoughts
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
    """Three source words in three seconds; translation word 2 is aligned with the last of them."""
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


def drawn(
    steps: int = 60, seconds: float = 40.0, talks: tuple[Talk, ...] = (TALK,), **options: Any
) -> list[Any]:
    thoughts = Thoughts(talks, GERMAN, ThoughtConfig(**options), chunk_seconds=CHUNK)
    return [
        thoughts.batch(np.random.default_rng([0, step]), BatchShape(seconds=seconds))
        for step in range(steps)
    ]


def every(**options: Any) -> list[Thought]:
    return [thought for batch in drawn(**options) for thought in batch]


def begun(thought: Thought) -> list[Segment]:
    """Segments with at least one complete word."""
    return [
        s for s in TALK.segments if s.end > thought.start and s.words[0].end <= thought.end + 1e-6
    ]


def test_the_same_generator_draws_the_same_thoughts() -> None:
    assert drawn(steps=5) == drawn(steps=5)
    assert drawn(steps=1)[0] != drawn(steps=2)[1]


@pytest.mark.parametrize(
    "options", [{}, {"mixture": {"partial": 1.0, "non_streaming": 1.0}, **SEGMENT}]
)
def test_a_batch_has_one_kind_one_length_and_the_seconds_asked_for(options: dict[str, Any]) -> None:
    lengths = set()
    for batch in drawn(steps=200, **options):
        assert len({thought.kind for thought in batch}) == 1
        length = batch[0].end - batch[0].start
        assert all(
            thought.end - thought.start == pytest.approx(length, abs=1e-9) for thought in batch
        )
        assert abs(len(batch) * length - 40) <= length / 2 + 1e-6
        assert length / GRID == pytest.approx(round(length / GRID), abs=1e-6)
        assert all(thought.start >= 0 and thought.end <= TALK.duration + 1e-6 for thought in batch)
        lengths.add(round(length / GRID))
    assert len(lengths) > 20


def test_lengths_are_whole_chunks_but_for_a_share() -> None:
    def on_grid(off: float) -> list[bool]:
        chunks = [
            (batch[0].end - batch[0].start) / CHUNK
            for batch in drawn(steps=200, off_grid=off, **PREFIXES)
        ]
        return [abs(count - round(count)) < 1e-6 for count in chunks]

    assert all(on_grid(0.0))
    assert 100 < sum(on_grid(0.3)) < 180


def test_the_papers_thoughts_begin_with_their_sentence_and_end_anywhere() -> None:
    fractions = []
    for thought in every(steps=400, mixture={"streaming": 1.0}):
        assert min(abs(thought.start - offset) for offset in OFFSETS) < 1e-6
        length = thought.end - thought.start
        assert length <= 3.0 + 1e-6
        fractions.append(length / 3.0)
        names = [f"p{place}" for place in range(int(length + 1e-6))]
        assert len(thought.transcript.split()) == len(names)
    steps = [
        batch[0].end - batch[0].start for batch in drawn(steps=400, mixture={"streaming": 1.0})
    ]
    assert np.mean(steps) == pytest.approx(1.5, abs=0.15)  # uniform


def test_every_sentence_and_every_end_in_it_come_as_often() -> None:
    """A length is drawn first, and the longer sentence has more prefixes of that length."""
    targets = TALK.segments[0].targets
    spans = {1.0: 0.8, 4.0: 3.2}
    segments = tuple(
        Segment(at, long, "so", (Word("so", at, at + long),), targets) for at, long in spans.items()
    )
    thoughts = Thoughts(
        [replace(TALK, segments=segments)],
        GERMAN,
        ThoughtConfig(mixture={"streaming": 1.0}),
        chunk_seconds=CHUNK,
    )
    random = np.random.default_rng(0)
    lengths: dict[float, list[float]] = {1.0: [], 4.0: []}
    for _ in range(2000):
        (thought,) = thoughts.batch(random, BatchShape(seconds=1.0, examples=1))
        lengths[round(thought.start, 6)].append(thought.end - thought.start)
    for at, long in spans.items():
        assert len(lengths[at]) == pytest.approx(1000, abs=80)
        quarters, _ = np.histogram(lengths[at], bins=4, range=(GRID / 2, long + GRID / 2))
        assert quarters / len(lengths[at]) == pytest.approx(np.full(4, 0.25), abs=0.06)


def test_a_prefix_has_the_words_that_ended_and_the_full_translation_of_what_was_begun() -> None:
    lengths = set()
    for thought in every(steps=300, **PREFIXES):
        sentences = begun(thought)
        words = [word for s in sentences for word in s.words if word.end <= thought.end + 1e-6]
        assert [word.text.strip(",.") for word in words] == [
            word.strip(",.") for word in thought.transcript.split()
        ]
        assert thought.translation == " ".join(s.targets["de"].text for s in sentences)
        lengths.add(len(words))
        if words:
            settled = words[-1].end + 0.12 <= thought.end + 1e-6
            assert thought.transcript.endswith(
                words[-1].text if settled else words[-1].text.strip(",.")
            )
            assert all(
                a == b.text for a, b in zip(thought.transcript.split()[:-1], words, strict=False)
            )
    assert lengths == {
        0,
        1,
        2,
        3,
        4,
    }  # of the next sentence too; none: silence, and a word that is not over


def test_a_partial_reference_covers_the_audio_received_so_far() -> None:
    seen = set()
    for thought in every(steps=300, **{**PREFIXES, "mixture": {"partial": 1.0}}):
        for s in begun(thought):
            heard = sum(word.end <= thought.end + 1e-6 for word in s.words)
            allowed = s.targets["de"].words[
                : 3 if heard == 3 else 1
            ]  # the second word waits for the last one
            assert all(word in thought.translation.split() for word in allowed)
            assert len(
                [word for word in thought.translation.split() if word[0] == s.source[0]]
            ) == len(allowed)
            seen.add(heard)
    assert seen == {1, 2, 3}


def test_whole_sentences_have_no_audio_of_the_next_sentence() -> None:
    for thought in every(steps=200, sentences=[0.0, 1.0], **WHOLE):
        held = [s for s in TALK.segments if s.end > thought.start and s.end <= thought.end]
        assert len(held) == 2
        assert thought.transcript == " ".join(s.source for s in held)
        assert thought.translation == " ".join(s.targets["de"].text for s in held)
        assert begun(thought) == held
        assert thought.end >= held[-1].end + 0.12 - 1e-6


@pytest.mark.parametrize("options", [PREFIXES, WHOLE])
def test_a_thought_begins_in_the_pause_or_in_the_first_word(options: dict[str, Any]) -> None:
    late = 0
    for thought in every(steps=200, **options):
        previous = [s.end for s in TALK.segments if s.end <= thought.start]
        following = next(s for s in TALK.segments if s.end > thought.start)
        assert thought.start <= following.offset + 0.8 + 1e-6
        assert thought.start >= max([0.0, *previous, following.offset - 1.9]) - 1e-6
        late += thought.start > following.offset
    assert late > 50


def test_several_sentences_end_in_the_last_of_them_or_after_it() -> None:
    shares = {1: 0, 2: 0, 3: 0}
    for batch in drawn(steps=300, sentences=[0.5, 0.3, 0.2], **WHOLE):
        shares[len(batch[0].transcript.split()) // 3] += 1
    assert shares[1] > shares[2] > shares[3] > 30
    for thought in every(steps=100, sentences=[0.0, 0.0, 1.0], **PREFIXES):
        assert (
            len([s for s in TALK.segments if s.end > thought.start and s.end <= thought.end + 1e-6])
            >= 2
        )
        assert thought.end - thought.start <= 18.0


def test_hours_limit_the_data_of_a_kind() -> None:
    other = Talk("other", Path("talk.wav"), 40.0, "en", TALK.segments)
    options = {
        "mixture": {"streaming": 0.5, "non_streaming": 0.5},
        "hours": {"streaming": 0.01, "non_streaming": None},
    }
    thoughts = [thought for batch in drawn(talks=(TALK, other), **options) for thought in batch]
    assert {(thought.kind, thought.talk.name) for thought in thoughts} == {
        ("streaming", "talk"),
        ("non_streaming", "talk"),
        ("non_streaming", "other"),
    }


def test_audio_has_the_samples_of_its_length(tmp_path: Path) -> None:
    samples = torch.arange(48_000) / 48_000
    audio.write(tmp_path / "talk.wav", samples)
    talk = Talk("talk", tmp_path / "talk.wav", 2.0, "en", (), offset=1.0)
    heard = Thought(talk, 0.5, 0.5 + 2 * CHUNK, "", "", GERMAN, "streaming").samples()
    assert heard.shape == (20_480,)
    torch.testing.assert_close(heard, samples[24_000:44_480], atol=1e-4, rtol=0)
    late = Thought(talk, 1.5, 1.5 + CHUNK, "", "", GERMAN, "streaming").samples()
    assert late.shape == (10_240,)
    assert late[8_000:].abs().max() == 0  # after the end of the file


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"mixture": {"nope": 1.0}},
            "Unknown kind of thought 'nope'; choose one of: streaming, non_streaming, partial",
        ),
        (
            {"mixture": {"streaming": 0.0}},
            r"mixture of thoughts needs shares of at least 0, one above it",
        ),
        ({"sentences": []}, r"sentences of thoughts needs shares .* not \[\]"),
        ({"missing": 1.5}, "missing of thoughts is a share, from 0 to 1, not 1.5"),
        ({"silence": -1.0}, "Thoughts need max_seconds of at least 0.08 and silence"),
        ({"hours": {"streaming": 0}}, "hours of thoughts are above 0"),
    ],
)
def test_an_error_is_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        ThoughtConfig(**options)


def test_only_partial_thoughts_need_a_word_alignment() -> None:
    targets = {"de": Target("pA pC pB.", (), ())}
    talk = replace(TALK, segments=(replace(TALK.segments[0], targets=targets),))
    for mixture in ({"streaming": 1.0}, {"non_streaming": 1.0}):
        (batch,) = drawn(steps=1, talks=(talk,), mixture=mixture)
        assert {thought.translation for thought in batch} <= {"pA pC pB.", ""}
    with pytest.raises(ZooError, match="lacks word times or a word alignment"):
        drawn(talks=(talk,), mixture={"partial": 1.0})


def test_talks_without_what_is_asked_for_are_refused() -> None:
    with pytest.raises(ZooError, match="no 8 consecutive sentences for streaming thoughts"):
        Thoughts([TALK], GERMAN, ThoughtConfig(sentences=[0] * 7 + [1]), chunk_seconds=CHUNK)
    bare = replace(TALK, segments=(Segment(1.0, 3.0, "so", (), TALK.segments[0].targets),))
    with pytest.raises(ZooError, match="'so' lacks word times; align the corpus first"):
        Thoughts([bare], GERMAN, ThoughtConfig(), chunk_seconds=CHUNK)
    with pytest.raises(ZooError, match="No 'es' translation"):
        Thoughts([TALK], language("es"), ThoughtConfig(), chunk_seconds=CHUNK)
