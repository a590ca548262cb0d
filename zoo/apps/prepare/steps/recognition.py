"""Recognition: what a recogniser makes of a segment, and how far it is from the transcript."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zoo.alignment.recognisers.base import Recogniser
from zoo.apps.prepare.items import Item, Notes
from zoo.apps.prepare.texts import is_only_sounds
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.metrics.asr import Normaliser
from zoo.metrics.quality import ErrorRate

if TYPE_CHECKING:
    import torch

WER = "WER"


class RecognitionStep:
    """Transcribes the usable segments with speech and measures their error rates.

    They are the WER in percent, the CER in Chinese and the like. Both texts are normalised as in
    Whisper's evaluation.

    Args:
        recogniser: recogniser of the source language.
    """

    name = "recognition"
    whole_corpus = False

    def __init__(self, recogniser: Recogniser) -> None:
        self.recogniser = recogniser

    def check(self) -> None:
        """See ``Step``."""
        if reason := self.recogniser.unavailable_reason():  # the model may be missing
            raise ZooError(f"The step recognition has no recogniser: {reason}")

    def load(self, device: "torch.device | None" = None) -> None:
        """See ``Step``."""
        self.recogniser.load(device)

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        """See ``Step``."""
        return [self._one(item) for item in items]

    def _one(self, item: Item) -> Item:
        """Return an item with transcripts and error rates."""
        spoken = language(item.talk.source_language)
        normaliser = Normaliser.of(spoken)
        references = {
            index: words
            for index, segment in enumerate(item.talk.segments)
            if item.usable[index]
            and not is_only_sounds(segment.source)
            and (words := normaliser.words(segment.source, spoken))
        }
        waves = [
            audio.load(
                item.talk.file,
                start=item.talk.offset + segment.offset,
                duration=segment.duration,
            )
            for segment in (item.talk.segments[index] for index in references)
        ]
        notes: dict[int, Notes] = {}
        transcripts = self.recogniser.transcribe(waves) if waves else []
        for (index, reference), text in zip(references.items(), transcripts, strict=True):
            rate = ErrorRate()
            rate.update(normaliser.words(text, spoken), reference)
            note = item.notes[index]
            scores = {**note.scores, WER: round(rate.compute(), 2)}
            notes[index] = replace(note, scores=scores, recognised=text)
        return item.with_segments({}, notes)
