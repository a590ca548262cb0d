"""tst_hard: what makes it hard is in it, is in no other split, and leaves translations alone."""

import random
from itertools import pairwise

import pytest
from torch import Tensor

from zoo.base.audio import files as audio
from zoo.base.talks import Segment, Talk
from zoo.data.minitalks import lexicon
from zoo.data.minitalks.corpus import build
from zoo.data.minitalks.grammar import sentence
from zoo.data.minitalks.hard import interrupt, rare_sentence
from zoo.data.minitalks.recording import SPLITS, plans

RATE = 16_000


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> list[Talk]:
    """A quiet talk, one with noise and one with a second voice."""
    return build("tst_hard", cache=tmp_path_factory.mktemp("cache"), talks=3)


def test_an_interruption_only_adds_words_without_translation() -> None:
    added = set()
    for seed in range(500):
        fluent = sentence(random.Random(seed))
        spoken = interrupt(fluent, random.Random(seed))
        count = len(spoken.words) - len(fluent.words)
        added.add(count)
        letters = [word.strip(".,?").casefold() for word in spoken.words]
        for code, target in fluent.targets.items():
            now = spoken.targets[code]
            assert (now.text, now.words) == (target.text, target.words)
            for old_indices, new_indices in zip(target.needs, now.needs, strict=True):
                old = [fluent.words[index].strip(".,?").casefold() for index in old_indices]
                assert [letters[index] for index in new_indices] == old
        assert (spoken == fluent) == (count == 0)
    assert added == {0, 1, 2, 3, 4}


def test_a_restart_begins_the_sentence_twice() -> None:
    names = {noun.english for noun in lexicon.NAMES}
    restarts = 0
    for seed in range(99):
        fluent = sentence(random.Random(seed))
        words = interrupt(fluent, random.Random(seed)).words
        count = len(words) - len(fluent.words)
        if count and words[count:][1:] == fluent.words[1:] and words[count - 1].endswith(","):
            restarts += 1
            begun = tuple(word.rstrip(",") for word in words[:count])
            assert begun == tuple(word.rstrip(",.?") for word in fluent.words[:count])
            assert words[count].islower() or words[count] in {*names, "I"}
    assert restarts > 5


@pytest.mark.parametrize("length", [1, 2])
def test_the_shortest_sentences_can_be_interrupted(length: int) -> None:
    seeds = range(3000)
    short = next(
        one
        for one in (sentence(random.Random(seed)) for seed in seeds)
        if len(one.words) == length + 1
    )
    for seed in range(50):
        assert interrupt(short, random.Random(seed)).words[-1] == short.words[-1]


def test_rare_numbers_and_names_are_in_no_other_split() -> None:
    rare = [noun.english for noun in lexicon.RARE_NAMES]
    rare += [number[0].split()[0] for number in lexicon.RARE_NUMBERS]
    rare = [word for word in rare if word not in ("two", "twelve")]
    spoken = {
        split: {
            word.strip(".,?")
            for plan in plans(split)
            for item in plan.sentences
            for word in item.words
        }
        for split in SPLITS
    }
    assert len(set(rare) & spoken.pop("tst_hard")) > 10
    for split, words in spoken.items():
        assert not set(rare) & words, split


def test_translations_have_the_rare_numbers_and_names() -> None:
    numbers = {number[0]: number for number in lexicon.RARE_NUMBERS}
    seen = set()
    for seed in range(400):
        item = rare_sentence(random.Random(seed))
        english = " ".join(item.words)
        for name in lexicon.RARE_NAMES:
            if name.english in english:
                seen.add(name.english)
                texts = [item.targets[code].text for code in ("de", "es", "zh")]
                expected = (name.german, name.spanish, name.chinese)
                assert all(one in text for one, text in zip(expected, texts, strict=True))
        for english_number, number in numbers.items():
            if f" {english_number} " in english:
                seen.add(english_number)
                for code, expected_number in zip(("de", "es", "zh"), number[1:], strict=True):
                    assert expected_number in item.targets[code].text
    assert len(seen) > 10


def test_pauses_silence_at_the_start_and_none_at_the_end(talks: list[Talk]) -> None:
    pauses = []
    for talk in talks:
        samples = audio.load(talk.file)
        start = round(talk.segments[0].offset * RATE)
        assert 3 <= talk.segments[0].offset <= 8
        assert samples[:start].square().mean() < 0.01 * level(samples, talk.segments[0])
        assert talk.duration == pytest.approx(talk.segments[-1].end, abs=0.001)
        assert len(samples) == pytest.approx(talk.duration * RATE, abs=1)
        pauses += [after.offset - before.end for before, after in pairwise(talk.segments)]
    assert 0.199 <= min(pauses) < 0.4
    assert max(pauses) > 5


def test_only_noise_and_a_second_voice_fill_the_pauses(talks: list[Talk]) -> None:
    shares = []
    for talk in talks:
        samples = audio.load(talk.file)
        speech = sum(level(samples, segment) for segment in talk.segments) / len(talk.segments)
        pauses = [
            samples[round(before.end * RATE) : round(after.offset * RATE)]
            for before, after in pairwise(talk.segments)
        ]
        # Of each pause the loudest 50 ms: the second voice makes pauses of its own.
        loudest = [
            float(pause[: len(pause) // 800 * 800].reshape(-1, 800).square().mean(1).max()) / speech
            for pause in pauses
        ]
        shares.append(sorted(loudest)[len(loudest) // 2])
    quiet, noise, voice = shares
    assert quiet < 0.001
    assert 0.003 < noise < 1
    assert 0.003 < voice < 1


def level(samples: Tensor, segment: Segment) -> float:
    """Mean square of the samples of a segment."""
    span = samples[round(segment.offset * RATE) : round(segment.end * RATE)]
    return float(span.square().mean())
