"""The English realiser: turns a sentence plan into words and stores the position of each part."""

from zoo.data.minitalks.lexicon import FixedPhrase
from zoo.data.minitalks.tree import Clause, Indices, NounPhrase, SentencePlan


def realise_english(plan: SentencePlan) -> list[str]:
    """Realise a sentence plan in English.

    Fills ``positions`` of the plan, its clauses and its noun phrases.

    Returns:
        The words of the sentence, without initial capital and final punctuation.
    """
    realiser = EnglishRealiser()
    realiser.add_sentence(plan)
    return realiser.words


class EnglishRealiser:
    """Appends parts of a sentence; methods that append one phrase return its word indices.

    Attributes:
        words: the words so far.
    """

    def __init__(self) -> None:
        self.words: list[str] = []

    def add_sentence(self, plan: SentencePlan) -> None:
        """Append all clauses of a sentence plan."""
        if plan.report:
            plan.positions.report = self.add_fixed(plan.report)
            if plan.that:
                plan.positions.that = self.add("that")
            assert plan.subordinate
            self.add_clause(plan.subordinate)

        if plan.main and not plan.subordinate_first:
            self.add_clause(plan.main)
        if plan.subordinate and plan.conjunction:
            plan.positions.conjunction = self.add_fixed(plan.conjunction)
            self.add_clause(plan.subordinate)
        if plan.main and plan.subordinate_first:
            self.words[-1] += ","
            self.add_clause(plan.main)

    def add(self, text: str) -> Indices:
        """Append the words of a text."""
        start = len(self.words)
        self.words += text.split()
        return tuple(range(start, len(self.words)))

    def add_fixed(self, phrase: FixedPhrase) -> Indices:
        """Append a fixed phrase."""
        return self.add(" ".join(phrase.english))

    def add_noun_phrase(self, phrase: NounPhrase) -> None:
        """Append determiner or number, adjective, noun, modifier and relative clause."""
        noun, positions = phrase.noun, phrase.positions
        first = phrase.adjective.english if phrase.adjective else noun.english
        article = "an" if first[0] in "aeio" else "a"
        if phrase.number:
            positions.determiner = self.add(phrase.number[0])
        elif phrase.determiner:
            positions.determiner = self.add(
                article if phrase.determiner == "a" else phrase.determiner
            )

        if phrase.adjective:
            positions.adjective = self.add(phrase.adjective.english)
        positions.noun = self.add(noun.english_plural if phrase.number else noun.english)
        if phrase.modifier:
            positions.modifier = self.add_fixed(phrase.modifier)
        if phrase.relative:
            self.add_relative_clause(phrase, phrase.relative)

    def add_relative_clause(self, antecedent: NounPhrase, clause: Clause) -> None:
        """Append a relative clause such as "who slept" or "that the farmer bought"."""
        clause.antecedent = antecedent
        is_who = clause.gap == "subject" and antecedent.noun.person
        clause.positions.relative = self.add("who" if is_who else "that")
        self.add_clause(clause)

    def add_clause(self, clause: Clause) -> None:
        """Append a statement or a question."""
        if clause.time and clause.time_first:
            clause.positions.time = self.add_fixed(clause.time)

        if clause.question:
            self._add_question(clause)
        else:
            if clause.gap != "subject":
                self.add_noun_phrase(clause.subject)
            self._add_finite_verb(clause)

        if clause.verb and not clause.passive:
            self._add_complements(clause)
        if clause.place:
            clause.positions.place_preposition = self.add("in")
            self.add_noun_phrase(clause.place)
        if clause.time and not clause.time_first:
            clause.positions.time = self.add_fixed(clause.time)
        clause.positions.end = (len(self.words) - 1,)

    def _add_question(self, clause: Clause) -> None:
        """Append the question word, the auxiliary, the subject and the verb."""
        assert clause.verb
        if clause.question != "polar":
            word = "who" if clause.question == "whom" else clause.question
            clause.positions.question = self.add(word)
        if clause.question == "who":
            self._add_finite_verb(clause)
            return

        auxiliary = "did" if clause.tense == "past" else "does"
        if clause.modal:
            auxiliary = clause.modal.english[0]
        clause.positions.auxiliary = self.add(auxiliary)
        self.add_noun_phrase(clause.subject)
        clause.positions.verb = self.add(clause.verb.base)

    def _add_finite_verb(self, clause: Clause) -> None:
        """Append the verb with its auxiliary and negation."""
        past, verb, positions = clause.tense == "past", clause.verb, clause.positions
        negation = "not" if clause.negated else ""

        if verb is None or clause.passive:
            positions.auxiliary = self.add("was" if past else "is")
            positions.negation = self.add(negation)
            self._add_nonfinite(clause)
        elif clause.modal:
            positions.auxiliary = self.add_fixed(clause.modal)
            positions.verb = self.add(verb.base)
        elif clause.negated:
            positions.auxiliary = self.add("did" if past else "does")
            positions.negation = self.add(negation)
            positions.verb = self.add(verb.base)
        else:
            positions.verb = self.add(verb.past if past else verb.third)

    def _add_nonfinite(self, clause: Clause) -> None:
        """Append the predicate of a copula, or the participle and agent of a passive."""
        positions = clause.positions
        if clause.verb is None:
            assert clause.predicate
            positions.verb = positions.auxiliary
            positions.predicate = self.add(clause.predicate.english)
            return
        positions.verb = self.add(clause.verb.participle)
        if clause.object:
            positions.agent = self.add("by")
            self.add_noun_phrase(clause.object)

    def _add_complements(self, clause: Clause) -> None:
        """Append objects, particle and the surface on which something is put."""
        verb, positions = clause.verb, clause.positions
        assert verb
        if verb.particle and not clause.particle_late:
            positions.particle = self.add(verb.particle)
        if clause.object and clause.has_plain_object:
            self.add_noun_phrase(clause.object)
        if verb.particle and clause.particle_late:
            positions.particle = self.add(verb.particle)

        if verb.frame in ("about", "for"):
            positions.preposition = self.add(verb.frame)
        if clause.second_object:
            self.add_noun_phrase(clause.second_object)
        if clause.surface:
            positions.surface = self.add_fixed(clause.surface)
