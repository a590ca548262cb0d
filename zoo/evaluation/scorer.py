"""Scores the streams of one row: quality, latency, target speech and health checks.

Every row is scored here: streams of ``StreamingEvaluation``, recorded logs and oracles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo.base.languages import Language, spoken_language
from zoo.base.talks import Talk
from zoo.base.types import Instance
from zoo.evaluation.segments import segments_of, spoken_segments
from zoo.evaluation.settings import Settings
from zoo.evaluation.talks import has_references, reference_segments
from zoo.metrics.flags import flags
from zoo.metrics.longform import LongFormScores, TimedSegment, score_talks
from zoo.metrics.quality import CorpusQuality
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.revisions import normalized_erasure
from zoo.metrics.rules import find_rules
from zoo.metrics.sentences import score_sentences
from zoo.metrics.signature import Score
from zoo.metrics.unreferenced import score_without_references, segments_by_time
from zoo.runs.rows.names import find_entry
from zoo.runs.rows.row import TalkScores
from zoo.runs.rows.segments import ScoredSegment

if TYPE_CHECKING:
    from zoo.evaluation.speech import SpeechScorer  # imports torch; text is scored without

OFFLINE_SCORES = ("BLEU", "chrF")


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Scores of one row.

    Attributes:
        scores: scores by name.
        transcripts: ASR transcript of each stream; empty without a recogniser.
        flags: reasons not to trust the scores.
        segments: scored segments of all talks, talk after talk; None for offline output.
        spoken: the same segments with the recognised words of the target speech; empty without
            word times.
        talks: scores of the text of each talk; empty for offline output and for sentences.
    """

    scores: dict[str, Score]
    transcripts: Sequence[str] = ()
    flags: tuple[str, ...] = ()
    segments: Sequence[ScoredSegment] | None = None
    spoken: Sequence[ScoredSegment] = ()
    talks: tuple[TalkScores, ...] = ()


