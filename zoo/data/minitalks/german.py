"""The German realiser.

Its grammar: gender, case and adjective endings, the verb bracket, verb-final subordinate clauses,
separable verbs, nicht and kein.
"""

from collections.abc import Iterable
from typing import Literal

from zoo.data.minitalks.target_builder import TargetBuilder
from zoo.data.minitalks.tree import Clause, Indices, NounPhrase, SentencePlan

Case = Literal["nom", "acc", "dat"]
# Position of the finite verb: statement; question, or after a fronted constituent; subordinate.
Order = Literal["second", "first", "final"]

DEFINITE = {
    "nom": {"m": "der", "f": "die", "n": "das"},
    "acc": {"m": "den", "f": "die", "n": "das"},
    "dat": {"m": "dem", "f": "der", "n": "dem"},
}
# Endings of ein, mein and kein, and of dies.
EIN_ENDINGS = {
    "nom": {"m": "", "f": "e", "n": ""},
    "acc": {"m": "en", "f": "e", "n": ""},
    "dat": {"m": "em", "f": "er", "n": "em"},
}
DIES_ENDINGS = {
    "nom": {"m": "er", "f": "e", "n": "es"},
    "acc": {"m": "en", "f": "e", "n": "es"},
    "dat": {"m": "em", "f": "er", "n": "em"},
}


def realise_german(plan: SentencePlan, last: int) -> TargetBuilder:
    """Realise a sentence plan in German; call ``realise_english`` first.

    Args:
        plan: the sentence plan with English positions.
        last: index of the last English word.
    """
    target, positions = TargetBuilder(), plan.positions
    if plan.report:
        target.add_fixed(plan.report.german, positions.report)
        target.add("dass", positions.that)
        assert plan.subordinate
        _add_clause(target, plan.subordinate, order="final")

    if plan.main and not plan.subordinate_first:
        _add_clause(target, plan.main, order="second")
    if plan.conjunction and plan.subordinate:
        if plan.main and not plan.subordinate_first:
            target.comma(positions.conjunction)
        _add_conjunction(target, plan)
        _add_clause(target, plan.subordinate, order="final")
    if plan.main and plan.subordinate_first:
        target.comma()
        _add_clause(target, plan.main, order="first")

    target.finish("?" if plan.is_question else ".", last)
    return target


def _add_conjunction(target: TargetBuilder, plan: SentencePlan) -> None:
    assert plan.conjunction
    assert plan.subordinate
    word = plan.conjunction.german[0][0]
    needs: Indices = ()
    if plan.conjunction.english == ("when",):  # als for the past, wenn for the present
        word = "als" if plan.subordinate.tense == "past" else "wenn"
        needs = _finite_position(plan.subordinate)
    target.add(word, plan.positions.conjunction, needs)


def _finite_position(clause: Clause) -> Indices:
    return clause.positions.auxiliary or clause.positions.verb


def _add_noun_phrase(
    target: TargetBuilder, phrase: NounPhrase, case: Case, *, negation: Indices = ()
) -> None:
    """Append a noun phrase.

    Args:
        target: the sentence so far.
        phrase: the noun phrase.
        case: its case.
        negation: English position of "not" if the determiner becomes "kein".
    """
    gender, sense = phrase.noun.german_gender, phrase.disambiguation
    at = phrase.positions.determiner
    if phrase.determiner and not phrase.adjective:
        at += phrase.positions.noun  # a word aligner links an adjacent article to the noun too

    if phrase.number:
        target.add(phrase.number[1], at)
    elif negation:
        target.add("kein" + EIN_ENDINGS[case][gender], (*negation, *at), sense)
    elif phrase.determiner == "the":
        target.add(DEFINITE[case][gender], at, sense)
    elif phrase.determiner == "this":
        target.add("dies" + DIES_ENDINGS[case][gender], at, sense)
    elif phrase.determiner:
        stem = {"a": "ein", "my": "mein"}[phrase.determiner]
        target.add(stem + EIN_ENDINGS[case][gender], at, sense)
    _add_noun(target, phrase, case)


