"""The Spanish realiser.

Its grammar: gender, adjectives after nouns, personal "a", ser and estar, "no" before the verb,
verb-first questions.
"""

from zoo.data.minitalks.target_builder import TargetBuilder
from zoo.data.minitalks.tree import Clause, NounPhrase, SentencePlan

ARTICLES = {
    "the": {"m": "el", "f": "la"},
    "a": {"m": "un", "f": "una"},
    "my": {"m": "mi", "f": "mi"},
    "this": {"m": "este", "f": "esta"},
}
# Present and past of ser, and of estar for temporary states.
COPULAS = {False: ("es", "era"), True: ("está", "estaba")}


def realise_spanish(plan: SentencePlan, last: int) -> TargetBuilder:
    """Realise a sentence plan in Spanish; call ``realise_english`` first.

    Args:
        plan: the sentence plan with English positions.
        last: index of the last English word.
    """
    target = TargetBuilder()
    if plan.report and plan.subordinate:
        target.add_fixed(plan.report.spanish, plan.positions.report)
        _add_clause(target, plan.subordinate)

    if plan.conjunction and plan.subordinate and plan.main:
        if not plan.subordinate_first:
            _add_clause(target, plan.main)
        word = plan.conjunction.spanish[0][0]
        if plan.subordinate_first and word == "porque":
            word = "como"
        target.add(word, plan.positions.conjunction)
        _add_clause(target, plan.subordinate)
        if plan.subordinate_first:
            target.comma()

    if plan.main and (plan.subordinate_first or not plan.subordinate):
        _add_clause(target, plan.main)
    if plan.is_question:
        target.finish("?", last, opening="¿")
    else:
        target.finish(".", last)
    return target


def _add_noun_phrase(target: TargetBuilder, phrase: NounPhrase, *, person: bool = False) -> None:
    """Append a noun phrase.

    Args:
        target: the sentence so far.
        phrase: the noun phrase.
        person: whether the personal "a" precedes it, which contracts with "el".
    """
    noun, sense = phrase.noun, phrase.disambiguation
    at = phrase.positions.determiner
    if phrase.determiner and not phrase.adjective:
        at += phrase.positions.noun  # a word aligner links an adjacent article to the noun too

    article = ARTICLES[phrase.determiner][noun.spanish_gender] if phrase.determiner else ""
    if person and article == "el":
        target.add("al", at, sense)
    else:
        if person:
            target.add("a", (), phrase.positions.noun)
        if phrase.number:
            target.add(phrase.number[2], at)
        else:
            target.add(article, at, sense)

    form = noun.spanish_plural if phrase.number else noun.spanish
    target.add(form, phrase.positions.noun, sense)
    if phrase.adjective:
        masculine = noun.spanish_gender == "m"
        adjective = phrase.adjective
        form = adjective.spanish_masculine if masculine else adjective.spanish_feminine
        plural = "s" if phrase.number else ""
        target.add(form + plural, phrase.positions.adjective, sense)
    if phrase.modifier:
        at = phrase.positions.modifier
        target.add_fixed(phrase.modifier.spanish, at, at[-1:])
    if phrase.relative:
        _add_relative_clause(target, phrase, phrase.relative)


def _add_relative_clause(target: TargetBuilder, antecedent: NounPhrase, clause: Clause) -> None:
    at = clause.positions.relative
    if clause.gap == "object" and antecedent.noun.person:
        target.add("a", (), at)
        target.add("quien", at)
    else:
        target.add("que", at)
    _add_clause(target, clause)


def _add_clause(target: TargetBuilder, clause: Clause) -> None:
    if clause.time_first:
        _add_time(target, clause)
    if clause.question:
        _add_question_word(target, clause)
        _add_verb(target, clause)
    if clause.gap != "subject" and clause.question != "who":
        _add_noun_phrase(target, clause.subject)
    if not clause.question:
        _add_verb(target, clause)
    _add_complements(target, clause)
    if not clause.time_first:
        _add_time(target, clause)


def _add_time(target: TargetBuilder, clause: Clause) -> None:
    if clause.time:
        at = clause.positions.time
        target.add_fixed(clause.time.spanish, at, at)


def _add_question_word(target: TargetBuilder, clause: Clause) -> None:
    positions = clause.positions
    needs = positions.auxiliary + positions.verb
    if clause.question == "whom":
        target.add("a", (), needs)
    if clause.question != "polar" and clause.verb:
        where = "adónde" if clause.verb.base == "go" else "dónde"
        word = {"who": "quién", "whom": "quién", "what": "qué", "where": where}[clause.question]
        target.add(word, positions.question, () if clause.question == "what" else needs)


def _add_verb(target: TargetBuilder, clause: Clause) -> None:
    """Append negation, clitic and verb."""
    positions, verb, past = clause.positions, clause.verb, clause.tense == "past"
    if clause.negated:
        target.add("no", positions.negation)

    if verb is None:
        assert clause.predicate
        present_form, past_form = COPULAS[clause.predicate.english == "tired"]
        copula = past_form if past else present_form
        target.add(copula, positions.verb, positions.predicate)
        adjective = _agree(clause, clause.predicate.spanish_masculine)
        target.add(adjective, positions.predicate)
        return

    sense = clause.verb_disambiguation("spanish")
    if clause.passive:
        target.add("fue" if past else "es", positions.auxiliary, positions.verb)
        target.add(_agree(clause, verb.spanish_participle), positions.verb, sense)
        return

    if verb.frame in ("give", "about", "for"):
        target.add("le", (), (*positions.verb, *sense))
    if clause.modal:
        target.add_fixed(clause.modal.spanish, positions.auxiliary)
        target.add(verb.spanish, positions.verb + positions.particle, sense)
    else:
        form = verb.spanish_past if past else verb.spanish_present
        target.add(form, positions.verb, sense)


def _agree(clause: Clause, masculine: str) -> str:
    """Return the form of an adjective or participle that agrees with the subject."""
    feminine = clause.subject.noun.spanish_gender == "f"
    return masculine[:-1] + "a" if feminine and masculine.endswith("o") else masculine


def _add_complements(target: TargetBuilder, clause: Clause) -> None:
    """Append objects, agent, surface and place."""
    positions, verb = clause.positions, clause.verb
    if clause.passive and clause.object:
        target.add("por", positions.agent)
        _add_noun_phrase(target, clause.object)
    elif clause.object and clause.has_plain_object:
        _add_noun_phrase(target, clause.object, person=clause.object.noun.person)

    if clause.second_object:
        if verb and verb.frame == "about":
            target.add("por", positions.preposition)
        _add_noun_phrase(target, clause.second_object)
    if clause.surface:
        at = positions.surface
        target.add_fixed(clause.surface.spanish, at, at[-1:])
    if clause.place:
        target.add("en", positions.place_preposition)
        _add_noun_phrase(target, clause.place)
