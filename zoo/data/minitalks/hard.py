"""Sentences of tst_hard: numbers and names that no other split has, repetitions and restarts."""

import random
from dataclasses import replace

from zoo.data.minitalks import lexicon
from zoo.data.minitalks.grammar import LONGEST, Sentence, draw_plan, realise
from zoo.data.minitalks.tree import NounPhrase, SentencePlan

RARE = ("", "", "number", "name")  # what is rare in a sentence; one is drawn
INTERRUPTIONS = ("", "", "", "repetition", "restart")  # one is drawn per sentence
REPETITIONS = (1, 2)  # range of the number of times that a word is repeated
RESTARTED = (2, 4)  # range of the number of words before a restart


def rare_sentence(rng: random.Random) -> Sentence:
    """Draw a sentence, in half of the cases with rare numbers or rare names."""
    kind = rng.choice(RARE)
    while True:
        plan = draw_plan(rng)
        changed = _make_rare(plan, kind, rng)
        drawn = realise(plan)
        is_rare = any(phrase.positions.noun for phrase in changed)  # a question may omit the phrase
        if len(drawn.words) <= LONGEST and (is_rare or not kind):
            return drawn


def _make_rare(plan: SentencePlan, kind: str, rng: random.Random) -> list[NounPhrase]:
    """Replace the numbers or the names of a plan by rare ones; return their noun phrases."""
    phrases = list(plan.noun_phrases())
    if kind == "number":
        changed = [phrase for phrase in phrases if phrase.number]
        for phrase in changed:
            phrase.number = rng.choice(lexicon.RARE_NUMBERS)
        return changed
    if kind == "name":
        changed = [phrase for phrase in phrases if phrase.noun in lexicon.NAMES]
        names = rng.sample(lexicon.RARE_NAMES, len(changed))
        for phrase, noun in zip(changed, names, strict=True):
            phrase.noun = noun
        return changed
    return []


def interrupt(fluent: Sentence, rng: random.Random) -> Sentence:
    """Sometimes repeat a word of a sentence, or break off after some words and start again.

    The repeated words have no translation.
    """
    kind = rng.choice(INTERRUPTIONS)
    last = len(fluent.words) - 1
    if kind == "repetition":
        at = rng.randint(1, last)
        repeated = [fluent.words[at].rstrip(".,?")] * rng.randint(*REPETITIONS)
        return fluent.with_untranslated(repeated, at)
    if kind == "restart":
        first = fluent.words[0]
        begun = list(fluent.words[: min(rng.randint(*RESTARTED), last)])
        begun[-1] = begun[-1].rstrip(",") + ","
        again = first if first in _CAPITALISED else first.lower()
        restarted = replace(fluent, words=(again, *fluent.words[1:]))
        return restarted.with_untranslated(begun, at=0)
    return fluent


_CAPITALISED = {"I"} | {noun.english for noun in lexicon.NAMES + lexicon.RARE_NAMES}
