"""Evaluates systems on talks: streams, scores and one row of results per system and knob value."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from torchmetrics import Metric

from zoo.data.talks import Talk
from zoo.data.views import sentences
from zoo.errors import ZooError, check_choice, check_numbers
from zoo.evaluation.recorded import InstanceSource, match_streams
from zoo.evaluation.references import wait_k_oracle
from zoo.evaluation.sources import reference_segments, sources
from zoo.evaluation.speech import SpeechModels, SpeechScorer, SpeechScores
from zoo.files import write_text
from zoo.formats.simuleval import write_log
from zoo.formats.speech import unloaded, write_speech
from zoo.languages import Language
from zoo.metrics.flags import flags
from zoo.metrics.latency import SegmentLatency
from zoo.metrics.longform import ScoredSegment, score_talks
from zoo.metrics.quality import CorpusQuality
from zoo.metrics.resegment import Resegmentation
from zoo.metrics.rules import find_rules
from zoo.metrics.sentences import score_sentences
from zoo.metrics.signature import Score
from zoo.progress import audio_progress
from zoo.recognisers.base import Recogniser
from zoo.report.payload import ReportSegment, ReportStream
from zoo.report.results import KnobValue, Row, write_rows
from zoo.streaming.simulate import simulate
from zoo.systems.base import StreamingSystem
from zoo.types import Convention, Instance, Samples

RowKind = Literal["system", "ceiling", "oracle"]
View = Literal["talks", "segments"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of an evaluation.

    Attributes:
        split: split of the corpus.
        talks: number of talks from the start of the split (None: all talks).
        view: ``talks`` streams whole recordings, ``segments`` their reference segments one by one.
        knob_values: values of the system's latency knob (None: the values that the system lists).
        batch_size: number of streams that advance in lockstep.
        convention: how elapsed times follow from compute times.
        resegmentation: method that assigns the units of a hypothesis to reference segments.
        rules: name of the counting rules (``zoo.metrics.rules``).
        upper_bound: whether to add a row for offline decoding of each reference segment.
        oracle_k: value of k of each wait-k oracle row (talks need word times).
        recogniser: speech recogniser for ASR scores of target speech (None: no ASR scores).
        metrics: more metrics by name, each a ``SegmentLatency`` or a ``CorpusQuality``.
        utmos: path of the UTMOS network for naturalness (``zoo/metrics/naturalness.py``).
    """

    split: str = "tst"
    talks: int | None = None
    view: View = "talks"
    knob_values: Sequence[float] | None = None
    batch_size: int = 1
    convention: Convention = "queue"
    resegmentation: Resegmentation = "mwer"
    rules: str = "zoo"
    upper_bound: bool = True
    oracle_k: Sequence[int] = (3, 5, 7)
    recogniser: Recogniser | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    utmos: str | None = None

    def __post_init__(self) -> None:
        """Raise ZooError for a value that is unknown, out of range or of another type."""
        check_choice("view", self.view, get_args(View))
        check_choice("elapsed convention", self.convention, get_args(Convention))
        check_choice("re-segmentation", self.resegmentation, get_args(Resegmentation))
        find_rules(self.rules)
        check_numbers("evaluation", least=1, batch_size=self.batch_size, talks=self.talks)
        for k in self.oracle_k:
            check_numbers("evaluation", least=1, oracle_k=k)
        for name, metric in self.metrics.items():
            if not isinstance(metric, SegmentLatency | CorpusQuality):
                raise ZooError(
                    f"evaluation.metrics.{name} must be a SegmentLatency or a CorpusQuality, "
                    f"not {type(metric).__name__}."
                )
        if self.knob_values is not None and not self.knob_values:
            raise ZooError(
                "evaluation.knob_values is empty; "
                "name at least one value, or null for the values that the system lists."
            )


def knob_values(system: StreamingSystem, settings: Settings) -> Sequence[float | None]:
    """Return the knob values to evaluate; [None] for a system without a knob.

    Raises ZooError for a value that the system does not accept.
    """
    given = settings.knob_values
    if system.knob is None:
        if given is not None:
            raise ZooError(
                f"System {system.name!r} has no latency knob; leave evaluation.knob_values out."
            )
        return [None]
    values = list(system.knob.values if given is None else given)
    if not values:
        raise ZooError(
            f"The knob {system.knob.name!r} of system {system.name!r} has no values; "
            "name at least one value."
        )
    for value in values:
        system.check_knob(value)  # raises ZooError for a value that the system does not accept
    return values


