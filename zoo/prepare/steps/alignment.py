"""Word alignment of transcripts and translations, by an aligner or by the corpus itself."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zoo.alignment.words.base import Pair, WordAligner
from zoo.languages import language
from zoo.prepare.items import Item, Notes
from zoo.prepare.texts import is_only_sounds
from zoo.talks import Segment, Target

if TYPE_CHECKING:
    import torch

REASON = "word alignment"
# Indices of item and segment, and code of the target language.
TranslationKey = tuple[int, int, str]


class GivenAlignment:
    """The word alignments of the corpus."""


class AlignmentStep:
    """Gives each translation its units and their source words.

    The aligner gets all segments in the order of the corpus, one language of the translations after
    the other. Segments without word times keep what they have. The translation of a description of
    a sound, such as "(Laughter)", belongs to its first word if it has no alignment.

    Args:
        aligner: aligner of words, or the alignments of the corpus.
    """

    name = "alignment"

    def __init__(self, aligner: WordAligner | GivenAlignment) -> None:
        self.aligner = None if isinstance(aligner, GivenAlignment) else aligner
        self.whole_corpus = self.aligner is not None and self.aligner.whole_corpus

    def check(self) -> None:
        """See ``Step``."""
        if self.aligner is not None:
            self.aligner.check()

    def load(self, device: "torch.device | None" = None) -> None:
        """See ``Step``."""
        if self.aligner is not None:
            self.aligner.load(device)

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        """See ``Step``."""
        targets: dict[TranslationKey, Target] = {}
        if self.aligner is not None:
            segments = (segment for item in items for segment in item.talk.segments)
            for code in dict.fromkeys(code for segment in segments for code in segment.targets):
                targets |= self._aligned(self.aligner, items, code)
        return [_with_targets(item, number, targets) for number, item in enumerate(items)]

    def _aligned(
        self, aligner: WordAligner, items: Sequence[Item], code: str
    ) -> dict[TranslationKey, Target]:
        """Return the aligned translations into one language."""
        keys: list[TranslationKey] = []
        pairs: list[Pair] = []
        for number, item in enumerate(items):
            for index, segment in enumerate(item.talk.segments):
                if code in segment.targets:
                    keys.append((number, index, code))
                    pairs.append(_pair(segment, item.talk.source_language, code))
        all_links = aligner.align(pairs)
        return {
            (number, index, code): replace(
                items[number].talk.segments[index].targets[code],
                words=tuple(pair[1]),
                alignment=links,
                needs=(),
            )
            for (number, index, _), pair, links in zip(keys, pairs, all_links, strict=True)
        }


def _pair(segment: Segment, source: str, code: str) -> Pair:
    """Return the words of a segment and the units of its translation into the language ``code``.

    Without word times they are the words of its transcript in the language ``source``.
    """
    words = [word.text for word in segment.words] or language(source).units(segment.source)
    return words, language(code).units(segment.targets[code].text)


def _sound(target: Target, code: str) -> Target:
    """Return the translation of a description of a sound with an alignment."""
    units = tuple(language(code).units(target.text))
    if any(target.alignment) or not units:
        return target
    return replace(target, words=units, alignment=((0,),) * len(units), needs=())


def _with_targets(item: Item, number: int, targets: dict[TranslationKey, Target]) -> Item:
    """Return an item with aligned translations; those that have no alignment get a reason."""
    segments: dict[int, Segment] = {}
    notes: dict[int, Notes] = {}
    for index, segment in enumerate(item.talk.segments):
        if not (item.usable[index] and segment.words):
            continue
        new_targets = {
            code: targets.get((number, index, code), target)
            for code, target in segment.targets.items()
        }
        if is_only_sounds(segment.source):
            new_targets = {code: _sound(target, code) for code, target in new_targets.items()}
        segments[index] = replace(segment, targets=new_targets)
        lost = [
            code
            for code, target in new_targets.items()
            if target.text.strip() and (not any(target.alignment) or not target.words)
        ]
        if lost:
            detail = f"no word of the translation into {lost[0]!r} is aligned"
            notes[index] = replace(item.notes[index], reason=REASON, detail=detail)
    return item.with_segments(segments, notes)
