"""Evaluates systems on talks: one row of results per system and knob value.

Streaming writes the streams of a row to the row's folder, and scoring reads them from there. What
streams is imported where it is used: the imports take seconds, and a recorded log needs none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zoo.base.languages import Language
from zoo.base.machine.launch import is_main_process
from zoo.base.talks import Talk
from zoo.base.types import Instance
from zoo.data.views import talks_to_stream
from zoo.evaluation.recorded import InstanceSource, flag_missing, match_streams
from zoo.evaluation.references import wait_k_oracle
from zoo.evaluation.score import ScoredRun
from zoo.evaluation.scorer import Scorer
from zoo.evaluation.settings import Settings, knob_values
from zoo.evaluation.talks import has_references
from zoo.runs.rows.files import row_folder
from zoo.runs.rows.row import KnobValue, Row
from zoo.runs.rows.store import StreamStore
from zoo.runs.rows.streams import ReportStream

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
        development: recordings of the split ``settings.development``, which every system streams
            before ``talks``, at each latency setting (empty: none).
        settings: settings of the evaluation.
        folder: run folder, for logs and ``results.json``.
        models: models that score target speech (None: target speech has no scores).
        trainer_options: the user's arguments of Lightning's Trainer (None: one CPU device).
        resume: whether the streams that ``folder`` has are not streamed again.

    Attributes:
        scored: the rows that are scored so far, and their streams.
        models: models that score target speech, or None.
        notes: a sentence for each row that is skipped.
    """

    def __init__(
        self,
        *,
        corpus: str,
        talks: Sequence[Talk],
        development: Sequence[Talk] = (),
        settings: Settings,
        folder: Path,
        models: "SpeechModels | None" = None,
        trainer_options: Mapping[str, Any] | None = None,
        resume: bool = False,
    ) -> None:
        self.corpus = corpus
        self.settings = settings
        self._recordings = talks
        self.talks = talks_to_stream(talks, settings.view)
        self.development = talks_to_stream(development, settings.view)
        self.models = models
        self.notes: list[str] = [] if has_references(talks) else [NO_REFERENCES]
        every = [*talks, *development]
        segments = sum(len(talk.segments) for talk in every)
        if left_out := segments - len(talks_to_stream(every, "segments")):
            self.notes.append(
                f"Rows of single segments leave out {left_out} of {segments} segments, whose "
                "translation is empty."
            )
        scorer = Scorer(settings, models.scorer(settings, every) if models else None)
        self.scored = ScoredRun(folder, talks=[*self.talks, *self.development], scorer=scorer)
        self._trainer_options = ONE_DEVICE if trainer_options is None else trainer_options
        self._resume = resume
        self._next_row = 0  # number of the next row, on all ranks

    @property
    def rows(self) -> list[Row]:
        """The rows that are scored so far."""
        return self.scored.rows

    @property
    def streams(self) -> list[ReportStream]:
        """The streams of every row, for the report."""
        return self.scored.streams

    def run(
        self,
        system: "System | InstanceSource",
        *,
        upper_bound: bool = True,
        weights: Mapping[str, str] | None = None,
    ) -> Iterator[Row]:
        """Evaluate a system, row after row; ranks other than 0 have no row.

        Args:
            system: a system, or a recorded log.
            upper_bound: whether to add the row of offline decoding. This row does not depend on
                the policy, so one row per network is enough.
            weights: hub ids and folders of the system's weights, by configuration key.

        Returns:
            For a system one row per knob value (and one before it on the development talks) and the
            upper bound; for a recorded log one row.

        Raises:
            ZooError: a value or a stream does not fit.
        """
        if isinstance(system, InstanceSource):
            streams, talks = match_streams(
                system, self.talks, all_streams=self.settings.talks is None
            )
            row = self._row(system.name, None, system.source_language, system.target_language)
            row = replace(row, flags=flag_missing(system))
            return self._recorded(row, streams, talks, with_speech=has_speech(system))

        from zoo.evaluation.stream import stream_rows

        return stream_rows(
            system,
            self._rows_of(system, upper_bound=upper_bound),
            self.scored,
            self._trainer_options,
            weights=weights or {},
            resume=self._resume,
        )

    def oracles(self, target: Language, source: Language) -> Iterator[Row]:
        """Yield the rows of the wait-k oracle; no row without references or without word times."""
        if not has_references(self.talks):
            return
        if not all(segment.words for talk in self.talks for segment in talk.segments):
            return
        for k in self.settings.oracle_k:
            row = self._row("wait-k oracle", KnobValue("k", k), source, target, "oracle")
            yield from self._recorded(row, wait_k_oracle(self.talks, target, k), self.talks)

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
            if self.development:
                row = self._row(system.name, knob, *languages)
                yield replace(row, split=self.settings.development or row.split), self.development
            yield self._row(system.name, knob, *languages), self.talks

        if upper_bound and self.settings.upper_bound and has_references(self.talks):
            segments = talks_to_stream(self._recordings, "segments")
            problem = system.talk_problem(segments, whole=True)
            if problem:
                self.notes.append(f"The row {system.name} offline is skipped: {problem}")
                return
            yield self._row(f"{system.name} offline", None, *languages, "ceiling"), segments

    def _recorded(
        self,
        row: Row,
        streams: Sequence[Instance],
        talks: Sequence[Talk],
        *,
        with_speech: bool = False,
    ) -> Iterator[Row]:
        """Score streams that exist already, one per talk, and yield the row on rank 0."""
        if is_main_process():
            folder = (self.scored.folder / row.instances).parent
            numbered = [replace(stream, index=index) for index, stream in enumerate(streams)]
            StreamStore(folder).write(numbered)
            yield self.scored.score(row, talks, with_speech=with_speech)

    def _row(
        self,
        system: str,
        knob: KnobValue | None,
        source: Language,
        target: Language,
        kind: RowKind = "system",
    ) -> Row:
        """Return the next row, without scores."""
        folder = row_folder(self.scored.folder, self._next_row, system, knob)
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


def has_speech(system: "System | InstanceSource") -> bool:
    """Return whether a system emits target speech.

    Raises ZooError for a recorded log that cannot be read.
    """
    if isinstance(system, InstanceSource):
        return any(instance.speech for instance in system.instances())
    return system.emits_speech
