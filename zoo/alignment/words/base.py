"""The interface of word aligners, and their common result."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from zoo.alignment.base import Loadable

Pair = tuple[Sequence[str], Sequence[str]]  # words of the source and of the target
Point = tuple[int, int]  # indices of a source word and of a target word that translates it
Links = tuple[tuple[int, ...], ...]  # for each target word, its source words in their order


@runtime_checkable
class WordAligner(Loadable, Protocol):
    """An aligner of the words of translated segments; its constructor reads no files.

    Attributes:
        whole_corpus: whether ``align`` needs all pairs of a corpus in one call, in their order.
    """

    whole_corpus: bool

    def align(self, pairs: Sequence[Pair]) -> list[Links]:
        """Align pairs of segments.

        Args:
            pairs: words of the source and of the target of each segment.

        Returns:
            Links of each pair; a pair with an empty side has none.

        Raises:
            ZooError: the aligner fails, or a file does not fit the pairs.
        """


def links(points: Iterable[Point], *, targets: int) -> Links:
    """Return the source words of each of ``targets`` target words."""
    sources: list[set[int]] = [set() for _ in range(targets)]
    for source, target in points:
        sources[target].add(source)
    return tuple(tuple(sorted(source_words)) for source_words in sources)