class Evaluator:
    """Evaluates systems on the same talks and updates the run folder after every row.

    Args:
        corpus: name of the corpus.
        talks: recordings with references.
        settings: settings of the evaluation.
        folder: run folder, for logs and ``results.json``.
        models: models that score target speech (None: target speech has no scores).

    Attributes:
        rows: rows of all systems.
        streams: streams of every row, for the report.
    """

    def __init__(
        self,
        *,
        corpus: str,
        talks: Sequence[Talk],
        settings: Settings,
        folder: Path,
        models: SpeechModels | None = None,
    ) -> None:
        self.corpus = corpus
        self.settings = settings
        self.folder = folder
        self.talks = talks_to_stream(talks, settings)
        self.rows: list[Row] = []
        self.streams: list[ReportStream] = []
        self.models = models or SpeechModels()
        self._speech = SpeechScorer(self.models, talks, settings.resegmentation, settings.rules)

    def run(
        self, system: StreamingSystem | InstanceSource, *, upper_bound: bool = True
    ) -> Iterator[Row]:
        """Evaluate a system and yield its rows.

        Args:
            system: a system, or a recorded log.
            upper_bound: whether to add the row of offline decoding. This row does not depend on
                the policy, so one row per network is enough.

        Yields:
            For a system one row per knob value and the upper bound; for a recorded log one row.

        Raises:
            ZooError: a value or a stream does not fit.
        """
        if isinstance(system, StreamingSystem):
            yield from self._knob_rows(system)
            if upper_bound and self.settings.upper_bound:
                yield self._upper_bound(system)
            return
        instances, talks = match_streams(
            system, self.talks, all_streams=self.settings.talks is None
        )
        row = self._row(system.name, None, system.source_language, system.target_language)
        yield self._scored(
            row, instances, talks, system.target_language, with_speech=has_speech(system)
        )

    def _knob_rows(self, system: StreamingSystem) -> Iterator[Row]:
        """Stream all talks at each knob value and yield one row per value."""
        system.eval()
        for value in knob_values(system, self.settings):
            if value is not None:
                system.turn_knob(value)
            knob, label = None, system.name
            if value is not None and system.knob is not None:
                knob = KnobValue(system.knob.name, value)
                label = f"{system.name} {knob.name}={knob.value:g}"

            instances = self._stream(system, self.talks, label, chunk_samples=system.chunk_samples)
            row = self._row(system.name, knob, system.source_language, system.target_language)
            yield self._scored(
                row, instances, self.talks, system.target_language, with_speech=has_speech(system)
            )

    def _upper_bound(self, system: StreamingSystem) -> Row:
        """Decode each reference segment as one chunk and return the row, of kind ``ceiling``.

        Only quality is scored, because offline output has no latency.
        """
        segments = sentences(self.talks) if self.settings.view == "talks" else self.talks
        target, with_speech = system.target_language, has_speech(system)
        row_name = f"{system.name} offline"
        instances = self._stream(system, segments, row_name, chunk_samples=None)
        texts = [
            target.join(segment.text for segment in reference_segments(talk, target))
            for talk in segments
        ]
        scores = self._sentence_scores(instances, texts, target, with_speech=with_speech)
        names = ["BLEU", "chrF"]
        for name, metric in self.settings.metrics.items():
            if isinstance(metric, CorpusQuality):
                names.append(name)
        quality = {name: score for name, score in scores.items() if name in names}
        speech = SpeechScores()
        if with_speech:
            speech = self._speech.score(instances, [[text] for text in texts], target)
        row = self._row(row_name, None, system.source_language, target, "ceiling")
        return self._keep(
            row, instances, segments, quality | speech.scores, transcripts=speech.transcripts
        )

    def oracles(self, target: Language, source: Language) -> Iterator[Row]:
        """Yield the rows of the wait-k oracle; no row if a segment has no word times."""
        if not all(segment.words for talk in self.talks for segment in talk.segments):
            return
        for k in self.settings.oracle_k:
            instances = wait_k_oracle(self.talks, target, k)
            row = self._row("wait-k oracle", KnobValue("k", k), source, target, "oracle")
            yield self._scored(row, instances, self.talks, target)

    def _row(
        self,
        system: str,
        knob: KnobValue | None,
        source: Language,
        target: Language,
        kind: RowKind = "system",
    ) -> Row:
        """Return a row without scores."""
        return Row(
            system,
            knob,
            data=self.corpus,
            split=self.settings.split,
            source_language=source.code,
            target_language=target.code,
            scores={},
            signatures={},
            instances="",
            kind=kind,
        )

    def _stream(
        self,
        system: StreamingSystem,
        talks: Sequence[Talk],
        name: str,
        *,
        chunk_samples: Samples | None,
    ) -> list[Instance]:
        """Stream talks through a system.

        Args:
            system: system to evaluate.
            talks: talks to stream.
            name: label of the progress bar.
            chunk_samples: samples per chunk; None: each talk is one chunk.

        Returns:
            The streams in the order of the talks.
        """
        streams = sources(talks, system.target_language, chunk_samples=chunk_samples)
        with audio_progress(name, sum(talk.duration for talk in talks)) as report:
            done = simulate(system, streams, batch_size=self.settings.batch_size, on_chunk=report)
            return sorted(done, key=lambda instance: instance.index)

    def _scored(
        self,
        row: Row,
        instances: list[Instance],
        talks: Sequence[Talk],
        target: Language,
        *,
        with_speech: bool = False,
    ) -> Row:
        """Score streams against the reference segments of their talks and keep the row."""
        references = [reference_segments(talk, target) for talk in talks]
        result = score_talks(
            instances,
            references,
            language=target,
            convention=self.settings.convention,
            resegmentation=self.settings.resegmentation,
            rules=self.settings.rules,
            with_speech=with_speech,
            extra=self.settings.metrics,
        )
        scores = dict(result.scores)
        # Sentence metrics are defined only if each stream is one sentence.
        if all(len(segments) == 1 for segments in references):
            texts = [segment.text for (segment,) in references]
            scores |= self._sentence_scores(instances, texts, target, with_speech=with_speech)

        speech = SpeechScores()
        if with_speech:
            texts_of_streams = [[segment.text for segment in segments] for segments in references]
            speech = self._speech.score(instances, texts_of_streams, target)
        scores |= speech.scores

        problems = flags(instances, scores, with_speech=with_speech) if row.kind == "system" else ()
        return self._keep(
            row,
            instances,
            talks,
            scores,
            transcripts=speech.transcripts,
            flagged=tuple(problems),
            segments=result.segments,
        )

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

    def _keep(
        self,
        row: Row,
        instances: list[Instance],
        talks: Sequence[Talk],
        scores: dict[str, Score],
        *,
        transcripts: Sequence[str],
        flagged: tuple[str, ...] = (),
        segments: Sequence[ScoredSegment] | None = None,
    ) -> Row:
        """Write the row's files and ``results.json``, so that a stopped run keeps its rows."""
        place = len(self.rows)
        log = Path("instances") / f"{place:02d}-{_slug(row)}" / "instances.log"
        write_files(self.folder / log, instances, talks, transcripts)
        row = replace(
            row,
            scores={name: score.value for name, score in scores.items()},
            signatures={name: score.signature for name, score in scores.items()},
            instances=str(log),
            flags=flagged,
            settings={
                "batch_size": self.settings.batch_size,
                "convention": convention_of(instances, self.settings.convention),
                "resegmentation": self.settings.resegmentation,
                "rules": self.settings.rules,
                "view": self.settings.view,
                "talks": len(talks),
                "metrics": list(self.settings.metrics),
            },
        )
        self.rows.append(row)
        if segments is not None:
            # The report needs no samples of target speech, and an hour of speech has 230 MB.
            without_samples = [unloaded(instance) for instance in instances]
            self.streams += report_streams(place, without_samples, talks, segments)
        write_rows(self.rows, self.folder / "results.json")
        return row


