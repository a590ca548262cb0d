"""Target words that the source word after their own determines, found by counting in a corpus.

A word aligner links a word to what it translates. An article, a classifier or an auxiliary verb
also depends on what follows: ``der`` translates "the", but is only determined by "the teacher".
Such a word, written after "the", would be a guess, and a training on it would teach to guess.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log
from typing import NamedTuple

from zoo.alignment.words.base import Links, Pair

# Log-likelihood ratio (one degree of freedom) that is exceeded by chance in 0.1 % of cases.
SIGNIFICANT = 10.83

Words = tuple[str, ...]


class Event(NamedTuple):
    """An aligned target word before another one that has other source words.

    Attributes:
        sources: its source words.
        following: source words of the next target word.
        word: the target word.
    """

    sources: Words
    following: Words
    word: str


def with_context(
    pairs: Sequence[Pair], all_links: Sequence[Links], *, least_ratio: float
) -> list[Links]:
    """Add the source words of the next target word where they determine a target word.

    A target word gets them if it is ``least_ratio`` times as probable after its own and these
    source words as after its own alone, in the whole corpus, and if this is significant by the
    log-likelihood ratio of the counts (Dunning, 1993).

    Args:
        pairs: words of all pairs of a corpus, as they are to be counted.
        all_links: links of each pair.
        least_ratio: smallest ratio of the two probabilities, above 1.

    Returns:
        Links of each pair.
    """
    rows = [list(_events(pair, links)) for pair, links in zip(pairs, all_links, strict=True)]
    events = Counter(event for row in rows for _, event in row)
    contexts: Counter[tuple[Words, Words]] = Counter()
    words: Counter[tuple[Words, str]] = Counter()
    alone: Counter[Words] = Counter()
    for event, count in events.items():
        contexts[event.sources, event.following] += count
        words[event.sources, event.word] += count
        alone[event.sources] += count

    determined = set()
    for event, count in events.items():
        others = contexts[event.sources, event.following] - count
        elsewhere = words[event.sources, event.word] - count
        neither = alone[event.sources] - count - others - elsewhere
        in_context = count / (count + others)
        in_general = (count + elsewhere) / alone[event.sources]
        is_likelier = in_context >= least_ratio * in_general
        if is_likelier and log_likelihood_ratio(count, others, elsewhere, neither) >= SIGNIFICANT:
            determined.add(event)

    results: list[Links] = []
    for row, links in zip(rows, all_links, strict=True):
        changed = list(links)
        for index, event in row:
            if event in determined:
                changed[index] = tuple(sorted({*links[index], *links[index + 1]}))
        results.append(tuple(changed))
    return results


def _events(pair: Pair, links: Links) -> Iterator[tuple[int, Event]]:
    """Yield each target word that has links other than those of the next one, with its index."""
    source, target = pair
    for position, (sources, following) in enumerate(pairwise(links)):
        if sources and following and sources != following:
            before, after = (tuple(source[index] for index in row) for row in (sources, following))
            yield position, Event(before, after, target[position])


def log_likelihood_ratio(both: int, first: int, second: int, neither: int) -> float:
    """Return the log-likelihood ratio G² of a table of counts of two events.

    Args:
        both: number of times that both happen.
        first: number of times that only the first one happens.
        second: number of times that only the second one happens.
        neither: number of times that none happens.
    """
    cells = (both, first, second, neither)
    margins = (both + first, second + neither, both + second, first + neither)
    inside, outside = (
        sum(count * log(count) for count in row if count) for row in (cells, margins)
    )
    total = sum(cells)
    return 2 * (inside - outside + total * log(total))
