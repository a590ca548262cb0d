"""The lexicon of the built-in corpus: the tables of ``words.py`` as nouns, adjectives and verbs."""

from dataclasses import dataclass

from zoo.data.minitalks import words

# Target words, each with the indices of the English words of the phrase that it translates.
AlignedWords = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun, name or pronoun.

    Attributes:
        english, german, spanish, chinese: singular forms.
        german_gender: m, f or n.
        spanish_gender: m or f.
        classifier: Chinese measure word; empty for names and pronouns.
        person: whether it denotes a person.
        english_plural, german_plural, spanish_plural: empty if the grammar never counts the noun.
        name: whether it is a name or pronoun, which takes no determiner.
    """

    english: str
    german: str
    german_gender: str
    spanish: str
    spanish_gender: str
    chinese: str
    classifier: str
    person: bool = False
    english_plural: str = ""
    german_plural: str = ""
    spanish_plural: str = ""
    name: bool = False


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective.

    Attributes:
        english: English form.
        german: German stem, to which an ending is added.
        spanish_masculine, spanish_feminine: Spanish singular forms.
        chinese: Chinese form without 的.
        german_predicate: German form after a copula.
    """

    english: str
    german: str
    spanish_masculine: str
    spanish_feminine: str
    chinese: str
    german_predicate: str


@dataclass(frozen=True, slots=True)
class Verb:
    """One sense of an English verb with its translations.

    Attributes:
        base, third, past, participle: English forms.
        particle: English particle, such as "up"; may be empty.
        german, german_third, german_participle: infinitive, third person singular and participle.
        german_particle: separable prefix of the German verb; may be empty.
        german_auxiliary: auxiliary of the perfect, "hat" or "ist".
        german_case: case of the German object, "acc" or "dat".
        spanish, spanish_present, spanish_past, spanish_participle: infinitive and other forms.
        chinese: the verb, or ``before+after`` if it surrounds its object.
        objects: pool of nouns for the object; empty for intransitive verbs.
        frame: the arguments of the verb: plain (none), object, particle, two objects (give, about,
            for), a surface (put, hang) or a place (leave).
        weight: relative probability among the senses of the same English verb.
        stative: whether the Chinese verb takes no 了.
    """

    base: str
    third: str
    past: str
    participle: str
    particle: str
    german: str
    german_third: str
    german_particle: str
    german_participle: str
    german_auxiliary: str
    german_case: str
    spanish: str
    spanish_present: str
    spanish_past: str
    spanish_participle: str
    chinese: str
    objects: str
    frame: str
    weight: float
    stative: bool = False


@dataclass(frozen=True, slots=True)
class FixedPhrase:
    """A phrase that is translated as a whole.

    Attributes:
        english: English words.
        german, spanish, chinese: translations, aligned to the words of ``english``.
    """

    english: tuple[str, ...]
    german: AlignedWords
    spanish: AlignedWords
    chinese: AlignedWords


@dataclass(frozen=True, slots=True)
class NounSense:
    """One sense of an ambiguous English noun.

    Attributes:
        noun: the noun with the translations of this sense.
        modifier: the phrase after the noun that determines the sense.
        weight: relative probability among all noun senses.
    """

    noun: Noun
    modifier: FixedPhrase
    weight: float


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def _aligned_words(text: str) -> AlignedWords:
    items = (item.partition(":") for item in text.split())
    return tuple((word, tuple(map(int, indices))) for word, _, indices in items)


def _fixed(english: str, german: str, spanish: str, chinese: str) -> FixedPhrase:
    translations = map(_aligned_words, (german, spanish, chinese))
    return FixedPhrase(tuple(english.split()), *translations)


def _fixed_phrases(table: str) -> list[FixedPhrase]:
    return [_fixed(*row) for row in _rows(table)]


def _noun(text: str, plurals: str = "", *, person: bool = False) -> Noun:
    english, german, german_gender, spanish, spanish_gender, chinese, classifier = text.split()
    english_plural, german_plural, spanish_plural = plurals.split() or ["", "", ""]
    return Noun(
        *(english, german, german_gender, spanish, spanish_gender, chinese, classifier),
        person=person,
        english_plural=english_plural,
        german_plural=german_plural,
        spanish_plural=spanish_plural,
    )


def _adjective(row: list[str]) -> Adjective:
    english, german, spanish, chinese = row
    forms, endings = german.split(), spanish.split()
    return Adjective(english, forms[0], endings[0], endings[-1], chinese, forms[-1])


