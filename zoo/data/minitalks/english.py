"""English word order: turns a plan into words and records where everything stands. It knows no other language."""

from zoo.data.minitalks.lexicon import Fixed
from zoo.data.minitalks.tree import Clause, Indices, Phrase, Plan


class English:
    """The English words of one sentence, without its final punctuation and capital."""

    def __init__(self, plan: Plan) -> None:
        self.words: list[str] = []
        if plan.report:
            plan.at["report"] = self.fixed(plan.report)
            if plan.that:
                plan.at["that"] = self.say("that")
            assert plan.other
            self.clause(plan.other)
        if plan.main and not plan.other_first:
            self.clause(plan.main)
        if plan.other and plan.conjunction:
            plan.at["conjunction"] = self.fixed(plan.conjunction)
            self.clause(plan.other)
        if plan.main and plan.other_first:
            self.words[-1] += ","
            self.clause(plan.main)

    def say(self, text: str) -> Indices:
        """Add words; returns their indices."""
        start = len(self.words)
        self.words += text.split()
        return tuple(range(start, len(self.words)))

    def fixed(self, phrase: Fixed) -> Indices:
        """Add a fixed phrase; returns its indices."""
        return self.say(" ".join(phrase.english))

    def phrase(self, phrase: Phrase) -> None:
        """Add determiner, adjective, noun, and what follows the noun."""
        first = phrase.adjective.english if phrase.adjective else phrase.noun.english
        if phrase.number:
            phrase.at["determiner"] = self.say(phrase.number[0])
        elif phrase.determiner:
            article = "an" if first[0] in "aeio" else "a"
            phrase.at["determiner"] = self.say(
                article if phrase.determiner == "a" else phrase.determiner
            )
        if phrase.adjective:
            phrase.at["adjective"] = self.say(phrase.adjective.english)
        phrase.at["noun"] = self.say(
            phrase.noun.english_plural if phrase.number else phrase.noun.english
        )
        if phrase.tail:
            phrase.at["tail"] = self.fixed(phrase.tail)
        if phrase.relative:
            self.relative(phrase, phrase.relative)

    def relative(self, phrase: Phrase, clause: Clause) -> None:
        """Add "who slept" or "that the farmer bought" behind its noun."""
        clause.antecedent = phrase
        clause.at["relative"] = self.say(
            "who" if clause.gap == "subject" and phrase.noun.person else "that"
        )
        self.clause(clause)

    def clause(self, clause: Clause) -> None:
        """Add a clause, statement or question."""
        if clause.time and clause.time_first:
            clause.at["time"] = self.fixed(clause.time)
        if clause.question:
            self.question(clause)
        else:
            if clause.gap != "subject":
                self.phrase(clause.subject)
            self.finite(clause)
        if clause.verb and not clause.passive:
            self.complements(clause)
        if clause.place:
            clause.at["in"] = self.say("in")
            self.phrase(clause.place)
        if clause.time and not clause.time_first:
            clause.at["time"] = self.fixed(clause.time)
        clause.at["end"] = (len(self.words) - 1,)

    def question(self, clause: Clause) -> None:
        """Add the question word, the auxiliary, the subject and the verb."""
        assert clause.verb
        if clause.question != "polar":
            clause.at["question"] = self.say(
                "who" if clause.question == "whom" else clause.question
            )
        if clause.question == "who":
            self.finite(clause)
            return
        auxiliary = (
            clause.modal.english[0]
            if clause.modal
            else ("did" if clause.tense == "past" else "does")
        )
        clause.at["auxiliary"] = self.say(auxiliary)
        self.phrase(clause.subject)
        clause.at["verb"] = self.say(clause.verb.base)

    def finite(self, clause: Clause) -> None:
        """Add the verb with its auxiliary and negation."""
        past, verb = clause.tense == "past", clause.verb
        negation = "not" if clause.negated else ""
        if verb is None or clause.passive:
            clause.at["auxiliary"] = self.say("was" if past else "is")
            clause.at["negation"] = self.say(negation)
            if verb is None:
                assert clause.predicate
                clause.at["verb"] = clause.at["auxiliary"]
                clause.at["predicate"] = self.say(clause.predicate.english)
            else:
                clause.at["verb"] = self.say(verb.participle)
                if clause.object:
                    clause.at["agent"] = self.say("by")
                    self.phrase(clause.object)
        elif clause.modal:
            clause.at["auxiliary"] = self.fixed(clause.modal)
            clause.at["verb"] = self.say(verb.base)
        elif clause.negated:
            clause.at["auxiliary"] = self.say("did" if past else "does")
            clause.at["negation"] = self.say(negation)
            clause.at["verb"] = self.say(verb.base)
        else:
            clause.at["verb"] = self.say(verb.past if past else verb.third)

    def complements(self, clause: Clause) -> None:
        """Add objects, particle and the place where a thing is put."""
        assert clause.verb
        if clause.verb.particle and not clause.particle_late:
            clause.at["particle"] = self.say(clause.verb.particle)
        if clause.object and clause.gap != "object" and clause.question not in ("whom", "what"):
            self.phrase(clause.object)
        if clause.verb.particle and clause.particle_late:
            clause.at["particle"] = self.say(clause.verb.particle)
        if clause.verb.frame in ("about", "for"):
            clause.at["preposition"] = self.say(clause.verb.frame)
        if clause.second:
            self.phrase(clause.second)
        if clause.surface:
            clause.at["surface"] = self.fixed(clause.surface)
