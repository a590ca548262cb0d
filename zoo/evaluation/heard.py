"""Who listens to systems that speak, and what is scored of it. Knows no knob and no row."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.evaluation.sources import reference_segments
from zoo.languages import Language
from zoo.metrics.asr import recogniser_errors, score_transcripts, speech_errors, transcribe_speech
from zoo.metrics.naturalness import LONGEST, UTMOS, UTMOSModel
from zoo.metrics.resegment import Resegmentation
from zoo.metrics.scores import value_of
from zoo.metrics.signature import Score, signature
from zoo.metrics.speech_pieces import split_speech
from zoo.progress import audio_progress
from zoo.recognisers.base import Recogniser
from zoo.recognisers.clean_speech import clean_speech
from zoo.types import Instance

NO_RECOGNISER = "Speech is not scored by its words: evaluation.recogniser is null."


@dataclass
class Listeners:
    """The recogniser of each target language that is spoken, the judge of naturalness (None: none), and notes.

    notes: a sentence on each thing that is not scored, and why.
    """

    recognisers: dict[str, Recogniser] = field(default_factory=dict)
    judge: UTMOSModel | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def found(cls, wanted: Mapping[str, Recogniser | None], utmos: str | None) -> "Listeners":
        """What there is of the ``wanted`` recognisers, by target language; no weights are read.

        utmos: path of its network (None: none); it is not looked for where nobody speaks. Raises ZooError for a
        recogniser or a network that is missing and must not be.
        """
        listeners = cls(judge=UTMOSModel(Path(utmos)) if wanted and utmos else None)
        if listeners.judge:
            listeners.judge.load()
        for code, recogniser in wanted.items():
            note = NO_RECOGNISER if recogniser is None else recogniser.unavailable_reason()
            if note:
                listeners.notes.append(note)
            elif recogniser:
                listeners.recognisers[code] = recogniser
        return listeners

    def load(self, device: torch.device) -> None:
        """Read the weights of the recognisers. Raises ZooError for what is damaged or no recogniser."""
        for recogniser in self.recognisers.values():
            recogniser.load(device)


@dataclass(frozen=True, slots=True)
class Heard:
    """Scores of speech by name, and what a recogniser understood of each stream (empty: there is none)."""

    scores: dict[str, Score]
    transcripts: Sequence[str] = ()


@dataclass
class SpeechScorer:
    """Scores what is heard of the speech of systems; a recogniser's own error is measured once per target language.

    talks: whose references the recogniser is tested on.
    """

    listeners: Listeners
    talks: Sequence[Talk]
    resegmentation: Resegmentation
    rules: str
    _own: dict[str, dict[str, Score]] = field(default_factory=dict)

    def score(
        self, instances: Sequence[Instance], references: Sequence[Sequence[str]], target: Language
    ) -> Heard:
        """ASR_BLEU, ASR_chrF, ASR_DocBLEU, SpeechWER, SpeechCER, ASR_WER and UTMOS, as far as there are listeners."""
        scores = self._natural(instances, target)
        recogniser = self.listeners.recognisers.get(target.code)
        if recogniser is None:
            return Heard(scores)
        transcripts = list(self._transcripts(instances, recogniser, target))
        scores |= score_transcripts(
            transcripts,
            references,
            language=target,
            recogniser=recogniser.name,
            resegmentation=self.resegmentation,
            rules=self.rules,
        )
        texts = [instance.text for instance in instances]
        scores |= speech_errors(transcripts, texts, language=target, recogniser=recogniser.name)
        if target.code not in self._own:
            self._own[target.code] = self._own_error(recogniser, target)
        return Heard(scores | self._own[target.code], transcripts)

    @staticmethod
    def _transcripts(
        instances: Sequence[Instance], recogniser: Recogniser, target: Language
    ) -> Iterator[str]:
        seconds = [sum(spoken.duration for spoken in instance.speech) for instance in instances]
        with audio_progress("listening", sum(seconds)) as report:
            for instance, length in zip(instances, seconds, strict=True):
                yield transcribe_speech(instance, recogniser, language=target)
                report(length)

    def _own_error(self, recogniser: Recogniser, target: Language) -> dict[str, Score]:
        """ASR_WER on the references of all talks; a note where nothing speaks them."""
        heard: list[str] = []
        try:
            with audio_progress(
                "recogniser on clean speech", sum(talk.duration for talk in self.talks)
            ) as report:
                for talk in self.talks:
                    heard += recogniser.transcribe(clean_speech(talk, target))
                    report(talk.duration)
        except ZooError as error:
            self.listeners.notes.append(
                f"The recogniser's own error in {target.name} is not known: {error}"
            )
            return {}
        texts = [
            segment.text for talk in self.talks for segment in reference_segments(talk, target)
        ]
        return recogniser_errors(heard, texts, language=target, recogniser=recogniser.name)

    def _natural(self, instances: Sequence[Instance], target: Language) -> dict[str, Score]:
        judge = self.listeners.judge
        if judge is None:
            return {}
        metric = UTMOS(judge)
        for instance in instances:
            metric.update(split_speech(instance, language=target, longest=LONGEST))
        return {
            "UTMOS": Score("UTMOS", value_of(metric), signature("UTMOS", network=judge.path.name))
        }