def write_files(
    log: Path, instances: Sequence[Instance], talks: Sequence[Talk], transcripts: Sequence[str]
) -> None:
    """Write the files of a row.

    Args:
        log: path of the log; target speech is written to the folder ``speech`` beside it.
        instances: streams.
        talks: talk of each stream.
        transcripts: ASR transcript of each stream, written to ``transcripts.txt`` beside the log,
            one line per talk: name, tab, transcript (empty: no file).
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    write_log(log, instances)
    write_speech(log.parent, instances, talks)
    if transcripts:
        lines = [f"{one.talk}\t{text}\n" for one, text in zip(instances, transcripts, strict=True)]
        write_text(log.with_name("transcripts.txt"), "".join(lines))


def report_streams(
    row: int,
    instances: Sequence[Instance],
    talks: Sequence[Talk],
    segments: Sequence[ScoredSegment],
) -> Iterator[ReportStream]:
    """Yield the streams of a row as the HTML report shows them.

    Args:
        row: index of the row.
        instances: streams of the row.
        talks: talk of each stream.
        segments: scored segments of all talks, talk after talk.
    """
    remaining = iter(segments)
    for instance, talk in zip(instances, talks, strict=True):
        # ``zip`` ends at the last segment of the talk and leaves the others in ``remaining``.
        segments_of_talk = tuple(
            ReportSegment(
                scored.offset, scored.duration, segment.source, scored.reference, scored.hypothesis
            )
            for segment, scored in zip(talk.segments, remaining, strict=False)
        )
        yield ReportStream(row, instance, talk, segments_of_talk)


def has_speech(system: StreamingSystem | InstanceSource) -> bool:
    """Return whether a system emits target speech.

    Raises ZooError for a recorded log that cannot be read.
    """
    if isinstance(system, StreamingSystem):
        return system.synthesizer is not None
    return any(instance.speech for instance in system.instances())


def talks_to_stream(talks: Sequence[Talk], settings: Settings) -> list[Talk]:
    """Return whole recordings, or one talk per reference segment, as ``settings.view`` demands."""
    return list(talks) if settings.view == "talks" else sentences(talks)


def convention_of(instances: Sequence[Instance], wanted: Convention) -> Convention | None:
    """Return the elapsed convention of computation-aware scores.

    Args:
        instances: streams of one row.
        wanted: configured convention.

    Returns:
        ``wanted`` if the streams have chunk times; otherwise the convention of the recorded log, or
        None for a log without elapsed times.
    """
    if any(instance.chunks for instance in instances):
        return wanted
    return next((instance.convention for instance in instances if instance.elapsed), None)


def _slug(row: Row) -> str:
    """Return a folder name for a row; signs such as ``/`` in a system name become ``-``."""
    knob = "" if row.knob is None else f"-{row.knob.name}{row.knob.value:g}"
    return re.sub(r"[^\w.=+-]+", "-", f"{row.system}{knob}")
