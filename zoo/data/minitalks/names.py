"""Sentences of the splits with invented names, which a glossary of a talk lists.

The names of tst_names are in no other split. A network can write them by the sound alone only if it
guesses the spelling; with a glossary it may choose among written names.
"""

import random
from functools import cache

from zoo.data.minitalks import lexicon
from zoo.data.minitalks.grammar import LONGEST, Sentence, draw_plan, realise
from zoo.data.minitalks.lexicon import Noun

NAMES_PER_TALK = 10  # names that a talk repeats
TESTED = 40  # names of tst_names; train_names has the following ones
INVENTED = 3000
NAMED = 0.7  # share of the sentences that have invented names
ONSETS = (*"bdfghklmnprstvz", "br", "dr", "fl", "gr", "kr", "pl", "tr", "st")
VOWELS = "aeiou"
CODAS = ("", "", "", *"nrlsm")
SHORTEST_NAME, LONGEST_NAME = 5, 9  # letters


@cache
def invented_names() -> tuple[str, ...]:
    """Return all invented names: two or three syllables each, none of them in the lexicon."""
    rng = random.Random("invented names")
    known = {noun.english for noun in (*lexicon.NAMES, *lexicon.RARE_NAMES)}
    names: dict[str, None] = {}
    while len(names) < INVENTED:
        syllables = [
            rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS)
            for _ in range(rng.choice((2, 3)))
        ]
        name = "".join(syllables).capitalize()
        if SHORTEST_NAME <= len(name) <= LONGEST_NAME and name not in known:
            names[name] = None
    return tuple(names)


def names_of(split: str, talk: int) -> tuple[str, ...]:
    """Return the names that a talk of a split repeats.

    Args:
        split: ``tst_names`` or ``train_names``.
        talk: index of the talk.
    """
    tested = split == "tst_names"
    names = invented_names()[:TESTED] if tested else invented_names()[TESTED:]
    if tested:  # each name is in one talk
        return names[talk * NAMES_PER_TALK :][:NAMES_PER_TALK]
    return tuple(random.Random(f"{split} names {talk}").sample(names, NAMES_PER_TALK))


def named_sentence(rng: random.Random, names: tuple[str, ...]) -> Sentence:
    """Draw a sentence, in most cases with some of the names in place of those of the lexicon."""
    is_named = rng.random() < NAMED
    while True:
        plan = draw_plan(rng)
        phrases = [phrase for phrase in plan.noun_phrases() if phrase.noun in lexicon.NAMES]
        if is_named:
            chosen = rng.sample(names, len(phrases))
            for phrase, name in zip(phrases, chosen, strict=True):
                phrase.noun = _noun(name)
        drawn = realise(plan)
        # a question may omit the phrase
        has_name = any(phrase.positions.noun for phrase in phrases)
        if len(drawn.words) <= LONGEST and (has_name or not is_named):
            return drawn


def _noun(name: str) -> Noun:
    """Return a name, whose spelling is the same in all languages."""
    gender = "f" if name.endswith("a") else "m"
    return Noun(name, name, gender, name, gender, name, "", person=True, name=True)
