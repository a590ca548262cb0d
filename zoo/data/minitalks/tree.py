"""What a sentence says, before any language: noun phrases, clauses and their places in the English sentence.

The English realiser writes word indices into ``at``; the other realisers read them. It knows no words and no order.
"""

from dataclasses import dataclass, field
from typing import Literal

from zoo.data.minitalks.lexicon import Adjective, Fixed, Noun, Verb

Indices = tuple[int, ...]
Tense = Literal["past", "present", "modal"]
Question = Literal["", "polar", "who", "whom", "what", "where"]


@dataclass(slots=True)
class Phrase:
    """A noun phrase. number: (English, German, Spanish, Chinese) or None. at: determiner, adjective, noun, tail."""

    noun: Noun
    determiner: Literal["", "the", "a", "my", "this"] = ""
    adjective: Adjective | None = None
    number: tuple[str, str, str, str] | None = None
    tail: Fixed | None = None
    relative: "Clause | None" = None
    at: dict[str, Indices] = field(default_factory=dict)

    @property
    def indefinite(self) -> bool:
        """A singular that negation turns into "kein"."""
        return self.determiner == "a"

    @property
    def decided(self) -> Indices:
        """The English words after which the noun's sense, and with it its gender, is known."""
        return self.at["noun"] + self.at.get("tail", ())


@dataclass(slots=True)
class Clause:
    """A clause; ``verb`` None is a copula with ``predicate``. gap: what a relative clause leaves out.

    object: of the verb, or the receiver of "give" and "ask"; second: the thing given or asked for. surface: where a
    thing is put. at: auxiliary, negation, verb, particle, preposition, surface, time, place, question, relative, agent.
    """

    subject: Phrase
    verb: Verb | None
    tense: Tense
    modal: Fixed | None = None
    object: Phrase | None = None
    second: Phrase | None = None
    surface: Fixed | None = None
    place: Phrase | None = None
    time: Fixed | None = None
    predicate: Adjective | None = None
    time_first: bool = False
    particle_late: bool = True
    negated: bool = False
    passive: bool = False
    question: Question = ""
    gap: Literal["", "subject", "object"] = ""
    antecedent: Phrase | None = None
    at: dict[str, Indices] = field(default_factory=dict)

    @property
    def decided(self) -> Indices:
        """The English words after which the verb's sense is known: its object, particle or preposition."""
        if self.verb is None:
            return ()
        if self.verb.particle and not self.passive:
            return self.at["particle"]
        if self.verb.frame in ("put", "hang"):
            return self.at["surface"]
        if self.verb.frame in ("about", "for"):
            return self.at["preposition"]
        if self.question in ("whom", "what"):
            return self.at["question"]
        thing = self.object or (self.antecedent if self.gap == "object" else None)
        return thing.decided if thing else ()

    @property
    def last(self) -> Indices:
        """The last English word of the clause."""
        return (self.at["end"][0],)


@dataclass(slots=True)
class Plan:
    """One or two clauses; the second one is subordinate to ``report`` or ``conjunction``, or beside the first."""

    main: Clause | None
    report: Fixed | None = None
    conjunction: Fixed | None = None
    other: Clause | None = None
    other_first: bool = False
    that: bool = True
    at: dict[str, Indices] = field(default_factory=dict)
