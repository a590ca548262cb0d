"""Estimation: the quality of translations by a COMET model without references (CometKiwi)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from zoo.apps.prepare.items import Item, Notes
from zoo.apps.prepare.steps.recognition import WER
from zoo.apps.prepare.texts import is_only_sounds
from zoo.base.errors import ZooError
from zoo.base.progress import show_progress
from zoo.data.cache import cache_root
from zoo.metrics.comet.scorer import Comet, Text

if TYPE_CHECKING:
    import torch

ESTIMATE = "estimate "  # name of a score, with the code of the target language after it


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimationSettings:
    """The model of the estimation.

    Attributes:
        model: hub id or folder of a COMET model without references.
        python: Python of the environment of unbabel-comet; None: that of ``make comet``.
    """

    model: str = "Unbabel/wmt23-cometkiwi-da-xxl"
    python: str | None = None


class EstimationStep:
    """Scores the translations of usable segments but descriptions of sounds, in one process.

    The source is the text of the recogniser where the step ``recognition`` has made one (InfiniSST,
    appendix A.1), else the transcript. Texts are scored once: scores are kept in the cache folder.

    Args:
        settings: the model.
    """

    name = "estimation"
    whole_corpus = True  # the model takes longer to load than to score a part

    def __init__(self, settings: EstimationSettings) -> None:
        self.settings = settings
        self._comet: Comet | None = None

    def check(self) -> None:
        """See ``Step``."""
        if self._comet is None:
            self._comet = self._available()
        for model in self._comet.models:
            if model.reference:
                raise ZooError(
                    f"{model.name} reads references; an estimation needs a model without, such as "
                    "Unbabel/wmt22-cometkiwi-da."
                )

    def _available(self) -> Comet:
        """Find the model and its environment. Raises ZooError if one is missing."""
        settings = self.settings
        try:
            return Comet.available(
                [settings.model], python=settings.python, cache=cache_root() / "comet"
            )
        # The error names the key of evaluations, not that of preparations.
        except ZooError as error:
            sentence = str(error).replace("evaluation.comet_python", "estimation.python")
            raise ZooError(sentence) from error

    def load(self, device: "torch.device | None" = None) -> None:
        """See ``Step``; the weights are loaded in a process of their own."""
        self.check()

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        """See ``Step``."""
        assert self._comet is not None
        keys = [
            (number, index, code)
            for number, item in enumerate(items)
            for index, segment in enumerate(item.talk.segments)
            for code in segment.targets
            if item.usable[index] and not is_only_sounds(segment.source)
        ]
        texts = [_text(items[number], index, code) for number, index, code in keys]
        [scores] = self._comet.score(texts, partial(_shown, self.name)).values()
        changed: dict[int, dict[int, Notes]] = {}
        for (number, index, code), score in zip(keys, scores, strict=True):
            notes = changed.setdefault(number, {})
            note = notes.get(index, items[number].notes[index])
            added = {**note.scores, f"{ESTIMATE}{code}": round(score, 4)}
            notes[index] = replace(note, scores=added)
        return [
            item.with_segments({}, changed.get(number, {})) for number, item in enumerate(items)
        ]


def _text(item: Item, index: int, code: str) -> Text:
    """Return the texts of a translation into the language ``code``."""
    segment, note = item.talk.segments[index], item.notes[index]
    source = note.recognised if WER in note.scores else segment.source
    return Text(source, segment.targets[code].text, "")


def _shown(title: str, lines: Iterable[dict[str, Any]], total: int) -> Iterable[dict[str, Any]]:
    """Return scored lines with a progress bar."""
    return show_progress(lines, total=total, title=title)
