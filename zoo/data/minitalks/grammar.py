"""The generator of the built-in corpus: random sentences with aligned translations.

``draw_plan`` draws a sentence plan. The English realiser stores the word positions of each part in
the plan, then the other realisers translate the same plan. Disfluencies are inserted into the
English words afterwards; they have no translation.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from zoo.base.talks import Target
from zoo.data.minitalks import lexicon
from zoo.data.minitalks.chinese import realise_chinese
from zoo.data.minitalks.english import realise_english
from zoo.data.minitalks.german import realise_german
from zoo.data.minitalks.lexicon import FixedPhrase, Noun, Verb
from zoo.data.minitalks.spanish import realise_spanish
from zoo.data.minitalks.tree import Clause, NounPhrase, Question, SentencePlan, Tense

LONGEST = 24  # maximum number of English words of a sentence
PASSIVE_VERBS = {"paint", "sell", "steal", "repair", "build", "find", "describe"}
RELATIVE_VERBS = {  # verbs of relative clauses whose gap is the object
    *("buy", "sell", "find", "repair", "paint", "steal", "see", "visit", "invite", "help")
}
UNCOUNTED_POOLS = ("facts", "money", "seasons", "places", "trains", "offers")
QUESTIONS: tuple[Question, ...] = ("polar", "polar", "who", "whom", "what", "where", "where")


@dataclass(frozen=True, slots=True)
class Sentence:
    """An English sentence with its translations.

    Attributes:
        words: English words, cased and with punctuation attached.
        targets: translations by language code, aligned to ``words``.
    """

    words: tuple[str, ...]
    targets: dict[str, Target]

    def with_untranslated(self, words: Sequence[str], at: int) -> "Sentence":
        """Insert English words that have no translation.

        Args:
            words: the words.
            at: index of the first of them; the words from there on follow them.
        """

        def shift(indices: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
            return tuple(
                tuple(index + len(words) * (index >= at) for index in item) for item in indices
            )

        targets = {
            code: replace(target, alignment=shift(target.alignment), needs=shift(target.needs))
            for code, target in self.targets.items()
        }
        return Sentence((*self.words[:at], *words, *self.words[at:]), targets)


def sentence(rng: random.Random) -> Sentence:
    """Draw a sentence; the same state of ``rng`` gives the same sentence."""
    drawn = realise(draw_plan(rng), rng)
    return drawn if len(drawn.words) <= LONGEST else sentence(rng)


def realise(plan: SentencePlan, rng: random.Random | None = None) -> Sentence:
    """Realise a plan in every language.

    Args:
        plan: the sentence plan; its English positions are filled in.
        rng: source of disfluencies; None: no disfluencies.
    """
    words = realise_english(plan)
    last = len(words) - 1
    targets = {
        "de": realise_german(plan, last).target(),
        "es": realise_spanish(plan, last).target(),
        "zh": realise_chinese(plan, last).target(separator=""),
    }
    words[0] = words[0][0].upper() + words[0][1:]
    words[-1] += "?" if plan.is_question else "."

    fluent = Sentence(tuple(words), targets)
    return _with_disfluency(fluent, rng) if rng and rng.random() < 0.07 else fluent


def _with_disfluency(fluent: Sentence, rng: random.Random) -> Sentence:
    """Insert a filler or repeat a word."""
    at = rng.randrange(1, len(fluent.words))
    repeated = fluent.words[at].rstrip(".,?")
    is_repetition = rng.random() < 0.4 and at < len(fluent.words) - 1
    inserted = repeated if is_repetition else rng.choice(lexicon.FILLERS)
    return fluent.with_untranslated([inserted], at)


def draw_plan(rng: random.Random) -> SentencePlan:
    """Draw a statement, a question, a reported clause or two clauses."""
    kind = rng.random()
    if kind < 0.45:
        return SentencePlan(_statement(rng, relative=0.35))
    if kind < 0.56:
        return SentencePlan(_question(rng))
    if kind < 0.73:
        report = rng.choice(lexicon.REPORTS)
        reported = _statement(rng, fronting=False)
        return SentencePlan(None, report=report, subordinate=reported, that=rng.random() < 0.5)

    tense: Tense = rng.choice(("past", "present"))
    conjunction = rng.choice(lexicon.CONJUNCTIONS)
    if conjunction.english == ("if",):
        tense = "present"
    subordinate_first = rng.random() < 0.5
    main = _statement(rng, tense=tense, fronting=False, time=0.2)
    subordinate_time = 0.2 if main.time is None else None
    subordinate = _statement(rng, tense=tense, fronting=False, time=subordinate_time)
    return SentencePlan(
        main,
        conjunction=conjunction,
        subordinate=subordinate,
        subordinate_first=subordinate_first,
    )


def _statement(
    rng: random.Random,
    *,
    tense: Tense | None = None,
    fronting: bool = True,
    relative: float = 0.08,
    time: float | None = 0.4,
) -> Clause:
    """Draw a statement.

    Args:
        rng: source of all choices.
        tense: tense of the verb; None: random.
        fronting: whether the time may come first.
        relative: probability of a relative clause.
        time: probability of a time; None: no time and no random draw for it.
    """
    if tense is None:
        tense = _tense(rng)
    kind = rng.random()
    if kind < 0.12:
        clause = _copula(rng, tense)
    elif kind < 0.22 and tense == "past":
        clause = _passive(rng)
    else:
        clause = _active(rng, tense)

    is_state = (
        clause.verb.stative
        if clause.verb
        else clause.predicate and clause.predicate.english != "tired"
    )
    if time is not None and not is_state and rng.random() < time:
        clause.time = _time(rng, clause.tense)
        clause.time_first = fronting and rng.random() < 0.6
    if rng.random() < relative:
        _add_relative_clause(rng, clause)
    return clause


def _tense(rng: random.Random) -> Tense:
    return rng.choice(("past", "past", "present", "present", "modal"))


def _active(rng: random.Random, tense: Tense, verb: Verb | None = None) -> Clause:
    """Draw an active clause; ``verb`` None: a random verb."""
    verb = verb or _verb(rng)
    clause = Clause(subject=_subject(rng), verb=verb, tense=tense, particle_late=rng.random() < 0.6)
    if tense == "modal":
        clause.modal = rng.choice(lexicon.MODALS)
    elif rng.random() < 0.14:
        clause.negated = True
    _add_arguments(rng, clause)

    takes_place = (
        verb.german_auxiliary == "hat"  # no verb of motion
        and not verb.stative
        and verb.objects not in ("places", "seasons")
    )
    if verb.frame in ("plain", "object") and takes_place:
        probability = 0.5 if verb.frame == "plain" else 0.22
        if rng.random() < probability:
            clause.place = _place(rng)
    return clause


def _add_arguments(rng: random.Random, clause: Clause) -> None:
    """Draw the objects, surface or place that the verb's frame requires."""
    verb = clause.verb
    assert verb
    if verb.frame in ("give", "about", "for"):
        clause.object = _person(rng, avoid=clause.subject.noun)
        counted = 0.2 if verb.frame == "give" else 0.0
        clause.second_object = _noun_phrase(rng, lexicon.POOLS["portable"], counted=counted)
    elif verb.objects == "people":
        clause.object = _person(rng, avoid=clause.subject.noun)
    elif verb.objects:
        uncounted = verb.objects in UNCOUNTED_POOLS or clause.negated
        clause.object = _thing(rng, verb, counted=0.0 if uncounted else 0.22)

    if verb.frame in lexicon.SURFACES:
        clause.surface = rng.choice(lexicon.SURFACES[verb.frame])
    if verb.frame == "leave":
        clause.place = _place(rng)


