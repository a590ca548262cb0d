"""Re-translation of bad references, before their words are aligned (InfiniSST, appendix A.1)."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zoo.apps.prepare.items import Item, Notes
from zoo.apps.prepare.steps.estimation import ESTIMATE
from zoo.apps.prepare.steps.recognition import WER
from zoo.apps.prepare.texts import is_only_sounds
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Target

if TYPE_CHECKING:
    import torch

    from zoo.apps.prepare.translators.retranslation import Retranslation

logger = logging.getLogger(__name__)

CORPUS_ESTIMATE = f"corpus {ESTIMATE}"  # score of a translation that has been replaced


class RetranslationStep:
    """Replaces the translations of usable segments that the corpus has translated badly.

    ``Target.original`` keeps the old one. Its estimate becomes the score "corpus estimate", which
    no filter reads. A translation that the model does not complete stays as it is.

    Args:
        translator: translator, with the limits of what is replaced.
        steps: names of all steps of the preparation.
    """

    name = "retranslation"
    whole_corpus = False

    def __init__(self, translator: "Retranslation", steps: Sequence[str]) -> None:
        self.translator = translator
        self.steps = steps

    def check(self) -> None:
        """See ``Step``."""
        limits = {"estimation": "max_estimate", "recognition": "max_wer"}
        for step, limit in limits.items():
            if getattr(self.translator, limit) is not None and step not in self.steps:
                raise ZooError(
                    f"The step retranslation needs the step {step}, or retranslation.{limit}=null."
                )
        self.translator.check()

    def load(self, device: "torch.device | None" = None) -> None:
        """See ``Step``."""
        self.translator.load(device)

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        """See ``Step``."""
        results = list(items)
        directions = dict.fromkeys(
            (item.talk.source_language, code)
            for item in items
            for segment in item.talk.segments
            for code in segment.targets
        )
        for source, target in directions:
            results = self._into(results, source, target)
        return results

    def _into(self, items: Sequence[Item], source: str, target: str) -> list[Item]:
        """Return items with replaced translations of one direction, by its codes."""
        places = [
            (number, index)
            for number, item in enumerate(items)
            if item.talk.source_language == source
            for index, segment in enumerate(item.talk.segments)
            if item.usable[index] and self._is_replaced(segment, item.notes[index], target)
        ]
        texts = [items[number].talk.segments[index].source for number, index in places]
        translations = self.translator.translate(
            texts, source=language(source), target=language(target)
        )
        segments: dict[int, dict[int, Segment]] = {}
        notes: dict[int, dict[int, Notes]] = {}
        for (number, index), text in zip(places, translations, strict=True):
            if text:
                item = items[number]
                segment = _with_text(item.talk.segments[index], target, text)
                segments.setdefault(number, {})[index] = segment
                notes.setdefault(number, {})[index] = _renamed(item.notes[index], target)
        if lost := sum(not text for text in translations):
            logger.warning("%d translations are not complete and stay as they are.", lost)
        return [
            item.with_segments(segments.get(number, {}), notes.get(number, {}))
            for number, item in enumerate(items)
        ]

    def _is_replaced(self, segment: Segment, note: Notes, code: str) -> bool:
        """Return whether the translation of a segment into the language ``code`` is replaced."""
        if code not in segment.targets or is_only_sounds(segment.source):
            return False
        limits = {f"{ESTIMATE}{code}": self.translator.max_estimate, WER: self.translator.max_wer}
        return bool(segment.source.strip()) and all(
            limit is None or (name in note.scores and note.scores[name] <= limit)
            for name, limit in limits.items()
        )


def _with_text(segment: Segment, code: str, text: str) -> Segment:
    """Return a segment with another translation into the language ``code``, without alignment."""
    old = segment.targets[code]
    target = Target(text, original=old.text if old.original is None else old.original)
    return replace(segment, targets={**segment.targets, code: target})


def _renamed(note: Notes, code: str) -> Notes:
    """Return a note whose estimate is that of a replaced translation."""
    names = {f"{ESTIMATE}{code}": f"{CORPUS_ESTIMATE}{code}"}
    return replace(
        note, scores={names.get(name, name): value for name, value in note.scores.items()}
    )


def count_retranslations(items: Sequence[Item]) -> int:
    """Return the number of translations of items that have replaced those of the corpus."""
    return sum(
        target.original is not None
        for item in items
        for segment in item.talk.segments
        for target in segment.targets.values()
    )