def _verb(row: list[str]) -> Verb:
    english, german, spanish, chinese, pool, weight, frame = row + [""] * (7 - len(row))
    base, third, past, *others = english.split()
    particle = "".join(word[1:] for word in others if word.startswith("+"))
    marks = [word for word in german.split() if word.startswith("(")]
    forms = [word for word in german.split() if word not in marks]
    infinitive, present, preterite, participle = spanish.split()
    return Verb(
        *(base, third, past),
        participle=past if not others or others[0].startswith("+") else others[0],
        particle=particle,
        german=forms[0],
        german_third=forms[1],
        german_participle=forms[2],
        german_particle="".join(forms[3:]),
        german_auxiliary="ist" if "(ist)" in marks else "hat",
        german_case="dat" if "(dat)" in marks else "acc",
        spanish=infinitive,
        spanish_present=present,
        spanish_past=preterite,
        spanish_participle=participle,
        chinese=chinese.rstrip("!"),
        objects=pool,
        frame=frame or ("particle" if particle else "object" if pool else "plain"),
        weight=float(weight or 1),
        stative=chinese.endswith("!"),
    )


def _noun_pools() -> dict[str, list[Noun]]:
    """Nouns by the name of the pool from which objects are drawn."""
    pools: dict[str, list[Noun]] = {"people": PEOPLE}
    for entry, plurals, tags in _rows(words.THINGS):
        thing = _noun(entry, plurals)
        for tag in ("things", *tags.split()):
            pools.setdefault(tag, []).append(thing)
    return pools | {name: [_noun(row[0]) for row in _rows(t)] for name, t in words.POOLS.items()}


def _names(table: str) -> list[Noun]:
    """Names of people, which are the same in English, German and Spanish."""
    return [
        Noun(name, name, gender, name, gender, chinese, "", person=True, name=True)
        for name, gender, chinese in _rows(table)
    ]


def _quadruples(table: str) -> list[tuple[str, str, str, str]]:
    """Rows of English, German, Spanish and Chinese."""
    return [(row[0], row[1], row[2], row[3]) for row in _rows(table)]


def _verb_senses() -> dict[str, list[Verb]]:
    """The senses of each English verb by its base form."""
    senses: dict[str, list[Verb]] = {}
    for verb in VERBS:
        senses.setdefault(verb.base, []).append(verb)
    return senses


PEOPLE = [_noun(row[0], person=True) for row in _rows(words.PEOPLE)]
_RELATED = ("sister", "brother", "grandmother", "doctor", "lawyer", "teacher")
RELATIONS = [noun for noun in PEOPLE if noun.english in _RELATED]  # people that "my" fits
NAMES = _names(words.NAMES)
RARE_NAMES = _names(words.RARE_NAMES)
PRONOUNS = [
    Noun("he", "er", "m", "él", "m", "他", "", person=True, name=True),
    Noun("she", "sie", "f", "ella", "f", "她", "", person=True, name=True),
]
POOLS = _noun_pools()
NOUN_SENSES = [
    NounSense(_noun(row[0]), _fixed(*row[1:5]), float(row[5])) for row in _rows(words.NOUN_SENSES)
]

THING_ADJECTIVES = [_adjective(row) for row in _rows(words.THING_ADJECTIVES)]
PERSON_ADJECTIVES = [_adjective(row) for row in _rows(words.PERSON_ADJECTIVES)]
PLACE_ADJECTIVES = [
    word
    for word in THING_ADJECTIVES + PERSON_ADJECTIVES
    if word.english in ("old", "new", "small", "beautiful", "famous")
]

VERBS = [_verb(row) for row in _rows(words.VERBS)]
GO = _verb(words.GO.split("|"))
VERB_SENSES = _verb_senses()

TIMES = {tense: _fixed_phrases(table) for tense, table in words.TIMES.items()}
SURFACES = {frame: _fixed_phrases(table) for frame, table in words.SURFACES.items()}
MODALS = _fixed_phrases(words.MODALS)
REPORTS = _fixed_phrases(words.REPORTS)
CONJUNCTIONS = _fixed_phrases(words.CONJUNCTIONS)
AGO = _quadruples(words.AGO)
NUMBERS = _quadruples(words.NUMBERS)
RARE_NUMBERS = _quadruples(words.RARE_NUMBERS)
FILLERS = words.FILLERS
