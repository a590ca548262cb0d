"""Builds one target sentence: its words, their alignment, commas, capital and final mark."""

from collections.abc import Iterable

from zoo.base.talks import Target
from zoo.data.minitalks.tree import Indices


class TargetBuilder:
    """Collects the target words of a sentence.

    Attributes:
        words: target words in order.
        alignment: for each target word, the English words that it translates.
        needs: for each target word, the English words that determine it, including its alignment.
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self.alignment: list[set[int]] = []
        self.needs: list[set[int]] = []
        self._comma_pending = False

    def add(self, text: str, align: Iterable[int] = (), needs: Iterable[int] = ()) -> None:
        """Append the words of a text; empty texts are ignored.

        Args:
            text: words separated by spaces.
            align: English word indices that each of the words translates.
            needs: further English word indices that determine the words.
        """
        for word in text.split():
            if self._comma_pending:
                self.comma()
            self._comma_pending = False
            self.words.append(word)
            self.alignment.append(set(align))
            self.needs.append({*align, *needs})

    def add_fixed(
        self, phrase: tuple[tuple[str, Indices], ...], at: Indices, needs: Iterable[int] = ()
    ) -> None:
        """Append a fixed phrase.

        Args:
            phrase: words, each with the indices of the words that it translates within the English
                phrase.
            at: English word indices of the English phrase.
            needs: further English word indices that determine the words.
        """
        for word, indices in phrase:
            self.add(word, [at[index] for index in indices], needs)

    def comma(self, needs: Iterable[int] = ()) -> None:
        """Attach a comma to the last word, which then also depends on ``needs``."""
        if not self.words[-1].endswith(","):
            self.words[-1] += ","
        self.needs[-1].update(needs)

    def end_clause(self) -> None:
        """Request a comma before the next word; at the end of the sentence there is none."""
        self._comma_pending = True

    def finish(self, punctuation: str, last: int, opening: str = "") -> None:
        """Capitalise the first word and attach the final mark.

        Args:
            punctuation: punctuation after the last word.
            last: index of the last English word, on which the mark depends.
            opening: punctuation before the first word.
        """
        first = self.words[0]
        self.words[0] = opening + first[0].upper() + first[1:]
        self.words[-1] += punctuation
        self.needs[-1].add(last)

    def target(self, separator: str = " ") -> Target:
        """Return the sentence, its words joined by ``separator``."""
        return Target(
            text=separator.join(self.words),
            words=tuple(self.words),
            alignment=tuple(tuple(sorted(item)) for item in self.alignment),
            needs=tuple(tuple(sorted(item)) for item in self.needs),
        )
