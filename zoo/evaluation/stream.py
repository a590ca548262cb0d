"""Streams the rows of systems in Lightning's Trainer; rank 0 scores each row from its folder."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zoo.base.machine.launch import is_main_process
from zoo.base.talks import Talk
from zoo.evaluation.callback import StreamingEvaluation
from zoo.evaluation.independent_ranks import evaluation_trainer
from zoo.evaluation.score import ScoredRun
from zoo.runs.rows.row import Row
from zoo.runs.rows.settings import RowSettings
from zoo.systems.lightning.datamodule import TalksDataModule
from zoo.systems.system import System


@dataclass(slots=True)
class ListedTalks:
    """A corpus of talks that are read already; see ``zoo.data.corpora.Corpus``."""

    name: str
    listed: Sequence[Talk]

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """Return the talks, whatever the split."""
        return self.listed


class RowEvaluation(StreamingEvaluation):
    """Streams rows of one system into a run folder and scores each from there.

    A Trainer refers to its last module; with a Trainer of its own a system can be freed.

    Args:
        run: the run; ``streams`` of a row are in the row's folder.
        trainer_options: the user's arguments of Lightning's Trainer.
        settings: settings of every row that do not depend on its streams.
        resume: whether the streams that the run folder has are not streamed again.
    """

    def __init__(
        self,
        run: ScoredRun,
        trainer_options: Mapping[str, Any],
        *,
        settings: RowSettings,
        resume: bool,
    ) -> None:
        super().__init__(run.scorer, resume=resume, comet=False, warm_up=True)
        self.row: Row | None = None
        self.trainer = evaluation_trainer(trainer_options, [self])
        self._run = run
        self._settings = replace(settings, ranks=self.trainer.world_size)

    def talks_of(self, row: Row, talks: Sequence[Talk]) -> TalksDataModule:
        """Begin a row, and return its talks for ``trainer.test``.

        Args:
            row: row without scores. A row of kind ``ceiling`` is decoded offline: each talk is one
                chunk.
            talks: talks to stream.
        """
        settings = self.scorer.settings
        is_offline = row.kind == "ceiling"
        self.row = row
        self.label = row.label
        self.folder = self._run.folder / Path(row.instances).parent
        return TalksDataModule(
            ListedTalks(row.data, talks),
            test=row.split,
            whole=is_offline,
            batch_size=(settings.offline_batch_size if is_offline else None) or settings.batch_size,
        )

    def score(self, system: System) -> Mapping[str, float | None]:
        """Score the row from its folder; see ``StreamingEvaluation``."""
        assert self.row is not None
        settings = replace(self._settings, streaming_seconds=round(self.seconds, 3))
        row = replace(self.row, settings=settings)
        self.row = self._run.score(row, self.queue.talks, with_speech=system.emits_speech)
        return self.row.scores


def stream_rows(
    system: System,
    rows: Iterator[tuple[Row, Sequence[Talk]]],
    run: ScoredRun,
    trainer_options: Mapping[str, Any],
    *,
    weights: Mapping[str, str],
    resume: bool,
) -> Iterator[Row]:
    """Stream the rows of a system and yield each with its scores; nothing on ranks other than 0.

    Args:
        system: loaded system.
        rows: rows without scores and the talks of each; the latency setting of a row is set when
            the iterator yields it.
        run: the run.
        trainer_options: the user's arguments of Lightning's Trainer.
        weights: hub ids and folders of the system's weights, by configuration key.
        resume: whether the streams that the run folder has are not streamed again.
    """
    settings = RowSettings(
        weights=dict(weights),
        parameters=sum(parameter.numel() for parameter in system.parameters()),
        reference_segments=system.uses_reference_segments,
    )
    evaluation = RowEvaluation(run, trainer_options, settings=settings, resume=resume)
    for row, talks in rows:
        evaluation.trainer.test(system, evaluation.talks_of(row, talks), verbose=False)
        if is_main_process():
            assert evaluation.row is not None
            yield evaluation.row
