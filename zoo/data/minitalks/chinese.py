"""Chinese: no inflection, measure words, modifiers before nouns, time and place before the verb, 把, 被, 了 and 吗.

Every character is a word of the line; characters of one Chinese word share its alignment.
"""

from collections.abc import Iterable

from zoo.data.minitalks.lexicon import SENSES_OF_VERBS, Fixed
from zoo.data.minitalks.line import Line
from zoo.data.minitalks.tree import Clause, Indices, Phrase, Plan

AFTERWARDS = {
    "because": "所以",
    "although": "但是",
}  # opens the main clause that follows such a clause


def chinese(plan: Plan, last: int) -> Line:
    """Realise ``plan``; ``last`` is the index of the last English word."""
    line = Line()
    if plan.report and plan.other:
        _fixed(line, plan.report, plan.at["report"])
        _clause(line, plan.other)
    elif plan.conjunction and plan.other and plan.main:
        _two_clauses(line, plan, plan.conjunction.english[0])
    elif plan.main:
        _clause(line, plan.main)
    asks = bool(plan.main and plan.main.question)
    if plan.main and plan.main.question == "polar":
        _add(line, "吗", plan.main.at["auxiliary"], (last,))
    _add(line, "？" if asks else "。", (last,))
    for needs in line.needs:
        needs.discard(last + 1)  # behind the last word there is nothing to wait for
    return line


def _two_clauses(line: Line, plan: Plan, conjunction: str) -> None:
    """The order of the English clauses, except that "when" always comes first."""
    assert plan.conjunction
    assert plan.main
    assert plan.other
    at = plan.at["conjunction"]
    first = plan.other_first or conjunction == "when"
    if not first:
        _clause(line, plan.main)
        _add(line, "，", (), at)
    _fixed(line, plan.conjunction, at)
    _clause(line, plan.other, ended=conjunction != "when")
    if conjunction == "when":
        _add(line, "时", (), plan.other.last)
    if first:
        _add(line, "，", (), plan.other.last)
        _add(line, AFTERWARDS.get(conjunction, ""))
        _clause(line, plan.main)


def _add(line: Line, text: str, align: Iterable[int] = (), needs: Iterable[int] = ()) -> None:
    line.add(" ".join(text), tuple(align), tuple(needs))


def _fixed(line: Line, item: Fixed, at: Indices) -> None:
    for word, marks in item.chinese:
        _add(line, word, [at[mark] for mark in marks], at)


def phrase(line: Line, item: Phrase) -> None:
    """A noun phrase: determiner or number, measure word, what describes the noun, the noun."""
    at, noun = item.at, item.noun
    if item.relative and item.determiner == "my":
        _relative(line, item.relative)
    if item.number:
        _add(line, item.number[3], at["determiner"])
    elif item.determiner != "the" and item.determiner:
        _add(line, {"a": "一", "this": "这", "my": "我的"}[item.determiner], at["determiner"])
    if item.number or item.determiner in ("a", "this"):
        _add(line, noun.classifier, (), item.decided)
    if item.relative and item.determiner != "my":
        _relative(line, item.relative)
    if item.tail:
        _fixed(line, item.tail, at["tail"])
    # A relative clause would stand before the adjective or noun: the English word behind the noun tells.
    behind = () if noun.name or item.relative or item.tail else (at["noun"][0] + 1,)
    if item.adjective:
        _add(line, item.adjective.chinese, at["adjective"], behind)
        _add(line, "的", (), at["adjective"])
    _add(line, noun.chinese, at["noun"], (*item.decided, *behind))


def _relative(line: Line, clause: Clause) -> None:
    _clause(line, clause)
    _add(line, "的", clause.at["relative"])


