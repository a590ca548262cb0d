"""German: gender, case and adjective endings, the verb bracket, verb-final clauses, separable verbs, nicht and kein."""

from collections.abc import Iterable

from zoo.data.minitalks.lexicon import SENSES_OF_VERBS
from zoo.data.minitalks.line import Line
from zoo.data.minitalks.tree import Clause, Indices, Phrase, Plan

DEFINITE = {
    "nom": {"m": "der", "f": "die", "n": "das"},
    "acc": {"m": "den", "f": "die", "n": "das"},
    "dat": {"m": "dem", "f": "der", "n": "dem"},
}
ENDINGS = {
    "nom": {"m": "", "f": "e", "n": ""},
    "acc": {"m": "en", "f": "e", "n": ""},
    "dat": {"m": "em", "f": "er", "n": "em"},
}
THIS = {
    "nom": {"m": "er", "f": "e", "n": "es"},
    "acc": {"m": "en", "f": "e", "n": "es"},
    "dat": {"m": "em", "f": "er", "n": "em"},
}


def german(plan: Plan, last: int) -> Line:
    """Realise ``plan``; ``last`` is the index of the last English word."""
    line = Line()
    if plan.report:
        line.marked(plan.report.german, plan.at["report"])
        line.add("dass", plan.at.get("that", ()), plan.at.get("that", ()))
        assert plan.other
        _clause(line, plan.other, order="final")
    if plan.main and not plan.other_first:
        _clause(line, plan.main, order="second")
    if plan.conjunction and plan.other:
        if plan.main and not plan.other_first:
            line.comma(plan.at["conjunction"])
        _conjunction(line, plan)
        _clause(line, plan.other, order="final")
    if plan.main and plan.other_first:
        line.comma()
        _clause(line, plan.main, order="first")
    line.finish("?" if plan.main and plan.main.question else ".", last)
    return line


def _conjunction(line: Line, plan: Plan) -> None:
    assert plan.conjunction
    assert plan.other
    word = plan.conjunction.german[0][0]
    needs: Indices = ()
    if plan.conjunction.english == ("when",):  # als for the past, wenn for the present
        word, needs = ("als" if plan.other.tense == "past" else "wenn"), _finite_at(plan.other)
    line.add(word, plan.at["conjunction"], needs)


def _finite_at(clause: Clause) -> Indices:
    return clause.at.get("auxiliary", clause.at["verb"])


def phrase(
    line: Line, item: Phrase, case: str, *, negation: Indices = (), needs: Iterable[int] = ()
) -> None:
    """A noun phrase in a case. negation: where "not" stood if the phrase takes it as "kein"."""
    at, gender, decided = dict(item.at), item.noun.german_gender, (*item.decided, *needs)
    if (
        item.determiner and not item.adjective
    ):  # side by side, a word aligner links the article to its noun too
        at["determiner"] += at["noun"]
    if item.number:
        line.add(item.number[1], at["determiner"])
    elif negation:
        line.add("kein" + ENDINGS[case][gender], (*negation, *at["determiner"]), decided)
    elif item.determiner == "the":
        line.add(DEFINITE[case][gender], at["determiner"], decided)
    elif item.determiner == "this":
        line.add("dies" + THIS[case][gender], at["determiner"], decided)
    elif item.determiner:
        stem = {"a": "ein", "my": "mein"}[item.determiner]
        line.add(stem + ENDINGS[case][gender], at["determiner"], decided)
    _noun(line, item, case, decided)


def _noun(line: Line, item: Phrase, case: str, decided: Iterable[int]) -> None:
    """Adjective, noun and what follows them."""
    at = item.at
    if item.adjective:
        line.add(item.adjective.german + _ending(item, case), at["adjective"], decided)
    noun = item.noun.german
    if item.number:
        noun = item.noun.german_plural
        noun += "n" if case == "dat" and noun[-1] not in "ns" else ""
    line.add(noun, at["noun"], item.at.get("tail", ()))
    if item.tail:
        line.marked(item.tail.german, at["tail"], at["tail"][-1:] if len(at["tail"]) > 1 else ())
    if item.relative:
        _relative(line, item, item.relative)


def _ending(item: Phrase, case: str) -> str:
    gender = item.noun.german_gender
    if item.number:
        return "en" if case == "dat" else "e"
    if case == "dat" or (case == "acc" and gender == "m"):
        return "en"
    if gender == "f" or item.determiner in ("the", "this"):
        return "e"
    return "er" if gender == "m" else "es"


def _relative(line: Line, item: Phrase, clause: Clause) -> None:
    line.comma(clause.at["relative"])
    case = "nom" if clause.gap == "subject" else clause.verb.german_case if clause.verb else "nom"
    pronoun = "die" if item.number else DEFINITE[case][item.noun.german_gender]
    after = (clause.at["relative"][0] + 1,) if clause.gap == "subject" else clause.at["verb"]
    line.add(pronoun, clause.at["relative"], after)
    _clause(line, clause, order="final")
    line.close()


