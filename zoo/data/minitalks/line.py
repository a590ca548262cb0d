"""The line a realiser writes: target words with alignment and needs, commas, capitals and the final mark."""

from collections.abc import Iterable

from zoo.data.minitalks.tree import Indices
from zoo.data.talks import Target


class Line:
    """Target words in order. A closed clause asks for a comma, which the next word or the sentence end settles."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.alignment: list[set[int]] = []
        self.needs: list[set[int]] = []
        self._comma = False

    def add(self, text: str, align: Iterable[int] = (), needs: Iterable[int] = ()) -> None:
        """Add the words of ``text``, all with the same alignment and the same further needs."""
        for word in text.split():
            if self._comma:
                self.comma()
            self._comma = False
            self.words.append(word)
            self.alignment.append(set(align))
            self.needs.append({*align, *needs})

    def marked(
        self, phrase: tuple[tuple[str, Indices], ...], at: Indices, needs: Iterable[int] = ()
    ) -> None:
        """Add a fixed phrase whose alignment indices count from its own English words ``at``."""
        for word, marks in phrase:
            self.add(word, [at[mark] for mark in marks], needs)

    def comma(self, needs: Iterable[int] = ()) -> None:
        """Attach a comma to the last word; ``needs``: the words that reveal it."""
        if not self.words[-1].endswith(","):
            self.words[-1] += ","
        self.needs[-1].update(needs)

    def close(self) -> None:
        """A clause ends here: a comma, unless the sentence ends too."""
        self._comma = True

    def finish(self, mark: str, last: int, opening: str = "") -> None:
        """Capitalise the first word and attach the final mark, which needs the last English word."""
        first = self.words[0]
        self.words[0] = opening + first[0].upper() + first[1:]
        self.words[-1] += mark
        self.needs[-1].add(last)

    def target(self, separator: str = " ") -> Target:
        """The finished line."""
        return Target(
            text=separator.join(self.words),
            words=tuple(self.words),
            alignment=tuple(tuple(sorted(item)) for item in self.alignment),
            needs=tuple(tuple(sorted(item)) for item in self.needs),
        )
