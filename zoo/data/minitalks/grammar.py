"""Random sentences of the built-in corpus with translations, alignment and lookahead. Knows no audio.

A plan is drawn, English writes it down first and notes where each part stands, and every other language realises the
same plan. Disfluencies are put into the English words afterwards: they have no counterpart.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from zoo.data.minitalks import lexicon
from zoo.data.minitalks.chinese import chinese
from zoo.data.minitalks.english import English
from zoo.data.minitalks.german import german
from zoo.data.minitalks.lexicon import Fixed, Noun, Verb
from zoo.data.minitalks.spanish import spanish
from zoo.data.minitalks.tree import Clause, Phrase, Plan, Tense
from zoo.data.talks import Target

LONGEST = 24  # English words
PASSIVES = {"paint", "sell", "steal", "repair", "build", "find", "describe"}
OBJECT_RELATIVES = {
    "buy",
    "sell",
    "find",
    "repair",
    "paint",
    "steal",
    "see",
    "visit",
    "invite",
    "help",
}


@dataclass(frozen=True, slots=True)
class Sentence:
    """English words, cased and with punctuation attached, and their translations by language code."""

    words: tuple[str, ...]
    targets: dict[str, Target]


def sentence(rng: random.Random) -> Sentence:
    """Draw a sentence; the same ``rng`` state gives the same sentence."""
    made = realise(plan(rng), rng)
    return made if len(made.words) <= LONGEST else sentence(rng)


def realise(drawn: Plan, rng: random.Random | None = None) -> Sentence:
    """Write a plan down in every language; with ``rng`` some sentences get a disfluency."""
    words = English(drawn).words
    last = len(words) - 1
    targets = {
        "de": german(drawn, last).target(),
        "es": spanish(drawn, last).target(),
        "zh": chinese(drawn, last).target(separator=""),
    }
    words[0] = words[0][0].upper() + words[0][1:]
    words[-1] += "?" if drawn.main and drawn.main.question else "."
    made = Sentence(tuple(words), targets)
    return _disfluent(made, rng) if rng and rng.random() < 0.07 else made


def _disfluent(made: Sentence, rng: random.Random) -> Sentence:
    """Insert a filler or repeat a word, and move the indices behind it."""
    at = rng.randrange(1, len(made.words))
    repeated = made.words[at].rstrip(".,?")
    extra = (
        repeated if rng.random() < 0.4 and at < len(made.words) - 1 else rng.choice(lexicon.FILLERS)
    )

    def move(indices: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(index + (index >= at) for index in item) for item in indices)

    targets = {
        code: replace(target, alignment=move(target.alignment), needs=move(target.needs))
        for code, target in made.targets.items()
    }
    return Sentence((*made.words[:at], extra, *made.words[at:]), targets)


def plan(rng: random.Random) -> Plan:
    """Draw what a sentence says."""
    kind = rng.random()
    if kind < 0.45:
        return Plan(_clause(rng, rich=True))
    if kind < 0.56:
        return Plan(_question(rng))
    if kind < 0.73:
        return Plan(
            None,
            report=rng.choice(lexicon.REPORTS),
            other=_clause(rng, front=False),
            that=rng.random() < 0.5,
        )
    tense: Tense = rng.choice(("past", "present"))
    conjunction = rng.choice(lexicon.CONJUNCTIONS)
    if conjunction.english == ("if",):
        tense = "present"
    first = rng.random() < 0.5
    main = _clause(rng, tense=tense, front=False, short=True)
    other = _clause(rng, tense=tense, front=False, short=True, timed=main.time is None)
    return Plan(main, conjunction=conjunction, other=other, other_first=first)


def _clause(
    rng: random.Random,
    *,
    tense: Tense | None = None,
    front: bool = True,
    rich: bool = False,
    short: bool = False,
    timed: bool = True,
) -> Clause:
    """A statement. front: time may come first; rich, short: more relative clauses, fewer times; timed: time allowed."""
    tense = tense or _tense(rng)
    kind = rng.random()
    if kind < 0.12:
        clause = _copula(rng, tense)
    elif kind < 0.22 and tense == "past":
        clause = _passive(rng)
    else:
        clause = _active(rng, tense)
    lasting = (
        clause.verb.stative
        if clause.verb
        else clause.predicate and clause.predicate.english != "tired"
    )
    if timed and not lasting and rng.random() < (0.2 if short else 0.4):
        clause.time = _time(rng, clause.tense)
        clause.time_first = front and rng.random() < 0.6
    if rng.random() < (0.35 if rich else 0.08):
        _add_relative(rng, clause)
    return clause


def _tense(rng: random.Random) -> Tense:
    return rng.choice(("past", "past", "present", "present", "modal"))


def _active(rng: random.Random, tense: Tense, verb: Verb | None = None) -> Clause:
    verb = verb or _verb(rng)
    clause = Clause(subject=_subject(rng), verb=verb, tense=tense, particle_late=rng.random() < 0.6)
    if tense == "modal":
        clause.modal = rng.choice(lexicon.MODALS)
    elif rng.random() < 0.14:
        clause.negated = True
    _fill(rng, clause)
    static = (
        verb.german_auxiliary == "hat"
        and not verb.stative
        and verb.objects not in ("places", "seasons")
    )
    if verb.frame in ("plain", "object") and static:
        chance = 0.5 if verb.frame == "plain" else 0.22
        if rng.random() < chance:
            clause.place = _place(rng)
    return clause


def _fill(rng: random.Random, clause: Clause) -> None:
    """Give the verb its objects."""
    verb = clause.verb
    assert verb
    things = lexicon.POOLS["portable"]
    if verb.frame == "give":
        clause.object = _person(rng, avoid=clause.subject.noun)
        clause.second = _noun_phrase(rng, things, numbers=0.2)
    elif verb.frame in ("about", "for"):
        clause.object = _person(rng, avoid=clause.subject.noun)
        clause.second = _noun_phrase(rng, things)
    elif verb.objects == "people":
        clause.object = _person(rng, avoid=clause.subject.noun)
    elif verb.objects:
        numbers = (
            0.0
            if verb.objects in ("facts", "money", "seasons", "places", "trains", "offers")
            else 0.22
        )
        clause.object = _thing(rng, verb, 0.0 if clause.negated else numbers)
    if verb.frame in lexicon.SURFACES:
        clause.surface = rng.choice(lexicon.SURFACES[verb.frame])
    if verb.frame == "leave":
        clause.place = _place(rng)


def _place(rng: random.Random) -> Phrase:
    """A place to be "in"."""
    place = _noun_phrase(
        rng, lexicon.POOLS["places"], definite=True, pool_adjectives=lexicon.PLACE_ADJECTIVES
    )
    if rng.random() < 0.25:
        place.determiner = rng.choice(("a", "this"))
    return place


def _thing(rng: random.Random, verb: Verb, numbers: float) -> Phrase:
    """An object, sometimes an ambiguous noun with the phrase that decides it."""
    if verb.base in ("find", "see", "describe") and rng.random() < 0.5:
        return _ambiguous(rng)
    pool = lexicon.POOLS[verb.objects]
    if verb.objects in ("money", "seasons", "facts"):
        return _noun_phrase(rng, pool, definite=True, adjectives=0)
    fitting = (
        lexicon.PLACE_ADJECTIVES
        if verb.objects in ("places", "trains", "offers")
        else lexicon.THING_ADJECTIVES
    )
    return _noun_phrase(rng, pool, numbers=numbers, pool_adjectives=fitting)


def _ambiguous(rng: random.Random) -> Phrase:
    sense = rng.choices(lexicon.SENSES, [item.weight for item in lexicon.SENSES])[0]
    return Phrase(sense.noun, "the", tail=sense.tail)


def _copula(rng: random.Random, tense: Tense) -> Clause:
    tense = "past" if tense == "modal" else tense
    negated = rng.random() < 0.2
    if rng.random() < 0.5:
        return Clause(
            _subject(rng),
            None,
            tense,
            predicate=rng.choice(lexicon.PERSON_ADJECTIVES),
            negated=negated,
        )
    thing = (
        _ambiguous(rng)
        if rng.random() < 0.4
        else _noun_phrase(rng, lexicon.POOLS["things"], definite=True, adjectives=0)
    )
    return Clause(
        thing, None, tense, predicate=rng.choice(lexicon.THING_ADJECTIVES), negated=negated
    )


def _passive(rng: random.Random) -> Clause:
    verb = rng.choice([verb for verb in lexicon.VERBS if verb.base in PASSIVES])
    subject = _noun_phrase(rng, lexicon.POOLS[verb.objects], definite=True)
    agent = _person(rng) if rng.random() < 0.6 else None
    return Clause(subject, verb, "past", object=agent, passive=True, negated=rng.random() < 0.12)


def _question(rng: random.Random) -> Clause:
    """A yes/no question or one with who, what or where."""
    kind = rng.choice(("polar", "polar", "who", "whom", "what", "where", "where"))
    tense: Tense = rng.choice(("past", "present"))
    if kind == "where":
        verb = (
            lexicon.GO
            if rng.random() < 0.35
            else rng.choice(
                [v for v in lexicon.VERBS if v.frame == "plain" and v.german_auxiliary == "hat"]
            )
        )
    elif kind in ("whom", "what"):
        pool = "people" if kind == "whom" else "things"
        verb = rng.choice([v for v in lexicon.VERBS if v.frame == "object" and v.objects == pool])
    else:
        verb = _verb(rng)
    clause = _active(rng, tense, verb)
    clause.negated, clause.question = False, kind  # type: ignore[assignment]
    if kind == "where":
        clause.place = None
    if kind == "who":
        clause.subject = Phrase(lexicon.PRONOUNS[0])
    if not verb.stative and rng.random() < 0.2:
        clause.time = _time(rng, tense)
    return clause


def _add_relative(rng: random.Random, clause: Clause) -> None:
    """Hang a relative clause on the subject or on a thing that is the object."""
    tense: Tense = rng.choice(("past", "present")) if clause.tense == "present" else "past"
    subject = clause.subject
    if rng.random() < 0.65 and not subject.noun.name and not subject.tail and subject.determiner:
        target = subject
    elif (
        clause.object
        and not clause.object.noun.name
        and not clause.object.tail
        and not clause.negated
    ):
        target = clause.object
    else:
        return
    if target.noun.person and rng.random() < 0.7:
        inner = _active(rng, tense)
        if inner.object and inner.object.noun is target.noun:
            return
        inner.subject, inner.gap = target, "subject"
    else:
        verbs = [
            v
            for v in lexicon.VERBS
            if v.base in OBJECT_RELATIVES and target.noun in lexicon.POOLS[v.objects]
        ]
        if not verbs:
            return
        other = target.noun if target.noun.person else subject.noun
        inner = Clause(_person(rng, avoid=other), rng.choice(verbs), tense, gap="object")
    if inner.verb and clause.verb and inner.verb.base == clause.verb.base:
        return
    target.relative = inner


def _verb(rng: random.Random) -> Verb:
    """A verb: every English verb is as likely as the next, its senses by their weights."""
    senses = lexicon.SENSES_OF_VERBS[rng.choice(_BASES)]
    return rng.choices(senses, [sense.weight for sense in senses])[0]


_BASES = [
    base
    for base, senses in lexicon.SENSES_OF_VERBS.items()
    for _ in range(3 if len(senses) > 1 else 2)
]


def _subject(rng: random.Random) -> Phrase:
    if rng.random() < 0.12:
        return Phrase(rng.choice(lexicon.PRONOUNS))
    return _person(rng)


def _person(rng: random.Random, avoid: Noun | None = None) -> Phrase:
    """A name or a noun phrase for a person other than ``avoid``."""
    if rng.random() < 0.33:
        return Phrase(_other(rng, lexicon.NAMES, avoid))
    phrase = _noun_phrase(rng, lexicon.PEOPLE, pool_adjectives=lexicon.PERSON_ADJECTIVES)
    phrase.noun = _other(
        rng, lexicon.RELATIONS if phrase.determiner == "my" else lexicon.PEOPLE, avoid
    )
    return phrase


def _other(rng: random.Random, pool: Sequence[Noun], avoid: Noun | None) -> Noun:
    noun = rng.choice(pool)
    return noun if noun is not avoid else _other(rng, pool, avoid)


def _noun_phrase(
    rng: random.Random,
    pool: Sequence[Noun],
    *,
    definite: bool = False,
    numbers: float = 0.0,
    adjectives: float = 0.22,
    pool_adjectives: Sequence[lexicon.Adjective] = lexicon.THING_ADJECTIVES,
) -> Phrase:
    """A noun with a determiner or number, perhaps an adjective (``numbers``, ``adjectives``: probabilities)."""
    noun = rng.choice(pool)
    adjective = rng.choice(pool_adjectives) if rng.random() < adjectives else None
    if rng.random() < numbers and noun.english_plural:
        return Phrase(noun, "", adjective, number=rng.choice(lexicon.NUMBERS))
    determiner = (
        "the" if definite else rng.choices(("the", "a", "my", "this"), (0.64, 0.16, 0.12, 0.08))[0]
    )
    return Phrase(noun, determiner, adjective)  # type: ignore[arg-type]


def _time(rng: random.Random, tense: Tense) -> Fixed:
    if tense != "past" or rng.random() < 0.5:
        return rng.choice(lexicon.TIMES[tense])
    number, unit = rng.choice(lexicon.NUMBERS[:-2]), rng.choice(lexicon.AGO)
    return Fixed(
        (number[0], unit[0], "ago"),
        (("vor", (2,)), (number[1], (0,)), (unit[1], (1,))),
        (("hace", (2,)), (number[2], (0,)), (unit[2], (1,))),
        ((number[3], (0,)), (unit[3], (1,)), ("前", (2,))),
    )