def _clause(line: Line, clause: Clause, order: str) -> None:
    """order: second (statement), first (after a fronted clause, questions), final (subordinate)."""
    finite, finite_at, end, end_at = _verb(clause)
    needs = _sense(clause)
    finite_needs = (
        needs if clause.verb and clause.tense == "present" and not clause.passive else _rest(clause)
    )
    if clause.question:
        order = _question_word(line, clause)
    if order == "final":
        _subject(line, clause)
        _middle(line, clause)
        if clause.tense == "present" and end and not clause.passive and not clause.modal:
            line.add(end + finite, finite_at + end_at, (*needs, *clause.last))
            return
        if end:
            line.add(end, end_at, (*needs, *clause.last))
        line.add(finite, finite_at, (*finite_needs, *clause.last))
        return
    if order == "second" and clause.time and clause.time_first:
        line.marked(clause.time.german, clause.at["time"], clause.at["time"])
        order = "first"
    if order == "second":
        _subject(line, clause)
    line.add(finite, finite_at, finite_needs)
    if order == "first":
        _subject(line, clause)
    _middle(line, clause)
    if end:
        line.add(end, end_at, (*needs, *clause.last))


def _question_word(line: Line, clause: Clause) -> str:
    """Add the question word; returns the order of the rest."""
    at = clause.at
    if clause.question == "polar":
        return "first"
    assert clause.verb
    word = {
        "who": "wer",
        "whom": "wem" if clause.verb.german_case == "dat" else "wen",
        "what": "was",
        "where": "wohin" if clause.verb.base == "go" else "wo",
    }[clause.question]
    line.add(
        word,
        at["question"],
        () if clause.question == "what" else at.get("auxiliary", ()) + at["verb"],
    )
    return "first"


def _sense(clause: Clause) -> Indices:
    """What reveals the verb, if its English form has several German translations."""
    if clause.verb is None:
        return ()
    senses = {sense.german for sense in SENSES_OF_VERBS.get(clause.verb.base, ())}
    return clause.decided if len(senses) > 1 else ()


def _rest(clause: Clause) -> Indices:
    """What reveals an auxiliary: the verb (hat or ist, wurde) or the predicate (war); a modal stands for itself."""
    return () if clause.modal else clause.at.get("predicate", clause.at["verb"])


def _verb(clause: Clause) -> tuple[str, Indices, str, Indices]:
    """The finite verb and the clause-final rest, each with its alignment."""
    at, verb = clause.at, clause.verb
    particle = at.get("particle", ())
    if verb is None:
        return ("war" if clause.tense == "past" else "ist"), at["verb"], "", ()
    if clause.passive:
        return (
            ("wurde" if clause.tense == "past" else "wird"),
            at["auxiliary"],
            verb.german_participle,
            at["verb"],
        )
    if clause.modal:
        return clause.modal.german[0][0], at["auxiliary"], verb.german, at["verb"] + particle
    if clause.tense == "past":
        return (
            verb.german_auxiliary,
            _finite_at(clause),
            verb.german_participle,
            at["verb"] + particle,
        )
    return (
        verb.german_third,
        at["verb"],
        verb.german_particle,
        particle or (at["verb"] if verb.german_particle else ()),
    )


def _subject(line: Line, clause: Clause) -> None:
    if clause.gap != "subject" and clause.question != "who":
        phrase(line, clause.subject, "nom")


def _middle(line: Line, clause: Clause) -> None:
    """Everything between the subject and the end of the bracket."""
    negation = clause.at.get("negation", ())
    thing = clause.second or clause.object
    early = thing is not None and (thing.indefinite or thing.number is not None)
    if early:
        _time(line, clause)
    taken = _objects(line, clause, negation)
    if not early:
        _time(line, clause)
    if negation and not taken:
        line.add("nicht", negation)
    if clause.verb and clause.second and clause.verb.frame in ("about", "for"):
        line.add({"about": "nach", "for": "um"}[clause.verb.frame], clause.at["preposition"])
        phrase(line, clause.second, {"about": "dat", "for": "acc"}[clause.verb.frame])
    if clause.surface:
        line.marked(clause.surface.german, clause.at["surface"], clause.at["surface"][-1:])
    if clause.place:
        _place(line, "in", clause.at["in"], clause.place)
    if clause.passive and clause.object:
        _place(line, "von", clause.at["agent"], clause.object)
    if clause.predicate:
        line.add(clause.predicate.german_predicate, clause.at["predicate"])


def _objects(line: Line, clause: Clause, negation: Indices) -> bool:
    """The objects without preposition; returns whether one of them took the negation as "kein"."""
    verb, taken = clause.verb, False
    if verb is None or clause.passive:
        return False
    objects: list[tuple[Phrase, str]] = []
    if clause.object and clause.gap != "object" and clause.question not in ("whom", "what"):
        objects.append((clause.object, "dat" if verb.frame == "give" else verb.german_case))
    if clause.second and verb.frame == "give":
        objects.append((clause.second, "acc"))
    for item, case in objects:
        kein = negation if item.indefinite else ()
        phrase(line, item, case, negation=kein)
        taken = taken or bool(kein)
    return taken


def _time(line: Line, clause: Clause) -> None:
    if clause.time and not clause.time_first:
        line.marked(clause.time.german, clause.at["time"], clause.at["time"])


def _place(line: Line, preposition: str, at: Indices, item: Phrase) -> None:
    """A dative prepositional phrase, contracted with the definite article where German does."""
    contracted = {"in": "im", "von": "vom"}[preposition]
    if item.determiner == "the" and item.noun.german_gender != "f":
        linked = () if item.adjective else item.at["noun"]  # as in phrase()
        line.add(contracted, at + item.at["determiner"] + linked, item.decided)
        _noun(line, item, "dat", item.decided)
        return
    line.add(preposition, at, item.decided if item.determiner == "the" else ())
    phrase(line, item, "dat")
