"""Times of the words of a transcript, from the words of a forced aligner.

Aligners return words in their own spelling: in lower case, without punctuation, numbers spelled
out. Training texts have the spelling of the corpus.
"""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, pairwise

from zoo.base.languages import Language
from zoo.base.talks import Segment, Word
from zoo.base.types import Seconds

Span = tuple[Seconds, Seconds]


def transcript_words(segment: Segment, language: Language) -> list[Word]:
    """Return the words of the transcript of a segment with times.

    Words that differ from the aligner's only in case and punctuation have the times of the
    aligner's. Other words divide the time of the aligner's words in their place by their numbers of
    letters; where the aligner has no words, they divide the gap between its words. A word without
    letters or digits has the time of the next word.

    Args:
        segment: Segment with the transcript ``source`` and the aligner's ``words``.
        language: Language of the transcript. Where it has no spaces, words are characters.

    Returns:
        Words that ``language.join`` joins to the transcript. They are ``segment.words`` if these
        are the transcript already.
    """
    if language.join(word.text for word in segment.words) == segment.source:
        return list(segment.words)

    units = language.units(segment.source)
    spans = list(_spans([unit for unit in units if _letters(unit)], segment, language))
    if not spans:
        spans = [(segment.offset, segment.end)]

    words: list[Word] = []
    index = 0  # index of the span of the next unit with letters
    for unit in units:
        words.append(Word(unit, *spans[min(index, len(spans) - 1)]))
        index += bool(_letters(unit))
    return words


def _spans(units: Sequence[str], segment: Segment, language: Language) -> Iterator[Span]:
    """Yield the time of each unit; every unit has letters or digits."""
    aligned = [part for word in segment.words for part in _parts(word, language)]
    matcher = SequenceMatcher(
        None, [_letters(unit) for unit in units], [_letters(part.text) for part in aligned], False
    )
    for tag, first, last, aligned_first, aligned_last in matcher.get_opcodes():
        replaced = aligned[aligned_first:aligned_last]
        if tag == "equal":
            yield from ((part.start, part.end) for part in replaced)
        elif replaced:
            yield from _shares(units[first:last], replaced[0].start, replaced[-1].end)
        else:
            start = aligned[aligned_first - 1].end if aligned_first else segment.offset
            end = aligned[aligned_last].start if aligned_last < len(aligned) else segment.end
            yield from _shares(units[first:last], start, max(start, end))


def _parts(word: Word, language: Language) -> list[Word]:
    """Divide an aligned word into units with letters: characters in a language without spaces."""
    units = [unit for unit in language.units(word.text) if _letters(unit)]
    spans = _shares(units, word.start, word.end)
    return [Word(unit, *span) for unit, span in zip(units, spans, strict=True)]


def _shares(units: Sequence[str], start: Seconds, end: Seconds) -> list[Span]:
    """Divide the time from ``start`` to ``end`` among units by their numbers of letters."""
    letters = [0, *accumulate(len(_letters(unit)) for unit in units)]
    times = [start + (end - start) * count / letters[-1] for count in letters[:-1]] + [end]
    return list(pairwise(times)) if units else []


def _letters(text: str) -> str:
    """Return the letters and digits of a text, case-folded."""
    return "".join(filter(str.isalnum, text.casefold()))
