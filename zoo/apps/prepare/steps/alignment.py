"""Word alignment of transcripts and translations, by an aligner or by the corpus itself."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from zoo.alignment.words.base import Links, Pair, WordAligner
from zoo.apps.prepare.items import Item, Notes
from zoo.apps.prepare.texts import is_only_sounds
from zoo.base.errors import check_choice
from zoo.base.languages import language
from zoo.base.talks import Segment, Target

if TYPE_CHECKING:
    import torch

REASON = "word alignment"
# Indices of item and segment, and code of the target language.
TranslationKey = tuple[int, int, str]


class GivenAlignment:
    """The word alignments of the corpus."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AlignmentSettings:
    """What the alignment step does besides the aligner.

    Attributes:
        words: what is aligned in a translation into a language without spaces. ``characters``: each
            character by itself. ``jieba``: the words of jieba, as in the released code of
            InfiniSST; all characters of a word have its source words.
        last_word: source words of the last word of a translation. ``aligned``: those of the
            aligner. ``end``: the last source word as well, so that no translation is complete
            before its source, as in the released code of InfiniSST.

    Raises:
        ZooError: a value is unknown.
    """

    words: Literal["characters", "jieba"] = "characters"
    last_word: Literal["aligned", "end"] = "aligned"

    def __post_init__(self) -> None:
        check_choice("alignment.words", self.words, ("characters", "jieba"))
        check_choice("alignment.last_word", self.last_word, ("aligned", "end"))

    def changed(self) -> Mapping[str, Any]:
        """Return the values that are not the defaults, without which keys of results have none."""
        return {
            key: value
            for key, value in asdict(self).items()
            if value != getattr(AlignmentSettings(), key)
        }

    def split(self, text: str, code: str) -> list[str]:
        """Return what is aligned in a translation ``text`` into the language ``code``."""
        target = language(code)
        return target.segmented(text) if self.words == "jieba" else target.units(text)


class AlignmentStep:
    """Gives each translation its units and their source words.

    The aligner gets all segments in the order of the corpus, one language of the translations after
    the other. Segments without word times keep what they have. The translation of a description of
    a sound, such as "(Laughter)", belongs to its first word if it has no alignment.

    Args:
        aligner: aligner of words, or the alignments of the corpus.
        settings: what is aligned.
    """

    name = "alignment"

    def __init__(
        self,
        aligner: WordAligner | GivenAlignment,
        settings: AlignmentSettings = AlignmentSettings(),
    ) -> None:
        self.settings = settings
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
        return [
            _with_targets(item, number, targets, self.settings) for number, item in enumerate(items)
        ]

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
                    pairs.append(self._pair(segment, item.talk.source_language, code))
        all_links = aligner.align(pairs)
        return {
            (number, index, code): replace(
                items[number].talk.segments[index].targets[code],
                words=tuple(language(code).units(language(code).join(pair[1]))),
                alignment=_of_units(links, pair[1], code),
                needs=(),
            )
            for (number, index, _), pair, links in zip(keys, pairs, all_links, strict=True)
        }

    def _pair(self, segment: Segment, source: str, code: str) -> Pair:
        """Return the words of a segment and of its translation into the language ``code``.

        Without word times they are the words of its transcript in the language ``source``.
        """
        words = [word.text for word in segment.words] or language(source).units(segment.source)
        return words, self.settings.split(segment.targets[code].text, code)


def _of_units(links: Links, words: Sequence[str], code: str) -> Links:
    """Return the links of the units of words in the language ``code``: those of their word."""
    if not links:  # of a pair with an empty side
        return ()
    return tuple(
        sources
        for word, sources in zip(words, links, strict=True)
        for _ in language(code).units(word)
    )


def _after_all(target: Target, last: str, source: int, code: str) -> Target:
    """Return an aligned translation whose last word waits for a source word, too.

    Args:
        target: translation.
        last: its last word.
        source: index of the source word.
        code: code of its language.
    """
    first = len(target.alignment) - len(language(code).units(last))
    tail = (tuple(sorted({*sources, source})) for sources in target.alignment[first:])
    return replace(target, alignment=(*target.alignment[:first], *tail))


def _sound(target: Target, code: str) -> Target:
    """Return the translation of a description of a sound with an alignment."""
    units = tuple(language(code).units(target.text))
    if any(target.alignment) or not units:
        return target
    return replace(target, words=units, alignment=((0,),) * len(units), needs=())


def _with_targets(
    item: Item,
    number: int,
    targets: Mapping[TranslationKey, Target],
    settings: AlignmentSettings,
) -> Item:
    """Return an item with aligned translations; those that have no alignment get a reason.

    Args:
        item: the item.
        number: its index.
        targets: aligned translations.
        settings: what is aligned.
    """
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
        elif settings.last_word == "end":
            end = len(segment.words) - 1
            waiting = {
                code: _after_all(target, settings.split(target.text, code)[-1], end, code)
                for code, target in new_targets.items()
                if target.alignment
            }
            segments[index] = replace(segment, targets={**new_targets, **waiting})
    return item.with_segments(segments, notes)