def _place(rng: random.Random) -> NounPhrase:
    """Draw a noun phrase that fits the preposition "in"."""
    place = _noun_phrase(
        rng, lexicon.POOLS["places"], definite=True, adjectives=lexicon.PLACE_ADJECTIVES
    )
    if rng.random() < 0.25:
        place.determiner = rng.choice(("a", "this"))
    return place


def _thing(rng: random.Random, verb: Verb, *, counted: float) -> NounPhrase:
    """Draw an object of a verb, sometimes an ambiguous noun with a modifier.

    ``counted`` is the probability of a number.
    """
    if verb.base in ("find", "see", "describe") and rng.random() < 0.5:
        return _ambiguous(rng)
    pool = lexicon.POOLS[verb.objects]
    if verb.objects in ("money", "seasons", "facts"):
        return _noun_phrase(rng, pool, definite=True, adjective=0)
    adjectives = lexicon.THING_ADJECTIVES
    if verb.objects in ("places", "trains", "offers"):
        adjectives = lexicon.PLACE_ADJECTIVES
    return _noun_phrase(rng, pool, counted=counted, adjectives=adjectives)


def _ambiguous(rng: random.Random) -> NounPhrase:
    """Draw an ambiguous noun with the modifier that determines its sense."""
    senses = lexicon.NOUN_SENSES
    sense = rng.choices(senses, [item.weight for item in senses])[0]
    return NounPhrase(sense.noun, "the", modifier=sense.modifier)