class Scorer:
    """Scores streams against the references of their talks.

    Args:
        settings: settings of the evaluation.
        speech: scorer of target speech (None: target speech has no scores of a recogniser).
    """

    def __init__(self, settings: Settings, speech: "SpeechScorer | None" = None) -> None:
        self.settings = settings
        self._speech = speech

    def streamed(
        self,
        instances: Sequence[Instance],
        talks: Sequence[Talk],
        target: Language,
        *,
        with_speech: bool = False,
        check_health: bool = True,
    ) -> Scored:
        """Score streams against the reference segments of their talks.

        Talks without references have the scores that need none; their segments have the units that
        were written in their time.

        Args:
            instances: one stream per talk.
            talks: talks, all with references or all without.
            target: target language.
            with_speech: whether the system has target speech.
            check_health: whether to look for reasons not to trust the scores.
        """
        if not has_references(talks):
            return self._unreferenced(instances, talks, target, with_speech=with_speech)
        references = [reference_segments(talk, target) for talk in talks]
        result = self._score_talks(instances, references, target, with_speech=with_speech)
        scores = dict(result.scores)
        # Sentence metrics are defined only if each stream is one sentence.
        if all(len(segments) == 1 for segments in references):
            texts = [segment.text for (segment,) in references]
            scores |= self._sentence_scores(instances, texts, target, with_speech=with_speech)
        scores |= _event_scores(instances, talks)
        if _are_transcripts(talks, target):
            scores |= _transcript_scores(instances, references, target)
        is_written = not with_speech or any(instance.text for instance in instances)
        if not is_written:  # a log of speech alone
            scores = {name: one for name, one in scores.items() if find_entry(name).of != "text"}

        transcripts: Sequence[str] = ()
        spoken: Sequence[TimedSegment] = ()
        if with_speech and self._speech:
            texts_of_streams = [[segment.text for segment in segments] for segments in references]
            speech = self._speech.score(instances, texts_of_streams, target, timed=references)
            scores |= speech.scores
            transcripts, spoken = speech.transcripts, speech.segments

        findings: Sequence[str] = ()
        if check_health and is_written:
            findings = flags(
                instances,
                scores,
                references=references,
                segments=result.segments,
                with_speech=with_speech,
            )
        rules = find_rules(self.settings.rules)
        return Scored(
            scores=scores,
            transcripts=transcripts,
            flags=tuple(findings),
            segments=segments_of(talks, result.segments, language=target, rules=rules),
            spoken=spoken_segments(talks, spoken, language=target, rules=rules),
            talks=_talk_scores(talks, result.talks),
        )

    def _score_talks(
        self,
        instances: Sequence[Instance],
        references: Sequence[Sequence[ReferenceSegment]],
        target: Language,
        *,
        with_speech: bool,
    ) -> LongFormScores:
        """Score whole talks under the rules of the settings."""
        return score_talks(
            instances,
            references,
            language=target,
            convention=self.settings.convention,
            resegmenter=self.settings.resegmenter,
            rules=self.settings.rules,
            with_speech=with_speech,
            extra=self.settings.metrics,
            each_talk=self.settings.view == "talks",
        )

    def _unreferenced(
        self,
        instances: Sequence[Instance],
        talks: Sequence[Talk],
        target: Language,
        *,
        with_speech: bool,
    ) -> Scored:
        """Score streams of talks without references; arguments as ``streamed``."""
        scores = score_without_references(
            instances,
            language=target,
            convention=self.settings.convention,
            rules=self.settings.rules,
            with_speech=with_speech,
            sentences=self.settings.view == "segments",
        )
        scores |= _event_scores(instances, talks)
        transcripts: Sequence[str] = ()
        if with_speech and self._speech:
            speech = self._speech.score(instances, None, target)
            scores, transcripts = scores | speech.scores, speech.transcripts
        timed = [
            segment
            for instance, talk in zip(instances, talks, strict=True)
            for segment in segments_by_time(
                instance, [(one.offset, one.duration) for one in talk.segments]
            )
        ]
        return Scored(
            scores=scores,
            transcripts=transcripts,
            flags=tuple(flags(instances, scores, with_speech=with_speech)),
            segments=segments_of(
                talks,
                timed,
                language=target,
                rules=find_rules(self.settings.rules),
                scored=False,
            ),
        )

    def offline(
        self,
        instances: Sequence[Instance],
        talks: Sequence[Talk],
        target: Language,
        *,
        with_speech: bool = False,
    ) -> Scored:
        """Score the quality of offline output, which has no latency; arguments as ``streamed``."""
        references = [reference_segments(talk, target) for talk in talks]
        texts = [target.join(segment.text for segment in segments) for segments in references]
        scores = self._sentence_scores(instances, texts, target, with_speech=with_speech)
        extra = self.settings.metrics.items()
        names = {
            *OFFLINE_SCORES,
            *(name for name, metric in extra if isinstance(metric, CorpusQuality)),
        }
        quality = {name: score for name, score in scores.items() if name in names}
        if _are_transcripts(talks, target):
            quality |= _transcript_scores(instances, references, target)
        if not (with_speech and self._speech):
            return Scored(scores=quality)
        speech = self._speech.score(instances, [[text] for text in texts], target)
        return Scored(scores=quality | speech.scores, transcripts=speech.transcripts)

    def _sentence_scores(
        self,
        instances: Sequence[Instance],
        texts: Sequence[str],
        target: Language,
        *,
        with_speech: bool,
    ) -> dict[str, Score]:
        """Score streams of one sentence each."""
        return score_sentences(
            instances,
            texts,
            language=target,
            convention=self.settings.convention,
            rules=self.settings.rules,
            with_speech=with_speech,
            extra=self.settings.metrics,
        )


def _talk_scores(
    talks: Sequence[Talk], scores: Sequence[Mapping[str, Score]]
) -> tuple[TalkScores, ...]:
    """Return the scores of each talk; none if talks were not scored one by one."""
    return tuple(
        TalkScores(talk.name, talk.duration, {name: one.value for name, one in of_talk.items()})
        for talk, of_talk in zip(talks, scores, strict=False)
    )


def _are_transcripts(talks: Sequence[Talk], target: Language) -> bool:
    """Return whether the target language is that of the source."""
    return all(talk.source_language == target.code for talk in talks)


def _transcript_scores(
    instances: Sequence[Instance],
    references: Sequence[Sequence[ReferenceSegment]],
    language: Language,
) -> dict[str, Score]:
    """Score streams whose target language is that of the source."""
    # imports Transformers, which translations do not need
    from zoo.metrics.transcripts import score_written

    texts = [language.join(segment.text for segment in segments) for segments in references]
    return score_written(instances, texts, language=language)


def _event_scores(instances: Sequence[Instance], talks: Sequence[Talk]) -> dict[str, Score]:
    """Score the revisions, segments and transcripts of streams; no scores without events."""
    erasure = normalized_erasure(instances)
    scores = {} if erasure is None else {erasure.name: erasure}
    if all(event.kind == "revision" for instance in instances for event in instance.events):
        return scores
    # imports torch, which recorded logs of other systems do not need
    from zoo.metrics.transcripts import score_segments

    source = spoken_language(talks[0].source_language)
    sources = [source.join(segment.source for segment in talk.segments) for talk in talks]
    return scores | score_segments(instances, sources, source_language=source)
