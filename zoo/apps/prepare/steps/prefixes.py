"""Translations of the prefixes of transcripts, for training on cut sentences."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zoo.apps.prepare.items import Item, Notes
from zoo.apps.prepare.translators.base import Translator
from zoo.base.languages import Language, language
from zoo.base.talks import Segment
from zoo.data.word_times import transcript_words

if TYPE_CHECKING:
    import torch

REASON = "prefix translations"
SegmentKey = tuple[int, int]  # indices of item and segment


class PrefixesStep:
    """Translates each prefix of the transcript of a usable segment by itself.

    The prefixes are those of whole words. The whole transcript has the translation of the corpus. A
    segment with a prefix without translation gets a reason.

    Args:
        translator: translator of the prefixes.
    """

    name = "prefixes"
    whole_corpus = False

    def __init__(self, translator: Translator) -> None:
        self.translator = translator

    def check(self) -> None:
        """See ``Step``."""
        self.translator.check()

    def load(self, device: "torch.device | None" = None) -> None:
        """See ``Step``."""
        self.translator.load(device)

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        """See ``Step``."""
        directions = dict.fromkeys(
            (item.talk.source_language, code)
            for item in items
            for segment in item.talk.segments
            for code in segment.targets
        )
        results = list(items)
        for source, target in directions:
            results = self._into(results, language(source), language(target))
        return results

    def _into(self, items: Sequence[Item], source: Language, target: Language) -> list[Item]:
        """Return items with translated prefixes in one direction."""
        texts: dict[SegmentKey, list[str]] = {}
        for number, item in enumerate(items):
            for index, segment in enumerate(item.talk.segments):
                chosen = item.usable[index] and segment.words and target.code in segment.targets
                if chosen and item.talk.source_language == source.code:
                    texts[number, index] = _prefixes_of(segment, source)
        translations = iter(
            self.translator.translate(
                [text for prefixes in texts.values() for text in prefixes],
                source=source,
                target=target,
            )
        )
        segments: dict[int, dict[int, Segment]] = {}
        notes: dict[int, dict[int, Notes]] = {}
        for (number, index), prefixes in texts.items():
            item = items[number]
            translated_prefixes = [next(translations) for _ in prefixes]
            complete = tuple(text for text in translated_prefixes if text)
            if len(complete) < len(translated_prefixes):
                lost = next(
                    text for text, one in zip(prefixes, translated_prefixes, strict=True) if not one
                )
                detail = f"no complete {target.name} translation of {lost!r}"
                note = replace(item.notes[index], reason=REASON, detail=detail)
                notes.setdefault(number, {})[index] = note
                complete = ()
            segment = item.talk.segments[index]
            translated = replace(segment.targets[target.code], prefixes=complete)
            segments.setdefault(number, {})[index] = replace(
                segment, targets={**segment.targets, target.code: translated}
            )
        return [
            item.with_segments(segments.get(number, {}), notes.get(number, {}))
            for number, item in enumerate(items)
        ]


def _prefixes_of(segment: Segment, source: Language) -> list[str]:
    """Return the first word of a transcript, its first two words and so on, not all words."""
    words = [word.text for word in transcript_words(segment, source)]
    return [source.join(words[:count]) for count in range(1, len(words))]