def _copula(rng: random.Random, tense: Tense) -> Clause:
    tense = "past" if tense == "modal" else tense
    negated = rng.random() < 0.2
    if rng.random() < 0.5:
        subject, adjectives = _subject(rng), lexicon.PERSON_ADJECTIVES
    elif rng.random() < 0.4:
        subject, adjectives = _ambiguous(rng), lexicon.THING_ADJECTIVES
    else:
        subject = _noun_phrase(rng, lexicon.POOLS["things"], definite=True, adjective=0)
        adjectives = lexicon.THING_ADJECTIVES
    return Clause(subject, None, tense, predicate=rng.choice(adjectives), negated=negated)


def _passive(rng: random.Random) -> Clause:
    verb = rng.choice([verb for verb in lexicon.VERBS if verb.base in PASSIVE_VERBS])
    subject = _noun_phrase(rng, lexicon.POOLS[verb.objects], definite=True)
    agent = _person(rng) if rng.random() < 0.6 else None
    return Clause(subject, verb, "past", object=agent, passive=True, negated=rng.random() < 0.12)


def _question(rng: random.Random) -> Clause:
    """Draw a yes/no question or a question with who, what or where."""
    kind = rng.choice(QUESTIONS)
    tense: Tense = rng.choice(("past", "present"))
    verb = _question_verb(rng, kind)
    clause = _active(rng, tense, verb)
    clause.negated, clause.question = False, kind
    if kind == "where":
        clause.place = None
    if kind == "who":
        clause.subject = NounPhrase(lexicon.PRONOUNS[0])
    if not verb.stative and rng.random() < 0.2:
        clause.time = _time(rng, tense)
    return clause


def _question_verb(rng: random.Random, kind: Question) -> Verb:
    """Draw a verb that fits the type of question."""
    if kind == "where":
        if rng.random() < 0.35:
            return lexicon.GO
        verbs = [
            verb
            for verb in lexicon.VERBS
            if verb.frame == "plain" and verb.german_auxiliary == "hat"
        ]
        return rng.choice(verbs)
    if kind in ("whom", "what"):
        pool = "people" if kind == "whom" else "things"
        verbs = [v for v in lexicon.VERBS if v.frame == "object" and v.objects == pool]
        return rng.choice(verbs)
    return _verb(rng)


def _add_relative_clause(rng: random.Random, clause: Clause) -> None:
    """Attach a relative clause to the subject or object, if one of them allows it."""
    tense: Tense = rng.choice(("past", "present")) if clause.tense == "present" else "past"
    antecedent = _antecedent(rng, clause)
    if antecedent is None:
        return

    if antecedent.noun.person and rng.random() < 0.7:
        relative = _active(rng, tense)
        if relative.object and relative.object.noun is antecedent.noun:
            return
        relative.subject, relative.gap = antecedent, "subject"
    else:
        verbs = [
            verb
            for verb in lexicon.VERBS
            if verb.base in RELATIVE_VERBS and antecedent.noun in lexicon.POOLS[verb.objects]
        ]
        if not verbs:
            return
        avoid = antecedent.noun if antecedent.noun.person else clause.subject.noun
        relative = Clause(_person(rng, avoid=avoid), rng.choice(verbs), tense, gap="object")

    if relative.verb and clause.verb and relative.verb.base == clause.verb.base:
        return
    antecedent.relative = relative


