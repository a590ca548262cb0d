"""Spanish: gender, adjectives behind nouns, personal "a", ser and estar, "no" before the verb, verb-first questions."""

from zoo.data.minitalks.lexicon import SENSES_OF_VERBS
from zoo.data.minitalks.line import Line
from zoo.data.minitalks.tree import Clause, Indices, Phrase, Plan

ARTICLES = {
    "the": {"m": "el", "f": "la"},
    "a": {"m": "un", "f": "una"},
    "my": {"m": "mi", "f": "mi"},
    "this": {"m": "este", "f": "esta"},
}


def spanish(plan: Plan, last: int) -> Line:
    """Realise ``plan``; ``last`` is the index of the last English word."""
    line = Line()
    if plan.report and plan.other:
        line.marked(plan.report.spanish, plan.at["report"])
        _clause(line, plan.other)
    if plan.conjunction and plan.other and plan.main:
        if not plan.other_first:
            _clause(line, plan.main)
        word = plan.conjunction.spanish[0][0]
        line.add("como" if plan.other_first and word == "porque" else word, plan.at["conjunction"])
        _clause(line, plan.other)
        if plan.other_first:
            line.comma()
    if plan.main and (plan.other_first or not plan.other):
        _clause(line, plan.main)
    asks = bool(plan.main and plan.main.question)
    line.finish("?" if asks else ".", last, opening="¿" if asks else "")
    return line


def phrase(line: Line, item: Phrase, *, person: bool = False) -> None:
    """A noun phrase; ``person``: behind the preposition "a", which merges with "el"."""
    gender, decided = item.noun.spanish_gender, item.decided
    at = item.at.get("determiner", ())
    if (
        item.determiner and not item.adjective
    ):  # side by side, a word aligner links the article to its noun too
        at += item.at["noun"]
    article = ARTICLES[item.determiner][gender] if item.determiner else ""
    if person and article == "el":
        line.add("al", at, decided)
    else:
        if person:
            line.add("a", (), item.at["noun"])
        line.add(item.number[2] if item.number else article, at, () if item.number else decided)
    line.add(
        item.noun.spanish_plural if item.number else item.noun.spanish, item.at["noun"], decided
    )
    if item.adjective:
        form = (
            item.adjective.spanish_masculine if gender == "m" else item.adjective.spanish_feminine
        )
        line.add(form + ("s" if item.number else ""), item.at["adjective"], decided)
    if item.tail:
        line.marked(item.tail.spanish, item.at["tail"], item.at["tail"][-1:])
    if item.relative:
        _relative(line, item, item.relative)


def _relative(line: Line, item: Phrase, clause: Clause) -> None:
    if clause.gap == "object" and item.noun.person:
        line.add("a", (), clause.at["relative"])
        line.add("quien", clause.at["relative"])
    else:
        line.add("que", clause.at["relative"])
    _clause(line, clause)


def _clause(line: Line, clause: Clause) -> None:
    at = clause.at
    if clause.time and clause.time_first:
        line.marked(clause.time.spanish, at["time"], at["time"])
    if clause.question:
        _question_word(line, clause)
        _verb(line, clause)
    has_subject = clause.gap != "subject" and clause.question != "who"
    if has_subject:
        phrase(line, clause.subject)
    if not clause.question:
        _verb(line, clause)
    _rest(line, clause)
    if clause.time and not clause.time_first:
        line.marked(clause.time.spanish, at["time"], at["time"])


def _question_word(line: Line, clause: Clause) -> None:
    at = clause.at
    needs = at.get("auxiliary", ()) + at["verb"]
    if clause.question == "whom":
        line.add("a", (), needs)
    if clause.question != "polar" and clause.verb:
        where = "adónde" if clause.verb.base == "go" else "dónde"
        word = {"who": "quién", "whom": "quién", "what": "qué", "where": where}[clause.question]
        line.add(word, at["question"], () if clause.question == "what" else needs)


def _verb(line: Line, clause: Clause) -> None:
    """Negation, clitic and verb."""
    at, verb, past = clause.at, clause.verb, clause.tense == "past"
    needs = _sense(clause)
    line.add("no" if clause.negated else "", at.get("negation", ()))
    if verb is None:
        assert clause.predicate
        state = clause.predicate.english == "tired"
        copula = ("estaba" if past else "está") if state else ("era" if past else "es")
        line.add(copula, at["verb"], at["predicate"])
        line.add(_agree(clause, clause.predicate.spanish_masculine), at["predicate"])
    elif clause.passive:
        line.add("fue" if past else "es", at["auxiliary"], at["verb"])
        line.add(_agree(clause, verb.spanish_participle), at["verb"], needs)
    else:
        line.add("le" if verb.frame in ("give", "about", "for") else "", (), (*at["verb"], *needs))
        aligned = at["verb"] + at.get("particle", ())
        if clause.modal:
            line.marked(clause.modal.spanish, at["auxiliary"])
            line.add(verb.spanish, aligned, needs)
        else:
            line.add(verb.spanish_past if past else verb.spanish_present, at["verb"], needs)


def _agree(clause: Clause, masculine: str) -> str:
    feminine = clause.subject.noun.spanish_gender == "f"
    return masculine[:-1] + "a" if feminine and masculine.endswith("o") else masculine


def _sense(clause: Clause) -> Indices:
    """What reveals the verb, if its English form has several Spanish translations."""
    if clause.verb is None:
        return ()
    senses = {sense.spanish for sense in SENSES_OF_VERBS.get(clause.verb.base, ())}
    return clause.decided if len(senses) > 1 else ()


def _rest(line: Line, clause: Clause) -> None:
    """Objects, agent, surface and place."""
    at, verb = clause.at, clause.verb
    if clause.passive and clause.object:
        line.add("por", at["agent"])
        phrase(line, clause.object)
    elif clause.object and clause.gap != "object" and clause.question not in ("whom", "what"):
        phrase(line, clause.object, person=clause.object.noun.person)
    if clause.second:
        line.add("por" if verb and verb.frame == "about" else "", at.get("preposition", ()))
        phrase(line, clause.second)
    if clause.surface:
        line.marked(clause.surface.spanish, at["surface"], at["surface"][-1:])
    if clause.place:
        line.add("en", at["in"])
        phrase(line, clause.place)
