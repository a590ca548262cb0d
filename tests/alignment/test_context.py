"""Links to the source words that determine a target word."""

import random

import pytest

from zoo.alignment.words.base import Links, Pair
from zoo.alignment.words.context import log_likelihood_ratio, with_context


def corpus() -> list[tuple[Pair, Links]]:
    """Nouns of two genders after "the", with or without an adjective, which has no gender."""
    rng = random.Random(0)
    nouns = {"cat": "die", "cow": "die", "dog": "der", "bird": "der"}
    found: list[tuple[Pair, Links]] = []
    for _ in range(400):
        noun = rng.choice(list(nouns))
        adjective = rng.choice([(), ("old",), ("good",)])
        source = ["the", *adjective, noun, "sleeps"]
        target = [nouns[noun], *adjective, noun, "schläft"]
        found.append(((source, target), tuple((place,) for place in range(len(source)))))
    return found


def test_an_article_is_linked_to_the_noun_that_determines_it() -> None:
    pairs, links = zip(*corpus(), strict=True)
    for pair, before, after in zip(
        pairs, links, with_context(pairs, links, least_ratio=1.5), strict=True
    ):
        # der and die are as probable after "the old" as after "the"
        assert after[0] == ((0, 1) if len(pair[0]) == 3 else (0,))
        assert after[1:] == before[1:]


def test_few_examples_and_small_ratios_determine_nothing() -> None:
    pairs, links = zip(*corpus(), strict=True)
    assert with_context(pairs, links, least_ratio=3) == list(links)
    assert with_context(pairs[:8], links[:8], least_ratio=1.5) == list(links[:8])
    unaligned = [((), *one[1:]) for one in links]
    assert with_context(pairs, unaligned, least_ratio=1.5) == unaligned


def test_the_ratio_is_that_of_a_table() -> None:
    assert log_likelihood_ratio(10, 20, 30, 60) == pytest.approx(0)  # independent
    # two events that always happen together, each half of the time: 2 n log 2
    assert log_likelihood_ratio(8, 0, 0, 8) == pytest.approx(2 * 16 * 0.6931471805599453)