def _clause(line: Line, clause: Clause, *, ended: bool = True) -> None:
    """ended: a past verb takes 了. What opens the predicate waits for time and place behind the English verb."""
    at = clause.at
    if clause.time and clause.time_first:
        _fixed(line, clause.time, at["time"])
    if clause.question == "who":
        _add(line, "谁", at["question"], at["verb"])
    elif clause.gap != "subject":
        phrase(line, clause.subject)
    start = len(line.words)
    if clause.time and not clause.time_first:
        _fixed(line, clause.time, at["time"])
    if clause.verb:
        _predicate(line, clause, ended)
    else:
        _copula(line, clause)
    opening = line.alignment[start]
    for at_character in range(start, len(line.words)):  # the characters of the first word
        if line.alignment[at_character] != opening:
            break
        line.needs[at_character].update(clause.last)


def _predicate(line: Line, clause: Clause, ended: bool) -> None:
    at, verb = clause.at, clause.verb
    assert verb
    if clause.modal:
        _fixed(line, clause.modal, at["auxiliary"])
    if clause.negated:
        unreal = clause.tense == "past" and not verb.stative
        _add(line, "没" if unreal else "不", at["negation"], at["auxiliary"] + at["verb"])
    if clause.place and verb.frame != "leave":
        _place(line, clause)
    _verb(line, clause, ended)


def _place(line: Line, clause: Clause) -> None:
    assert clause.place
    _add(line, "在", clause.at["in"])
    phrase(line, clause.place)
    _add(line, "里", clause.at["in"])


def _copula(line: Line, clause: Clause) -> None:
    assert clause.predicate
    word, at = clause.predicate.chinese, clause.at
    colour = word.endswith("色")
    if clause.negated:
        _add(line, "不", at["negation"])
    if colour:
        _add(line, "是", at["verb"], at["predicate"])
    elif not clause.negated:
        _add(line, "很", at["verb"], at["predicate"])
    _add(line, word, at["predicate"])
    _add(line, "的" if colour else "", (), at["predicate"])


def _verb(line: Line, clause: Clause, ended: bool) -> None:
    """The verb with 把, 被 or another word before its object, and what follows the verb."""
    verb, at = clause.verb, clause.at
    assert verb
    needs = _sense(clause)
    before, _, word = verb.chinese.rpartition("+")
    if clause.passive:
        _add(line, "被", at.get("agent", at["auxiliary"]), at["verb"])
        if clause.object:
            phrase(line, clause.object)
    elif clause.question == "where":
        _where(line, clause)
    elif before:
        _add(line, before, (), (*at["verb"], *needs))
        _object(line, clause)
    _add(line, word, at["verb"] + at.get("particle", ()), needs)
    where = clause.surface is not None or verb.frame == "leave"
    _add(line, "在" if where else "", at.get("in", at.get("surface", ()))[:1])
    _add(line, "了" if ended and _perfective(clause) else "", (), at["verb"])
    if not before and not clause.passive:
        _object(line, clause)
    if clause.second:
        phrase(line, clause.second)
    if clause.surface:
        _fixed(line, clause.surface, at["surface"])
    if verb.frame == "leave" and clause.place:
        phrase(line, clause.place)
        _add(line, "里", at["in"])
    if clause.question == "where" and verb.base == "go":
        _add(line, "哪里", at["question"])


def _where(line: Line, clause: Clause) -> None:
    assert clause.verb
    if clause.verb.base != "go":
        _add(line, "在", (), clause.at["verb"])
        _add(line, "哪里", clause.at["question"], clause.at["verb"])


def _perfective(clause: Clause) -> bool:
    assert clause.verb
    relative_object = clause.gap == "object"
    located = clause.question == "where" and clause.verb.base != "go"
    past = clause.tense == "past" and not clause.modal
    return past and not (clause.negated or clause.verb.stative or relative_object or located)


def _object(line: Line, clause: Clause) -> None:
    if clause.question in ("whom", "what"):
        _add(line, "谁" if clause.question == "whom" else "什么", clause.at["question"])
    elif clause.object and clause.gap != "object":
        phrase(line, clause.object)


def _sense(clause: Clause) -> Indices:
    """What reveals the verb, if its English form has several Chinese translations."""
    if clause.verb is None:
        return ()
    senses = {sense.chinese for sense in SENSES_OF_VERBS.get(clause.verb.base, ())}
    return clause.decided if len(senses) > 1 else ()
