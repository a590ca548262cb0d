"""Evaluates systems on talks: streams, scores and one row of results per system and knob value."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zoo.data.talks import Talk
from zoo.data.views import sentences
from zoo.evaluation.compute import compute_facts, stage_parts
from zoo.evaluation.finished_comet import with_comet
from zoo.evaluation.recorded import InstanceSource, match_streams
from zoo.evaluation.references import wait_k_oracle
from zoo.evaluation.scorer import Scored, Scorer
from zoo.evaluation.segments import offline_segments, write_segment_files
from zoo.evaluation.settings import Settings, knob_values, resampling, talks_to_stream
from zoo.evaluation.significance import with_significance
from zoo.evaluation.talks import has_references
from zoo.formats.speech import unloaded
from zoo.languages import Language
from zoo.languages import language as find_language
from zoo.metrics.comet.scorer import Comet
from zoo.results.files import report_streams, row_folder, write_files
from zoo.results.row import KnobValue, Row, write_rows
from zoo.results.streams import ReportStream, write_talks
from zoo.tracking.launch import is_main_process
from zoo.types import Convention, Instance

if TYPE_CHECKING:  # imports of seconds, which recorded logs and oracles do not need
    from zoo.evaluation.speech import SpeechModels
    from zoo.systems.system import System

RowKind = Literal["system", "ceiling", "oracle"]
NO_REFERENCES = "The talks have no references: scores that need them are left out."
ONE_DEVICE = {"accelerator": "cpu", "precision": "32-true"}


class Evaluator:
    """Evaluates systems on the same talks and updates the run folder after every row.

    Streams run in Lightning's Trainer, on as many ranks as it has. Rank 0 scores them, and the
    other ranks go on with the next row.

    Args:
        corpus: name of the corpus.
        talks: recordings, all with references or all without.
        settings: settings of the evaluation.
        folder: run folder, for logs and ``results.json``.
        models: models that score target speech (None: target speech has no scores).
        trainer_options: the user's arguments of Lightning's Trainer (None: one CPU device).
        resume: whether the streams that ``folder`` has are not streamed again.

    Attributes:
        rows: rows of all systems.
        streams: streams of every row, for the report.
        models: models that score target speech, or None.
        notes: a sentence for each row that is skipped.
    """

    def __init__(
        self,
        *,
        corpus: str,
        talks: Sequence[Talk],
        settings: Settings,
        folder: Path,
        models: "SpeechModels | None" = None,
        trainer_options: Mapping[str, Any] | None = None,
        resume: bool = False,
    ) -> None:
        self.corpus = corpus
        self.settings = settings
        self.folder = folder
        self.talks = talks_to_stream(talks, settings)
        self.rows: list[Row] = []
        self.streams: list[ReportStream] = []
        self.models = models
        self.notes: list[str] = [] if has_references(talks) else [NO_REFERENCES]
        self._scorer = Scorer(settings, models.scorer(settings, talks) if models else None)
        self._trainer_options = ONE_DEVICE if trainer_options is None else trainer_options
        self._resume = resume
        self._next_row = 0  # number of the next row, on all ranks

    def run(
        self,
        system: "System | InstanceSource",
        *,
        upper_bound: bool = True,
        weights: Mapping[str, str] | None = None,
    ) -> Iterator[Row]:
        """Evaluate a system and yield its rows; ranks other than 0 yield no row.

        Args:
            system: a system, or a recorded log.
            upper_bound: whether to add the row of offline decoding. This row does not depend on
                the policy, so one row per network is enough.
            weights: hub ids and folders of the system's weights, by configuration key.

        Yields:
            For a system one row per knob value and the upper bound; for a recorded log one row.

        Raises:
            ZooError: a value or a stream does not fit.
        """
        if not isinstance(system, InstanceSource):
            yield from self._streamed(system, upper_bound=upper_bound, weights=weights or {})
            return
        instances, talks = match_streams(
            system, self.talks, all_streams=self.settings.talks is None
        )
        row = self._row(system.name, None, system.source_language, system.target_language)
        yield from self._scored(row, instances, talks, with_speech=has_speech(system))

    def oracles(self, target: Language, source: Language) -> Iterator[Row]:
        """Yield the rows of the wait-k oracle; no row without references or without word times."""
        if not has_references(self.talks):
            return
        if not all(segment.words for talk in self.talks for segment in talk.segments):
            return
        for k in self.settings.oracle_k:
            row = self._row("wait-k oracle", KnobValue("k", k), source, target, "oracle")
            yield from self._scored(row, wait_k_oracle(self.talks, target, k), self.talks)

    def add_comet(self, comet: Comet) -> None:
        """Add COMET scores to all rows. Raises ZooError if the COMET process stops."""
        logs = [self.folder / row.instances for row in self.rows]
        self.rows = with_comet(self.rows, logs, comet)
        write_rows(self.rows, self.folder / "results.json")

    def add_significance(self) -> None:
        """Add the intervals and tests of the settings to all rows. Does nothing without tests.

        Raises ZooError if the settings name a baseline that no row has.
        """
        wanted = resampling(self.settings)
        if wanted is None:
            return
        self.rows = with_significance(
            self.rows, self.folder, wanted, baseline=self.settings.baseline
        )
        write_rows(self.rows, self.folder / "results.json")

    def _streamed(
        self, system: "System", *, upper_bound: bool, weights: Mapping[str, str]
    ) -> Iterator[Row]:
        """Stream, score and yield the rows of a system; arguments as ``run``."""
        # imports Lightning, which recorded logs and oracles do not need
        from zoo.evaluation.streamed import StreamedRows

        streamed = StreamedRows(
            self._scorer, self._trainer_options, folder=self.folder, resume=self._resume
        )
        for row, talks in self._rows_of(system, upper_bound=upper_bound):
            scored = streamed.stream(system, row, talks)
            if scored is not None:
                facts = {
                    **streamed.facts,
                    **compute_facts(streamed.instances),
                    "weights": dict(weights),
                    "parameters": size_of(system),
                    "reference_segments": system.uses_reference_segments,
                }
                yield self._keep(row, streamed.instances, talks, scored, facts=facts)

    def _rows_of(
        self, system: "System", *, upper_bound: bool
    ) -> Iterator[tuple[Row, Sequence[Talk]]]:
        """Set each knob value and yield its row, without scores, and the talks to stream.

        Args:
            system: system to evaluate.
            upper_bound: whether to add the row of offline decoding, of kind ``ceiling``.
        """
        languages = system.source_language, system.target_language
        for value in knob_values(system, self.settings):
            knob = None
            if value is not None and system.knob is not None:
                system.turn_knob(value)
                knob = KnobValue(system.knob.name, value)
            yield self._row(system.name, knob, *languages), self.talks

        if upper_bound and self.settings.upper_bound and has_references(self.talks):
            segments = sentences(self.talks) if self.settings.view == "talks" else self.talks
            problem = system.audio_problem(segments, whole=True)
            if problem:
                self.notes.append(f"The row {system.name} offline is skipped: {problem}")
                return
            yield self._row(f"{system.name} offline", None, *languages, "ceiling"), segments

    def _scored(
        self,
        row: Row,
        instances: Sequence[Instance],
        talks: Sequence[Talk],
        *,
        with_speech: bool = False,
    ) -> Iterator[Row]:
        """Score streams that exist already and yield the row on rank 0."""
        if not is_main_process():
            return
        yield self._keep(
            row,
            instances,
            talks,
            self._scorer.streamed(
                instances,
                talks,
                find_language(row.target_language),
                with_speech=with_speech,
                check_health=row.kind == "system",
            ),
        )

    def _row(
        self,
        system: str,
        knob: KnobValue | None,
        source: Language,
        target: Language,
        kind: RowKind = "system",
    ) -> Row:
        """Return the next row, without scores."""
        folder = row_folder(self._next_row, system, knob)
        self._next_row += 1
        return Row(
            system,
            knob,
            data=self.corpus,
            split=self.settings.split,
            source_language=source.code,
            target_language=target.code,
            scores={},
            signatures={},
            instances=str(folder / "instances.log"),
            kind=kind,
        )

    def _keep(
        self,
        row: Row,
        instances: Sequence[Instance],
        talks: Sequence[Talk],
        scored: Scored,
        *,
        facts: Mapping[str, Any] | None = None,
    ) -> Row:
        """Write the row's files and ``results.json``, so that a stopped run keeps its rows.

        Args:
            row: row without scores.
            instances: streams of the row.
            talks: talk of each stream.
            scored: scores of the row.
            facts: further entries of ``settings``.
        """
        write_files(self.folder / row.instances, instances, talks, scored.transcripts)
        referenced = has_references(talks)
        row = replace(
            row,
            scores={name: score.value for name, score in scored.scores.items()},
            signatures={name: score.signature for name, score in scored.scores.items()},
            flags=scored.flags,
            talks=scored.talks,
            stages=stage_parts(instances),
            settings={
                "batch_size": self.settings.batch_size,
                "convention": convention_of(instances, self.settings.convention),
                "resegmentation": self.settings.resegmentation,
                "rules": self.settings.rules,
                "view": self.settings.view,
                "talks": len(talks),
                "metrics": list(self.settings.metrics) if referenced else [],
                **({} if referenced else {"references": False}),
                **(facts or {}),
            },
        )
        place = len(self.rows)
        if not place:
            write_talks(self.folder, self.talks)
        self.rows.append(row)
        segments = scored.segments
        if segments is None:
            target = find_language(row.target_language)
            segments = offline_segments(talks, instances, language=target)
        else:
            # The report needs no samples of target speech, and an hour of speech has 230 MB.
            without_samples = [unloaded(instance) for instance in instances]
            self.streams += report_streams(place, without_samples, talks, segments)
        folder = (self.folder / row.instances).parent
        write_segment_files(folder, talks, segments, referenced=referenced)
        write_rows(self.rows, self.folder / "results.json")
        return row


def size_of(system: "System") -> int:
    """Return the number of parameters of a loaded system, shared ones once."""
    return sum(parameter.numel() for parameter in system.parameters())


def has_speech(system: "System | InstanceSource") -> bool:
    """Return whether a system emits target speech.

    Raises ZooError for a recorded log that cannot be read.
    """
    if isinstance(system, InstanceSource):
        return any(instance.speech for instance in system.instances())
    return system.emits_speech


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