def _add_noun(target: TargetBuilder, phrase: NounPhrase, case: Case) -> None:
    """Append adjective, noun, modifier and relative clause."""
    positions = phrase.positions
    if phrase.adjective:
        form = phrase.adjective.german + _adjective_ending(phrase, case)
        target.add(form, positions.adjective, phrase.disambiguation)

    noun = phrase.noun.german
    if phrase.number:
        noun = phrase.noun.german_plural
        noun += "n" if case == "dat" and noun[-1] not in "ns" else ""
    target.add(noun, positions.noun, positions.modifier)

    if phrase.modifier:
        at = positions.modifier
        target.add_fixed(phrase.modifier.german, at, at[-1:] if len(at) > 1 else ())
    if phrase.relative:
        _add_relative_clause(target, phrase, phrase.relative)


def _adjective_ending(phrase: NounPhrase, case: Case) -> str:
    gender = phrase.noun.german_gender
    if phrase.number:
        return "en" if case == "dat" else "e"
    if case == "dat" or (case == "acc" and gender == "m"):
        return "en"
    if gender == "f" or phrase.determiner in ("the", "this"):
        return "e"
    return "er" if gender == "m" else "es"


def _add_relative_clause(target: TargetBuilder, antecedent: NounPhrase, clause: Clause) -> None:
    at = clause.positions.relative
    case: str = "nom"
    if clause.gap == "object" and clause.verb:
        case = clause.verb.german_case
    pronoun = "die" if antecedent.number else DEFINITE[case][antecedent.noun.german_gender]
    after = (at[0] + 1,) if clause.gap == "subject" else clause.positions.verb

    target.comma(at)
    target.add(pronoun, at, after)
    _add_clause(target, clause, order="final")
    target.end_clause()


def _add_clause(target: TargetBuilder, clause: Clause, order: Order) -> None:
    if clause.question:
        _add_question_word(target, clause)
        order = "first"
    if order == "final":
        _add_final_clause(target, clause)
        return

    if order == "second" and clause.time and clause.time_first:
        target.add_fixed(clause.time.german, clause.positions.time, clause.positions.time)
        order = "first"
    finite, finite_at, end, end_at = _verb(clause)
    if order == "second":
        _add_subject(target, clause)
    target.add(finite, finite_at, _finite_needs(clause))
    if order == "first":
        _add_subject(target, clause)
    _add_middle(target, clause)
    if end:
        target.add(end, end_at, (*clause.verb_disambiguation("german"), *clause.last_word))


def _add_final_clause(target: TargetBuilder, clause: Clause) -> None:
    """Append a subordinate clause, in which the finite verb comes last."""
    finite, finite_at, end, end_at = _verb(clause)
    needs = (*clause.verb_disambiguation("german"), *clause.last_word)
    _add_subject(target, clause)
    _add_middle(target, clause)

    if clause.tense == "present" and end and not clause.passive and not clause.modal:
        target.add(end + finite, finite_at + end_at, needs)  # a separable prefix joins the verb
        return
    if end:
        target.add(end, end_at, needs)
    target.add(finite, finite_at, (*_finite_needs(clause), *clause.last_word))


def _finite_needs(clause: Clause) -> Indices:
    """Return the English words that determine the finite verb.

    For an auxiliary these are the verb (hat or ist, wurde) or the predicate (war); a modal verb
    depends on no other word.
    """
    if clause.verb and clause.tense == "present" and not clause.passive:
        return clause.verb_disambiguation("german")
    if clause.modal:
        return ()
    return clause.positions.predicate or clause.positions.verb


def _add_question_word(target: TargetBuilder, clause: Clause) -> None:
    positions = clause.positions
    if clause.question == "polar":
        return
    assert clause.verb
    word = {
        "who": "wer",
        "whom": "wem" if clause.verb.german_case == "dat" else "wen",
        "what": "was",
        "where": "wohin" if clause.verb.base == "go" else "wo",
    }[clause.question]
    needs = positions.auxiliary + positions.verb
    target.add(word, positions.question, () if clause.question == "what" else needs)


