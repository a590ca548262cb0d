"""The Chinese realiser.

Its grammar: no inflection, measure words, modifiers before nouns, time and place before the verb,
把, 被, 了 and 吗. Every character is one word of the target; the characters of a Chinese word share
its alignment.
"""

from collections.abc import Iterable

from zoo.data.minitalks.lexicon import FixedPhrase
from zoo.data.minitalks.target_builder import TargetBuilder
from zoo.data.minitalks.tree import Clause, Indices, NounPhrase, SentencePlan

# Openings of a main clause after a subordinate clause with this conjunction.
CORRELATIVES = {"because": "所以", "although": "但是"}
DETERMINERS = {"a": "一", "this": "这", "my": "我的"}


def realise_chinese(plan: SentencePlan, last: int) -> TargetBuilder:
    """Realise a sentence plan in Chinese; call ``realise_english`` first.

    Args:
        plan: the sentence plan with English positions.
        last: index of the last English word.
    """
    target = TargetBuilder()
    if plan.report and plan.subordinate:
        _add_fixed(target, plan.report, plan.positions.report)
        _add_clause(target, plan.subordinate)
    elif plan.conjunction and plan.subordinate and plan.main:
        _add_two_clauses(target, plan, plan.conjunction.english[0])
    elif plan.main:
        _add_clause(target, plan.main)

    if plan.main and plan.main.question == "polar":
        _add(target, "吗", plan.main.positions.auxiliary, (last,))
    _add(target, "？" if plan.is_question else "。", (last,))

    for needs in target.needs:
        needs.discard(last + 1)  # the last word has no following word to depend on
    return target


def _add_two_clauses(target: TargetBuilder, plan: SentencePlan, conjunction: str) -> None:
    """Append both clauses in English order, except that a clause with "when" always comes first."""
    assert plan.conjunction
    assert plan.main
    assert plan.subordinate
    main, subordinate = plan.main, plan.subordinate
    at = plan.positions.conjunction
    subordinate_first = plan.subordinate_first or conjunction == "when"

    if not subordinate_first:
        _add_clause(target, main)
        _add(target, "，", (), at)
    _add_fixed(target, plan.conjunction, at)
    _add_clause(target, subordinate, perfective=conjunction != "when")
    if conjunction == "when":
        _add(target, "时", (), subordinate.last_word)
    if subordinate_first:
        _add(target, "，", (), subordinate.last_word)
        _add(target, CORRELATIVES.get(conjunction, ""))
        _add_clause(target, main)


def _add(
    target: TargetBuilder, text: str, align: Iterable[int] = (), needs: Iterable[int] = ()
) -> None:
    """Append the characters of a text; see ``TargetBuilder.add``."""
    target.add(" ".join(text), tuple(align), tuple(needs))


def _add_fixed(target: TargetBuilder, phrase: FixedPhrase, at: Indices) -> None:
    for word, indices in phrase.chinese:
        _add(target, word, [at[index] for index in indices], at)


def _add_noun_phrase(target: TargetBuilder, phrase: NounPhrase) -> None:
    """Append determiner or number, measure word, modifiers and noun."""
    positions, noun, sense = phrase.positions, phrase.noun, phrase.disambiguation
    if phrase.relative and phrase.determiner == "my":
        _add_relative_clause(target, phrase.relative)

    if phrase.number:
        _add(target, phrase.number[3], positions.determiner)
    elif phrase.determiner != "the" and phrase.determiner:
        _add(target, DETERMINERS[phrase.determiner], positions.determiner)
    if phrase.number or phrase.determiner in ("a", "this"):
        _add(target, noun.classifier, (), sense)

    if phrase.relative and phrase.determiner != "my":
        _add_relative_clause(target, phrase.relative)
    if phrase.modifier:
        _add_fixed(target, phrase.modifier, positions.modifier)

    # A relative clause would precede the adjective or noun; only the English word after the noun
    # shows that there is none.
    after: Indices = ()
    if not (noun.name or phrase.relative or phrase.modifier):
        after = (positions.noun[0] + 1,)
    if phrase.adjective:
        _add(target, phrase.adjective.chinese, positions.adjective, after)
        _add(target, "的", (), positions.adjective)
    _add(target, noun.chinese, positions.noun, (*sense, *after))


def _add_relative_clause(target: TargetBuilder, clause: Clause) -> None:
    _add_clause(target, clause)
    _add(target, "的", clause.positions.relative)


