"""The lexicon of the built-in corpus: the tables of words.py as nouns, adjectives, verbs and fixed phrases.

It knows the shape of the entries but no grammar.
"""

from dataclasses import dataclass

from zoo.data.minitalks import words


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun; plural forms are empty where the grammar never counts it. classifier: the Chinese measure word."""

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
    """german: the stem that endings follow; chinese includes no 的."""

    english: str
    german: str
    spanish_masculine: str
    spanish_feminine: str
    chinese: str
    german_predicate: str


@dataclass(frozen=True, slots=True)
class Verb:
    """One sense of an English verb. What follows tells senses of the same English forms apart.

    particle: the English particle; german_particle: the separable prefix; german_case: the case of the object.
    chinese: the verb, or ``before+after`` around its object; stative Chinese verbs take no 了.
    objects: the pool of nouns for the object, or "" (intransitive). frame: what stands around it: nothing (plain),
    object, particle, two objects (give, about, for), a surface (put, hang), a place (leave).
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
class Fixed:
    """A phrase translated as a whole: words with the indices (into the English phrase) that they translate."""

    english: tuple[str, ...]
    german: tuple[tuple[str, tuple[int, ...]], ...]
    spanish: tuple[tuple[str, tuple[int, ...]], ...]
    chinese: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Sense:
    """A noun that the phrase behind it disambiguates."""

    noun: Noun
    tail: Fixed
    weight: float


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def _marked(text: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple(
        (word, tuple(map(int, marks)))
        for word, _, marks in (item.partition(":") for item in text.split())
    )


def _fixed(english: str, german: str, spanish: str, chinese: str) -> Fixed:
    return Fixed(tuple(english.split()), _marked(german), _marked(spanish), _marked(chinese))


def _phrases(table: str) -> list[Fixed]:
    return [_fixed(*row) for row in _rows(table)]


def _noun(text: str, plurals: str = "", *, person: bool = False) -> Noun:
    english, german, german_gender, spanish, spanish_gender, chinese, classifier = text.split()
    counted = plurals.split() or ["", "", ""]
    return Noun(
        *(english, german, german_gender, spanish, spanish_gender, chinese, classifier),
        person=person,
        english_plural=counted[0],
        german_plural=counted[1],
        spanish_plural=counted[2],
    )


def _adjective(row: list[str]) -> Adjective:
    english, german, spanish, chinese = row
    forms, endings = german.split(), spanish.split()
    return Adjective(english, forms[0], endings[0], endings[-1], chinese, forms[-1])


def _verb(row: list[str]) -> Verb:
    english, german, spanish, chinese, pool, weight, frame = row + [""] * (7 - len(row))
    marks = [word for word in german.split() if word.startswith("(")]
    forms = [word for word in german.split() if word not in marks]
    base, third, past, *others = english.split()
    particle = "".join(word[1:] for word in others if word.startswith("+"))
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
        **dict(
            zip(
                ("spanish", "spanish_present", "spanish_past", "spanish_participle"),
                spanish.split(),
                strict=True,
            )
        ),
        chinese=chinese.rstrip("!"),
        objects=pool,
        frame=frame or ("particle" if particle else "object" if pool else "plain"),
        weight=float(weight or 1),
        stative=chinese.endswith("!"),
    )


PEOPLE = [_noun(row[0], person=True) for row in _rows(words.PEOPLE)]
_RELATED = ("sister", "brother", "grandmother", "doctor", "lawyer", "teacher")
RELATIONS = [noun for noun in PEOPLE if noun.english in _RELATED]  # whom one calls "my"
NAMES = [
    Noun(name, name, gender, name, gender, chinese, "", person=True, name=True)
    for name, gender, chinese in _rows(words.NAMES)
]
PRONOUNS = [
    Noun("he", "er", "m", "él", "m", "他", "", person=True, name=True),
    Noun("she", "sie", "f", "ella", "f", "她", "", person=True, name=True),
]

POOLS: dict[str, list[Noun]] = {"people": PEOPLE}
for _entry, _plurals, _tags in _rows(words.THINGS):
    _thing = _noun(_entry, _plurals)
    for _tag in ("things", *_tags.split()):
        POOLS.setdefault(_tag, []).append(_thing)
POOLS |= {name: [_noun(row[0]) for row in _rows(table)] for name, table in words.POOLS.items()}

THING_ADJECTIVES = [_adjective(row) for row in _rows(words.THING_ADJECTIVES)]
PERSON_ADJECTIVES = [_adjective(row) for row in _rows(words.PERSON_ADJECTIVES)]
PLACE_ADJECTIVES = [
    word
    for word in THING_ADJECTIVES + PERSON_ADJECTIVES
    if word.english in ("old", "new", "small", "beautiful", "famous")
]

VERBS = [_verb(row) for row in _rows(words.VERBS)]
GO = _verb(words.GO.split("|"))
SENSES_OF_VERBS: dict[str, list[Verb]] = {}
for _sense in VERBS:
    SENSES_OF_VERBS.setdefault(_sense.base, []).append(_sense)
SENSES = [Sense(_noun(row[0]), _fixed(*row[1:5]), float(row[5])) for row in _rows(words.SENSES)]

TIMES = {tense: _phrases(table) for tense, table in words.TIMES.items()}
SURFACES = {frame: _phrases(table) for frame, table in words.SURFACES.items()}
MODALS = _phrases(words.MODALS)
REPORTS = _phrases(words.REPORTS)
CONJUNCTIONS = _phrases(words.CONJUNCTIONS)
AGO = [
    (english, german, spanish, chinese) for english, german, spanish, chinese in _rows(words.AGO)
]
NUMBERS = [
    (english, german, spanish, chinese)
    for english, german, spanish, chinese in _rows(words.NUMBERS)
]
FILLERS = words.FILLERS
