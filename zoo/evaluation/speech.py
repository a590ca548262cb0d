"""Scores target speech: ASR-BLEU and error rates by a recogniser, naturalness by UTMOS."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from zoo.alignment.recognisers.base import Recogniser
from zoo.alignment.recognisers.clean_speech import clean_speech
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.progress import audio_progress
from zoo.base.talks import Talk
from zoo.base.types import Instance
from zoo.evaluation.settings import Settings
from zoo.evaluation.talks import reference_segments
from zoo.metrics.asr import recogniser_errors, score_transcripts, speech_errors
from zoo.metrics.longform import TimedSegment
from zoo.metrics.naturalness import LONGEST, UTMOS, UTMOSModel
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.scores import value_of
from zoo.metrics.signature import Score, signature
from zoo.metrics.speech_pieces import split_speech
from zoo.metrics.spoken_words import SpokenText, recognise_speech, score_spoken_words

NO_RECOGNISER = "evaluation.recogniser is null."


@dataclass
class SpeechModels:
    """Models that score target speech.

    Attributes:
        recognisers: recogniser of each target language with speech output, by code.
        utmos: naturalness predictor, or None.
        notes: one sentence for every score that is missing, with the reason.
    """

    recognisers: dict[str, Recogniser] = field(default_factory=dict)
    utmos: UTMOSModel | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def available(
        cls,
        wanted: Mapping[str, Recogniser | None],
        utmos: str | None,
        *,
        utmos_trusted: bool = False,
    ) -> "SpeechModels":
        """Return the models that are installed; recogniser weights are not read.

        Args:
            wanted: configured recogniser of each target language with speech output, or None.
            utmos: path of the UTMOS network, or None. The path is ignored if ``wanted`` is empty,
                because no system has speech output then.
            utmos_trusted: whether the code in the file of the UTMOS network may run.

        Raises:
            ZooError: a recogniser or network is missing and the configuration requires it.
        """
        models = cls()
        if wanted and utmos:
            models.utmos = UTMOSModel(Path(utmos), trusted=utmos_trusted)
            models.utmos.load()
        for code, recogniser in wanted.items():
            reason = NO_RECOGNISER if recogniser is None else recogniser.unavailable_reason()
            if reason:
                models.notes.append(f"Target speech has no ASR scores: {reason}")
            elif recogniser:
                models.recognisers[code] = recogniser
        return models

    def load(self, device: torch.device | None) -> None:
        """Read the weights of the recognisers. Raises ZooError for damaged weights."""
        for recogniser in self.recognisers.values():
            recogniser.load(device)

    def scorer(self, settings: Settings, talks: Sequence[Talk]) -> "SpeechScorer":
        """Return a scorer with these models.

        Args:
            settings: settings of the evaluation.
            talks: talks whose references, synthesised, measure the recogniser's own error.
        """
        return SpeechScorer(self, talks, settings)


@dataclass(frozen=True, slots=True)
class SpeechScores:
    """Scores of target speech.

    Attributes:
        scores: scores by name.
        transcripts: ASR transcript of each stream; empty if there is no recogniser.
        segments: reference segments of all streams with their recognised words; empty without
            references or word times.
    """

    scores: dict[str, Score] = field(default_factory=dict)
    transcripts: Sequence[str] = ()
    segments: Sequence[TimedSegment] = ()


@dataclass
class SpeechScorer:
    """Scores target speech; measures the recogniser's own error once per target language.

    Attributes:
        models: recognisers and naturalness predictor.
        talks: talks whose references, synthesised, measure the recogniser's own error.
        settings: settings of the evaluation.
    """

    models: SpeechModels
    talks: Sequence[Talk]
    settings: Settings
    _own_errors: dict[str, dict[str, Score]] = field(default_factory=dict)

    def score(
        self,
        instances: Sequence[Instance],
        references: Sequence[Sequence[str]] | None,
        target: Language,
        *,
        timed: Sequence[Sequence[ReferenceSegment]] | None = None,
    ) -> SpeechScores:
        """Compute ASR_BLEU, ASR_chrF, ASR_DocBLEU, SpeechWER, SpeechCER, ASR_WER and UTMOS.

        With the times of reference segments, and a recogniser that gives those of words, also
        SpeechLongYAAL and SpeechDrift.

        Args:
            instances: streams with target speech.
            references: texts of the reference segments of each stream; None: no references, which
                leaves SpeechWER, SpeechCER and UTMOS.
            target: target language.
            timed: reference segments of each stream; None: they have no times.

        Returns:
            The scores for which a model is available.
        """
        scores = self._naturalness(instances, target)
        recogniser = self.models.recognisers.get(target.code)
        if recogniser is None:
            return SpeechScores(scores)

        spoken = list(self._recognise(instances, recogniser, target))
        transcripts = [one.text for one in spoken]
        texts = [instance.text for instance in instances]
        if any(texts):  # a log of speech alone has none
            scores |= speech_errors(transcripts, texts, language=target, recogniser=recogniser.name)
        if references is None:
            return SpeechScores(scores, transcripts)
        scores |= score_transcripts(
            transcripts,
            references,
            language=target,
            recogniser=recogniser.name,
            resegmenter=self.settings.resegmenter,
            rules=self.settings.rules,
        )
        if target.code not in self._own_errors:
            self._own_errors[target.code] = self._own_error(recogniser, target)
        scores |= self._own_errors[target.code]
        if timed is None:
            return SpeechScores(scores, transcripts)
        latency, segments = self._latency(instances, spoken, timed, recogniser, target)
        return SpeechScores(scores | latency, transcripts, segments)

    @staticmethod
    def _recognise(
        instances: Sequence[Instance], recogniser: Recogniser, target: Language
    ) -> Iterator[SpokenText]:
        """Yield what is recognised in each stream."""
        seconds = [sum(piece.duration for piece in instance.speech) for instance in instances]
        with audio_progress("transcribing target speech", sum(seconds)) as report:
            for instance, length in zip(instances, seconds, strict=True):
                yield recognise_speech(instance, recogniser, language=target)
                report(length)

    def _latency(
        self,
        instances: Sequence[Instance],
        spoken: Sequence[SpokenText],
        references: Sequence[Sequence[ReferenceSegment]],
        recogniser: Recogniser,
        target: Language,
    ) -> tuple[dict[str, Score], Sequence[TimedSegment]]:
        """Return the scores of recognised words, and the segments with these words.

        If a stream has no word times, the results are empty and a note says so.
        """
        if any(one.words is None for one in spoken):
            note = (
                f"Target speech has no SpeechLongYAAL and SpeechDrift: {recogniser.name} gives no "
                "times of words; CTC recognisers of characters and Whisper do."
            )
            if note not in self.models.notes:
                self.models.notes.append(note)
            return {}, ()
        found = score_spoken_words(
            instances,
            spoken,
            references,
            language=target,
            recogniser=recogniser.name,
            resegmenter=self.settings.resegmenter,
            convention=self.settings.convention,
            rules=self.settings.rules,
        )
        return found.scores, found.segments

    def _own_error(self, recogniser: Recogniser, target: Language) -> dict[str, Score]:
        """Return the word error rate of the recogniser on synthesised references, ``ASR_WER``.

        If the references cannot be synthesised, the result is empty and a note names the reason.
        """
        transcripts: list[str] = []
        seconds = sum(talk.duration for talk in self.talks)
        try:
            with audio_progress("recogniser on clean speech", seconds) as report:
                for talk in self.talks:
                    transcripts += recogniser.transcribe(clean_speech(talk, target))
                    report(talk.duration)
        except ZooError as error:
            self.models.notes.append(
                f"The recogniser's own error in {target.name} was not measured: {error}"
            )
            return {}

        texts = [
            segment.text for talk in self.talks for segment in reference_segments(talk, target)
        ]
        return recogniser_errors(transcripts, texts, language=target, recogniser=recogniser.name)

    def _naturalness(self, instances: Sequence[Instance], target: Language) -> dict[str, Score]:
        """Return the score ``UTMOS``; empty without the network."""
        model = self.models.utmos
        if model is None:
            return {}
        metric = UTMOS(model)
        for instance in instances:
            pieces = split_speech(instance, language=target, longest=LONGEST)
            metric.update([piece.samples for piece in pieces])
        facts = signature("UTMOS", network=model.path.name)
        return {"UTMOS": Score("UTMOS", value_of(metric), facts)}