def _verb(clause: Clause) -> tuple[str, Indices, str, Indices]:
    """Return the finite verb and the right part of the verb bracket, each with its alignment."""
    at, verb, past = clause.positions, clause.verb, clause.tense == "past"
    particle = at.particle
    if verb is None:
        return "war" if past else "ist", at.verb, "", ()
    if clause.passive:
        auxiliary = "wurde" if past else "wird"
        return auxiliary, at.auxiliary, verb.german_participle, at.verb
    if clause.modal:
        return clause.modal.german[0][0], at.auxiliary, verb.german, at.verb + particle
    if past:
        finite_at = _finite_position(clause)
        return verb.german_auxiliary, finite_at, verb.german_participle, at.verb + particle
    prefix_at = particle or (at.verb if verb.german_particle else ())
    return verb.german_third, at.verb, verb.german_particle, prefix_at


def _add_subject(target: TargetBuilder, clause: Clause) -> None:
    if clause.gap != "subject" and clause.question != "who":
        _add_noun_phrase(target, clause.subject, "nom")


def _add_middle(target: TargetBuilder, clause: Clause) -> None:
    """Append everything between the subject and the right part of the verb bracket."""
    positions = clause.positions
    negation = positions.negation
    thing = clause.second_object or clause.object
    indefinite = thing is not None and (thing.indefinite or thing.number is not None)

    if indefinite:  # a time precedes an indefinite object and follows a definite object
        _add_time(target, clause)
    negated_by_kein = _add_objects(target, clause, negation)
    if not indefinite:
        _add_time(target, clause)
    if negation and not negated_by_kein:
        target.add("nicht", negation)

    if clause.verb and clause.second_object and clause.verb.frame == "about":
        target.add("nach", positions.preposition)
        _add_noun_phrase(target, clause.second_object, "dat")
    if clause.verb and clause.second_object and clause.verb.frame == "for":
        target.add("um", positions.preposition)
        _add_noun_phrase(target, clause.second_object, "acc")
    if clause.surface:
        at = positions.surface
        target.add_fixed(clause.surface.german, at, at[-1:])
    if clause.place:
        _add_prepositional_phrase(target, "in", positions.place_preposition, clause.place)
    if clause.passive and clause.object:
        _add_prepositional_phrase(target, "von", positions.agent, clause.object)
    if clause.predicate:
        target.add(clause.predicate.german_predicate, positions.predicate)


def _add_objects(target: TargetBuilder, clause: Clause, negation: Indices) -> bool:
    """Append the objects without preposition; return whether "kein" expresses the negation."""
    verb = clause.verb
    if verb is None or clause.passive:
        return False
    objects: list[tuple[NounPhrase, Case]] = []
    if clause.object and clause.has_plain_object:
        is_dative = verb.frame == "give" or verb.german_case == "dat"
        objects.append((clause.object, "dat" if is_dative else "acc"))
    if clause.second_object and verb.frame == "give":
        objects.append((clause.second_object, "acc"))

    for phrase, case in objects:
        _add_noun_phrase(target, phrase, case, negation=negation if phrase.indefinite else ())
    return bool(negation) and any(phrase.indefinite for phrase, _ in objects)


def _add_time(target: TargetBuilder, clause: Clause) -> None:
    if clause.time and not clause.time_first:
        target.add_fixed(clause.time.german, clause.positions.time, clause.positions.time)


def _add_prepositional_phrase(
    target: TargetBuilder, preposition: str, at: Indices, phrase: NounPhrase
) -> None:
    """Append a preposition and a noun phrase in the dative; "in dem" contracts to "im"."""
    sense = phrase.disambiguation
    if phrase.determiner == "the" and phrase.noun.german_gender != "f":
        contraction = {"in": "im", "von": "vom"}[preposition]
        noun = () if phrase.adjective else phrase.positions.noun  # as in _add_noun_phrase
        target.add(contraction, at + phrase.positions.determiner + noun, sense)
        _add_noun(target, phrase, "dat")
        return
    needs: Iterable[int] = sense if phrase.determiner == "the" else ()
    target.add(preposition, at, needs)
    _add_noun_phrase(target, phrase, "dat")
