"""Splits with invented names, and their glossaries."""

import random

from zoo.config import build, compose
from zoo.config.sources import PACKAGE
from zoo.data.minitalks import lexicon
from zoo.data.minitalks.names import invented_names, named_sentence, names_of
from zoo.data.minitalks.recording import SPLITS, plans

SPLIT = "tst_names"


def test_names_are_new_words_and_differ() -> None:
    names = invented_names()
    assert len(set(map(str.lower, names))) == len(names) == 3000
    assert not {*names} & {noun.english for noun in (*lexicon.NAMES, *lexicon.RARE_NAMES)}
    assert all(name.isascii() and name.isalpha() and name.istitle() for name in names)


def test_tested_names_are_in_one_talk_and_no_training() -> None:
    talks = [names_of(SPLIT, talk) for talk in range(SPLITS[SPLIT].talks)]
    tested = [name for names in talks for name in names]
    assert len(set(tested)) == len(tested) == 40
    trained = {name for talk in range(240) for name in names_of("train_names", talk)}
    assert len(trained) > 1000
    assert not trained & {*tested}


def test_a_talk_speaks_only_its_own_names() -> None:
    for talk, plan in enumerate(plans(SPLIT)):
        spoken = {word.strip(".,?") for one in plan.sentences for word in one.words}
        own = {*names_of(SPLIT, talk)}
        assert plan.names == names_of(SPLIT, talk)
        assert len(spoken & own) >= 5
        assert not spoken & ({*invented_names()} - own)


def test_names_are_the_same_in_all_languages() -> None:
    names = names_of(SPLIT, 0)
    drawn = [named_sentence(random.Random(seed), names) for seed in range(60)]
    spoken = [{word.strip(".,?") for word in one.words} & {*names} for one in drawn]
    assert 30 < sum(map(bool, spoken)) < 60
    for sentence, names_in_it in zip(drawn, spoken, strict=True):
        for target in sentence.targets.values():
            assert all(name in target.text for name in names_in_it)


def test_the_glossaries_of_the_package_are_those_of_the_talks() -> None:
    folder = PACKAGE / "data" / "minitalks" / "glossaries"
    for split in (SPLIT, "train_names"):
        by_talk = {
            f"{split}-{talk:03d}": names_of(split, talk) for talk in range(SPLITS[split].talks)
        }
        every = (folder / split / "names.txt").read_text().split()
        assert every == sorted({name for names in by_talk.values() for name in names})
        if split == SPLIT:
            for talk, names in by_talk.items():
                assert (folder / split / f"{talk}.txt").read_text().split() == [*names]


def test_the_context_of_a_talk_are_its_names() -> None:
    source = build(compose("evaluate", ["system=streamuni", "context=names"]).context)
    terms = source.context("tst_names-003").terms
    assert [term.target for term in terms] == [*names_of(SPLIT, 3)]