def _add_clause(target: TargetBuilder, clause: Clause, *, perfective: bool = True) -> None:
    """Append a clause.

    Time and place precede the Chinese verb and follow the English verb, so the first word of the
    predicate depends on the end of the English clause.

    Args:
        target: the sentence so far.
        clause: the clause.
        perfective: whether a past verb takes 了.
    """
    positions = clause.positions
    if clause.time and clause.time_first:
        _add_fixed(target, clause.time, positions.time)
    if clause.question == "who":
        _add(target, "谁", positions.question, positions.verb)
    elif clause.gap != "subject":
        _add_noun_phrase(target, clause.subject)

    start = len(target.words)
    if clause.time and not clause.time_first:
        _add_fixed(target, clause.time, positions.time)
    if clause.verb:
        _add_predicate(target, clause, perfective)
    else:
        _add_copula(target, clause)

    first_word = target.alignment[start]
    for index in range(start, len(target.words)):
        if target.alignment[index] != first_word:
            break
        target.needs[index].update(clause.last_word)


def _add_predicate(target: TargetBuilder, clause: Clause, perfective: bool) -> None:
    """Append modal verb, negation, place and verb."""
    positions, verb = clause.positions, clause.verb
    assert verb
    if clause.modal:
        _add_fixed(target, clause.modal, positions.auxiliary)
    if clause.negated:
        negation = "没" if clause.tense == "past" and not verb.stative else "不"
        needs = positions.auxiliary + positions.verb
        _add(target, negation, positions.negation, needs)
    if clause.place and verb.frame != "leave":
        _add(target, "在", positions.place_preposition)
        _add_noun_phrase(target, clause.place)
        _add(target, "里", positions.place_preposition)
    _add_verb(target, clause, perfective)


def _add_copula(target: TargetBuilder, clause: Clause) -> None:
    assert clause.predicate
    word, positions = clause.predicate.chinese, clause.positions
    colour = word.endswith("色")
    if clause.negated:
        _add(target, "不", positions.negation)
    if colour:
        _add(target, "是", positions.verb, positions.predicate)
    elif not clause.negated:
        _add(target, "很", positions.verb, positions.predicate)
    _add(target, word, positions.predicate)
    if colour:
        _add(target, "的", (), positions.predicate)


def _add_verb(target: TargetBuilder, clause: Clause, perfective: bool) -> None:
    """Append the verb, with 把, 被 or another word before its object, and its complements."""
    verb, positions = clause.verb, clause.positions
    assert verb
    sense = clause.verb_disambiguation("chinese")
    before, _, word = verb.chinese.rpartition("+")
    is_destination = clause.question == "where" and verb.base == "go"

    if clause.passive:
        _add(target, "被", positions.agent or positions.auxiliary, positions.verb)
        if clause.object:
            _add_noun_phrase(target, clause.object)
    elif clause.question == "where":
        if not is_destination:
            _add(target, "在", (), positions.verb)
            _add(target, "哪里", positions.question, positions.verb)
    elif before:
        _add(target, before, (), (*positions.verb, *sense))
        _add_object(target, clause)

    _add(target, word, positions.verb + positions.particle, sense)
    if clause.surface is not None or verb.frame == "leave":
        _add(target, "在", (positions.place_preposition or positions.surface)[:1])
    if perfective and _is_perfective(clause):
        _add(target, "了", (), positions.verb)

    if not before and not clause.passive:
        _add_object(target, clause)
    if clause.second_object:
        _add_noun_phrase(target, clause.second_object)
    if clause.surface:
        _add_fixed(target, clause.surface, positions.surface)
    if verb.frame == "leave" and clause.place:
        _add_noun_phrase(target, clause.place)
        _add(target, "里", positions.place_preposition)
    if is_destination:
        _add(target, "哪里", positions.question)


def _is_perfective(clause: Clause) -> bool:
    """Return whether the verb takes 了."""
    assert clause.verb
    asks_location = clause.question == "where" and clause.verb.base != "go"
    if clause.tense != "past" or clause.modal:
        return False
    return not (clause.negated or clause.verb.stative or clause.gap == "object" or asks_location)


def _add_object(target: TargetBuilder, clause: Clause) -> None:
    if clause.question in ("whom", "what"):
        word = "谁" if clause.question == "whom" else "什么"
        _add(target, word, clause.positions.question)
    elif clause.object and clause.gap != "object":
        _add_noun_phrase(target, clause.object)
