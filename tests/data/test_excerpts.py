"""Excerpts are pure functions of the generator, whole and cut as configured."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data.excerpts import Excerpt, ExcerptConfig, Excerpts
from zoo.training.schedule import Limits, Schedule

GERMAN = language("de")


def segment(offset: float, name: str) -> Segment:
    """Three seconds, three source words.

    The translation has the last source word in second place and ends with a particle of the first.
    """
    words = tuple(Word(f"{name}{place}", offset + place, offset + place + 1) for place in range(3))
    target = Target(
        f"{name}A {name}C {name}B {name}D",
        tuple(f"{name}{x}" for x in "ACBD"),
        ((0,), (2,), (1,), (0,)),
    )
    return Segment(offset, 3.0, f"{name}0 {name}1 {name}2", words, {"de": target})


TALK = Talk(
    "talk",
    Path("talk.wav"),
    30.0,
    "en",
    tuple(segment(1 + 4 * k, name) for k, name in enumerate("pqrstuv")),
)
PLAIN = {"cut_starts": 0.0, "cut_ends": 0.0, "margin": 0.5}


def drawn(steps: int = 60, talks: Sequence[Talk] = (TALK,), **options: float) -> list[Any]:
    sampler = Excerpts(talks, GERMAN, ExcerptConfig(**options))
    schedule = Schedule(sampler, Limits(40), steps=steps, batches=1, seed=[0])
    return [schedule.examples(step, 0) for step in range(steps)]


def test_the_same_generator_draws_the_same_excerpts() -> None:
    assert drawn(steps=5) == drawn(steps=5)
    assert drawn(steps=1)[0] != drawn(steps=2)[1]


def test_whole_sentences_have_all_their_words_and_short_margins() -> None:
    for excerpt in (excerpt for batch in drawn(**PLAIN) for excerpt in batch):
        held = [s for s in TALK.segments if s.offset < excerpt.end and s.end > excerpt.start]
        assert excerpt.target == tuple(word for s in held for word in s.targets["de"].words)
        assert excerpt.source == tuple(word.text for s in held for word in s.words)
        assert 0 <= held[0].offset - excerpt.start <= 0.5
        assert 0 <= excerpt.end - held[-1].end <= 0.5
        assert excerpt.text == " ".join(excerpt.target)
        assert excerpt.prefix == ""


def test_tight_ones_have_no_margins() -> None:
    for excerpt in (excerpt for batch in drawn(**PLAIN, tight=1.0) for excerpt in batch):
        assert excerpt.start in [segment.offset for segment in TALK.segments]
        assert excerpt.end in [segment.end for segment in TALK.segments]


def test_a_pass_has_every_sentence_in_one_run() -> None:
    sampler = Excerpts([TALK, TALK], GERMAN, ExcerptConfig(single=0.3, max_seconds=15.0))
    assert sampler.kinds == [0.3, 0.7]
    lengths = set()
    for seed in range(50):
        places = sampler.plan(1, np.random.default_rng(seed)).positions
        for talk in (0, 1):
            runs = [(first, last) for index, first, last in places.tolist() if index == talk]
            sentences = [place for first, last in runs for place in range(first, last + 1)]
            assert sentences == list(range(7))
            lengths |= {last - first + 1 for first, last in runs}
    assert lengths == {1, 2, 3, 4}  # of at most 15 seconds
    single = sampler.plan(0, np.random.default_rng(0))
    assert [first for _, first, last in single.positions.tolist() if first == last] == [
        *range(7)
    ] * 2
    assert single.seconds.tolist() == [3.0] * 14


def test_runs_of_long_sentences_are_single_sentences() -> None:
    sampler = Excerpts([TALK], GERMAN, ExcerptConfig(single=0.0, max_seconds=1.0))
    assert len(sampler.plan(0, np.random.default_rng(0))) == 7


def test_a_cut_start_begins_at_the_earliest_source_word_of_the_rest() -> None:
    seen = set()
    options = {"single": 1.0, "cut_starts": 1.0, "cut_ends": 0.0, "jitter": 0.2}
    for excerpt in (excerpt for batch in drawn(**options) for excerpt in batch):
        whole = next(s for s in TALK.segments if s.targets["de"].words[-1] == excerpt.target[-1])
        skipped = 4 - len(excerpt.target)
        assert excerpt.target == whole.targets["de"].words[skipped:]
        earliest = whole.words[0]  # the last word, which every rest has, is aligned to it
        assert earliest.start - 0.2 <= excerpt.start <= earliest.end
        assert excerpt.prefix == " ".join(excerpt.target[:2])
        seen.add(skipped)
    assert seen == {1, 2, 3}


def test_a_cut_end_leaves_what_may_be_written_by_then() -> None:
    lengths = set()
    for excerpt in (
        excerpt for batch in drawn(single=1.0, cut_starts=0.0, cut_ends=1.0) for excerpt in batch
    ):
        whole = next(s for s in TALK.segments if s.end > excerpt.start)
        num_words = sum(
            time <= excerpt.end for time in (whole.offset + 1, whole.end, whole.end, whole.end)
        )
        assert excerpt.target == whole.targets["de"].words[:num_words]
        assert excerpt.source == tuple(word.text for word in whole.words if word.end <= excerpt.end)
        lengths.add(len(excerpt.target))
    assert lengths == {0, 1, 4}


def test_each_word_has_the_end_time_of_its_last_source_word() -> None:
    for excerpt in (
        excerpt for batch in drawn(single=0.5, cut_starts=0.5, cut_ends=0.5) for excerpt in batch
    ):
        assert len(excerpt.spans) == len(excerpt.target)
        for word, span in zip(excerpt.target, excerpt.spans, strict=True):
            begin = 1 + 4 * "pqrstuv".index(word[0]) + {"A": 0, "C": 2, "B": 1, "D": 0}[word[1]]
            assert span == (begin, begin + 1)


def test_samples_are_those_of_the_talk(tmp_path: Path) -> None:
    audio.write(tmp_path / "talk.wav", torch.arange(32_000) / 64_000)
    talk = Talk("talk", tmp_path / "talk.wav", 1.0, "en", (), offset=0.5)
    samples = Excerpt(talk, 0.25, 0.75, (), (), GERMAN).samples()
    assert samples.numel() == 8_000
    assert float(samples[0]) == pytest.approx(0.75 * 16_000 / 64_000, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"single": 1.5}, "ExcerptConfig needs single from 0 to 1, not 1.5."),
        ({"cut_ends": -1.0}, "cut_ends from 0 to 1"),
        ({"max_seconds": 0.0}, "max_seconds above 0"),
        ({"jitter": -0.1}, "jitter of at least 0"),
    ],
)
def test_what_makes_no_excerpt_is_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ZooError) as refusal:
        ExcerptConfig(**options)
    assert message in str(refusal.value)


def test_talks_that_give_no_excerpt_are_refused() -> None:
    bare = Talk(
        "talk",
        Path("talk.wav"),
        1.0,
        "en",
        (Segment(0.0, 1.0, "hello", targets={"de": Target("hallo")}),),
    )
    with pytest.raises(ZooError, match="'hello' lacks word times or a word alignment"):
        drawn(talks=[bare])
    with pytest.raises(ZooError, match="no segments to take excerpts of"):
        drawn(talks=[Talk("talk", Path("talk.wav"), 1.0, "en", ())])