def _antecedent(rng: random.Random, clause: Clause) -> NounPhrase | None:
    """Draw the noun phrase that a relative clause modifies; None if no noun phrase allows it."""
    subject, other = clause.subject, clause.object
    is_subject = rng.random() < 0.65
    if is_subject and not subject.noun.name and not subject.modifier and subject.determiner:
        return subject
    if other and not other.noun.name and not other.modifier and not clause.negated:
        return other
    return None


# Ambiguous English verbs are half again as likely as the others.
_BASES = [
    base for base, senses in lexicon.VERB_SENSES.items() for _ in range(3 if len(senses) > 1 else 2)
]


def _verb(rng: random.Random) -> Verb:
    """Draw an English verb, then one of its senses by their weights."""
    senses = lexicon.VERB_SENSES[rng.choice(_BASES)]
    return rng.choices(senses, [sense.weight for sense in senses])[0]


def _subject(rng: random.Random) -> NounPhrase:
    if rng.random() < 0.12:
        return NounPhrase(rng.choice(lexicon.PRONOUNS))
    return _person(rng)


def _person(rng: random.Random, avoid: Noun | None = None) -> NounPhrase:
    """Draw a name or a noun phrase for a person other than ``avoid``."""
    if rng.random() < 0.33:
        return NounPhrase(_different_noun(rng, lexicon.NAMES, avoid))
    phrase = _noun_phrase(rng, lexicon.PEOPLE, adjectives=lexicon.PERSON_ADJECTIVES)
    people = lexicon.RELATIONS if phrase.determiner == "my" else lexicon.PEOPLE
    phrase.noun = _different_noun(rng, people, avoid)
    return phrase


def _different_noun(rng: random.Random, pool: Sequence[Noun], avoid: Noun | None) -> Noun:
    noun = rng.choice(pool)
    return noun if noun is not avoid else _different_noun(rng, pool, avoid)


def _noun_phrase(
    rng: random.Random,
    pool: Sequence[Noun],
    *,
    definite: bool = False,
    counted: float = 0.0,
    adjective: float = 0.22,
    adjectives: Sequence[lexicon.Adjective] = lexicon.THING_ADJECTIVES,
) -> NounPhrase:
    """Draw a noun with a determiner or number.

    Args:
        rng: source of all choices.
        pool: nouns to choose from.
        definite: whether the determiner is always "the".
        counted: probability of a number instead of a determiner.
        adjective: probability of an adjective.
        adjectives: adjectives to choose from.
    """
    noun = rng.choice(pool)
    chosen = rng.choice(adjectives) if rng.random() < adjective else None
    if rng.random() < counted and noun.english_plural:
        return NounPhrase(noun, "", chosen, number=rng.choice(lexicon.NUMBERS))
    if definite:
        return NounPhrase(noun, "the", chosen)
    determiner = rng.choices(("the", "a", "my", "this"), (0.64, 0.16, 0.12, 0.08))[0]
    return NounPhrase(noun, determiner, chosen)  # type: ignore[arg-type]


def _time(rng: random.Random, tense: Tense) -> FixedPhrase:
    """Draw an adverbial of time, such as "yesterday" or "two days ago"."""
    if tense != "past" or rng.random() < 0.5:
        return rng.choice(lexicon.TIMES[tense])
    number, unit = rng.choice(lexicon.NUMBERS[:-2]), rng.choice(lexicon.AGO)
    return FixedPhrase(
        (number[0], unit[0], "ago"),
        (("vor", (2,)), (number[1], (0,)), (unit[1], (1,))),
        (("hace", (2,)), (number[2], (0,)), (unit[2], (1,))),
        ((number[3], (0,)), (unit[3], (1,)), ("前", (2,))),
    )
