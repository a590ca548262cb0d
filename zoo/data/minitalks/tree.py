"""The structure of a sentence, independent of language: noun phrases, clauses and sentence plans.

The English realiser stores in ``positions`` which words of the English sentence realise each part;
the other realisers read these word indices for alignment and lookahead.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from zoo.data.minitalks.lexicon import VERB_SENSES, Adjective, FixedPhrase, Noun, Verb

Indices = tuple[int, ...]  # indices of words in the English sentence
Tense = Literal["past", "present", "modal"]
Question = Literal["", "polar", "who", "whom", "what", "where"]


@dataclass(slots=True)
class NounPhrasePositions:
    """Indices of the English words of a noun phrase; empty for what the phrase lacks."""

    determiner: Indices = ()
    adjective: Indices = ()
    noun: Indices = ()
    modifier: Indices = ()


@dataclass(slots=True)
class ClausePositions:
    """Indices of the English words of a clause; empty for what the clause lacks.

    Attributes:
        auxiliary: auxiliary or modal verb.
        negation: "not" or a contraction with it.
        verb: main verb or copula.
        particle: particle of the verb, such as "up".
        preposition: preposition that the verb requires, such as "about".
        surface: the phrase ``Clause.surface``.
        time: the phrase ``Clause.time``.
        place_preposition: "in" before ``Clause.place``.
        question: question word.
        relative: relative pronoun.
        agent: "by" before the agent of a passive.
        predicate: adjective after the copula.
        end: last word of the clause.
    """

    auxiliary: Indices = ()
    negation: Indices = ()
    verb: Indices = ()
    particle: Indices = ()
    preposition: Indices = ()
    surface: Indices = ()
    time: Indices = ()
    place_preposition: Indices = ()
    question: Indices = ()
    relative: Indices = ()
    agent: Indices = ()
    predicate: Indices = ()
    end: Indices = ()


@dataclass(slots=True)
class SentencePositions:
    """Indices of the English words that join clauses; empty for what the sentence lacks."""

    report: Indices = ()
    that: Indices = ()
    conjunction: Indices = ()


@dataclass(slots=True)
class NounPhrase:
    """A noun with its determiner and modifiers.

    Attributes:
        noun: the noun, a name or a pronoun.
        determiner: the English determiner; empty for names, pronouns and counted nouns.
        adjective: adjective of the noun.
        number: English, German, Spanish and Chinese number word.
        modifier: a phrase after an ambiguous noun, such as "by the river".
        relative: a relative clause.
        positions: indices of its English words, which the English realiser stores.
    """

    noun: Noun
    determiner: Literal["", "the", "a", "my", "this"] = ""
    adjective: Adjective | None = None
    number: tuple[str, str, str, str] | None = None
    modifier: FixedPhrase | None = None
    relative: "Clause | None" = None
    positions: NounPhrasePositions = field(default_factory=NounPhrasePositions)

    @property
    def indefinite(self) -> bool:
        """Whether German negation turns the determiner into "kein"."""
        return self.determiner == "a"

    @property
    def disambiguation(self) -> Indices:
        """The English words that determine the noun's sense, and so its gender."""
        return self.positions.noun + self.positions.modifier


@dataclass(slots=True)
class Clause:
    """A clause.

    Attributes:
        subject: subject of the active or passive verb.
        verb: the verb; None: the copula with ``predicate``.
        tense: past, present, or present with the modal verb ``modal``.
        modal: modal verb.
        object: object of the verb; the person for "give" and "ask"; the agent of a passive.
        second_object: the thing that is given or asked for.
        surface: goal of "put", such as "on the table".
        place: noun phrase after "in".
        time: adverbial of time.
        predicate: adjective after the copula.
        time_first: whether the English sentence starts with ``time``.
        particle_late: whether the English particle follows the object.
        negated: whether the clause is negated.
        passive: whether the verb is passive.
        question: type of question; empty for statements.
        gap: the constituent that a relative clause omits.
        antecedent: the noun phrase that a relative clause modifies.
        positions: indices of its English words, which the English realiser stores.
    """

    subject: NounPhrase
    verb: Verb | None
    tense: Tense
    modal: FixedPhrase | None = None
    object: NounPhrase | None = None
    second_object: NounPhrase | None = None
    surface: FixedPhrase | None = None
    place: NounPhrase | None = None
    time: FixedPhrase | None = None
    predicate: Adjective | None = None
    time_first: bool = False
    particle_late: bool = True
    negated: bool = False
    passive: bool = False
    question: Question = ""
    gap: Literal["", "subject", "object"] = ""
    antecedent: NounPhrase | None = None
    positions: ClausePositions = field(default_factory=ClausePositions)

    @property
    def has_plain_object(self) -> bool:
        """Whether the object is realised after the verb: neither omitted nor a question word."""
        is_question_word = self.question in ("whom", "what")
        return self.object is not None and self.gap != "object" and not is_question_word

    @property
    def last_word(self) -> Indices:
        """The index of the clause's last English word."""
        return (self.positions.end[0],)

    def noun_phrases(self) -> Iterator[NounPhrase]:
        """Yield the noun phrases of the clause and of its relative clauses, each once."""
        subject = None if self.gap == "subject" else self.subject  # the antecedent
        for phrase in (subject, self.object, self.second_object, self.place):
            if phrase:
                yield phrase
                if phrase.relative:
                    yield from phrase.relative.noun_phrases()

    def verb_disambiguation(self, language: str) -> Indices:
        """Return the English words that determine which translation of the verb is meant.

        Args:
            language: ``german``, ``spanish`` or ``chinese``.

        Returns:
            Indices of the particle, preposition, surface or object; empty if the English verb has
            one translation only.
        """
        if self.verb is None:
            return ()
        translations = {getattr(sense, language) for sense in VERB_SENSES.get(self.verb.base, ())}
        return self._verb_sense_words() if len(translations) > 1 else ()

    def _verb_sense_words(self) -> Indices:
        assert self.verb
        if self.verb.particle and not self.passive:
            return self.positions.particle
        if self.verb.frame in ("put", "hang"):
            return self.positions.surface
        if self.verb.frame in ("about", "for"):
            return self.positions.preposition
        if self.question in ("whom", "what"):
            return self.positions.question
        thing = self.object or (self.antecedent if self.gap == "object" else None)
        return thing.disambiguation if thing else ()


@dataclass(slots=True)
class SentencePlan:
    """One main clause, a reported clause, or a main clause with a subordinate clause.

    Attributes:
        main: the main clause; None if ``report`` introduces the subordinate clause.
        report: a phrase such as "I think".
        conjunction: introduces the subordinate clause.
        subordinate: the reported clause, or the clause after ``conjunction``.
        subordinate_first: whether the English subordinate clause precedes the main clause.
        that: whether "that" follows ``report`` in English.
        positions: indices of its English words, which the English realiser stores.
    """

    main: Clause | None
    report: FixedPhrase | None = None
    conjunction: FixedPhrase | None = None
    subordinate: Clause | None = None
    subordinate_first: bool = False
    that: bool = True
    positions: SentencePositions = field(default_factory=SentencePositions)

    def noun_phrases(self) -> Iterator[NounPhrase]:
        """Yield the noun phrases of both clauses, each once."""
        for clause in (self.main, self.subordinate):
            if clause:
                yield from clause.noun_phrases()

    @property
    def is_question(self) -> bool:
        """Whether the sentence ends with a question mark."""
        return bool(self.main and self.main.question)
