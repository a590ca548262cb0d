"""Callback that scores streams, in tests and validations and during training.

Each rank streams the talks that it claims and writes every finished talk to a log of its own, so
that a stopped evaluation loses no finished talk. Results travel by these logs, not by collective
operations.
"""

import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lightning.pytorch import LightningModule, Trainer

from zoo.base.disk.run_folder import RESULTS
from zoo.base.progress import audio_progress
from zoo.base.types import Instance, Seconds
from zoo.evaluation.comet import check_texts, find_comet
from zoo.evaluation.independent_ranks import IndependentRanks
from zoo.evaluation.score import ScoredRun
from zoo.evaluation.scorer import Scorer
from zoo.evaluation.settings import Settings
from zoo.metrics.comet.scorer import Comet
from zoo.runs.rows.row import Row, read_rows
from zoo.runs.rows.settings import RowSettings
from zoo.runs.rows.store import StreamStore
from zoo.streaming.callback import StreamCallback
from zoo.streaming.queue import TalkQueue
from zoo.streaming.ranks import ranks
from zoo.streaming.simulate import warm_up
from zoo.streaming.sources import beginning
from zoo.systems.base import StreamingSystem
from zoo.systems.system import System

MS = 1000

logger = logging.getLogger(__name__)


class StreamingEvaluation(StreamCallback):
    """Scores the streams of ``trainer.test`` and ``trainer.validate``.

    The scores are logged as ``<split>/<source>-<target>/<score>``, for example ``tst/en-de/BLEU``.

    Args:
        scorer: Scores the streams. None scores with the default settings.
        folder: Run folder of the evaluation: finished streams, segments, ``results.json``. None:
            ``streams`` in the log folder of the trainer.
        resume: Whether talks in the logs of ``folder`` are not streamed again.
        on_all_ranks: Whether every rank waits for the scores of rank 0; otherwise only rank 0 has
            them.
        comet: Whether the COMET models of the scorer's settings score the streams at the end of
            each evaluation. (``evaluate.py`` scores all rows together instead.)
        warm_up: Whether the beginning of a talk is streamed before the time is measured.

    Attributes:
        label: Title of the progress bar. None: the name of the system.
        row_name: Name of the row of results. None: the name of the system.
        instances: Streams of the last evaluation in the order of the talks; empty on ranks other
            than 0.
        scores: Values of the last evaluation by name of the score; empty on ranks that do not wait
            for them. None: the score is not defined.
        queue: Talks of the last evaluation.
        seconds: Wall-clock time of the last evaluation, from its start on this rank until all
            streams are collected.
    """

    def __init__(
        self,
        scorer: Scorer | None = None,
        *,
        folder: Path | None = None,
        resume: bool = False,
        on_all_ranks: bool = False,
        comet: bool = True,
        warm_up: bool = False,
    ) -> None:
        self.scorer = scorer or Scorer(Settings())
        self.folder = folder
        self.resume = resume
        self.on_all_ranks = on_all_ranks
        self.label: str | None = None
        self.row_name: str | None = None
        self.instances: list[Instance] = []
        self.scores: Mapping[str, float | None] = {}
        self.queue = TalkQueue((), name="none")
        self.seconds: Seconds = 0.0
        self._with_comet = comet
        self._warm_up = warm_up
        self._comet: Comet | None = None
        self._start: Seconds = 0.0
        self._log = StreamStore(Path())
        self._shown: Seconds = 0.0
        self._progress = ExitStack()
        self._report: Any = None

    def on_test_batch_start(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        batch: TalkQueue,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Begin an evaluation."""
        assert isinstance(pl_module, System)
        self.begin(trainer, pl_module, batch)

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: object,
        batch: TalkQueue,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """End an evaluation and log the scores."""
        assert isinstance(pl_module, System)
        self.end(trainer, pl_module, batch)
        # ``sync_dist`` with ``rank_zero_only`` reduces nothing, and Lightning does not warn
        scores = self.logged(pl_module)
        pl_module.log_dict(scores, rank_zero_only=True, sync_dist=True, batch_size=1)

    on_validation_batch_start = on_test_batch_start
    on_validation_batch_end = on_test_batch_end

    def begin(self, trainer: Trainer, system: System, queue: TalkQueue) -> None:
        """Open the log of this rank and the progress bar of rank 0.

        Args:
            trainer: Trainer of the evaluation.
            system: System to evaluate.
            queue: Talks of the evaluation.

        Raises:
            ZooError: COMET has no environment, no model, or talks without source text.
        """
        self._find_comet(queue)
        folder = self.folder or Path(trainer.log_dir or trainer.default_root_dir) / "streams"
        shared = ranks()
        self.queue = queue
        self._log = StreamStore(folder, rank=shared.rank)
        self._shown = 0.0
        if self.resume:
            queue.finished = frozenset(self._log.read())
        else:
            self._log.clear(ranks=shared.count)
        # offline output has no latency; the agent of another tool may have one stream in its life
        if self._warm_up and not queue.whole and isinstance(system, StreamingSystem):
            for _, talk in queue.unfinished()[:1]:
                size = system.chunk_samples
                warm_up(system, beginning(talk, system.target_language, chunk_samples=size))
        self._start = time.perf_counter()

        if shared.rank == 0:
            seconds = sum(talk.duration for _, talk in queue.unfinished())
            bar = audio_progress(self.label or system.name, seconds)
            self._report = self._progress.enter_context(bar)

    def on_chunk_end(self, trainer: Trainer, system: LightningModule, seconds: Seconds) -> None:
        """Count the audio of all ranks; rank 0 shows the sum."""
        self._add_progress(seconds)

    def on_talk_end(self, trainer: Trainer, system: LightningModule, instance: Instance) -> None:
        """Write the finished stream to disk."""
        self._log.append(instance)

    def end(self, trainer: Trainer, system: System, queue: TalkQueue) -> None:
        """Collect the streams of all ranks and score them; arguments as ``begin``."""
        self.instances, self.scores = [], {}
        shared = ranks()
        shared.finish(queue.name)
        if shared.rank == 0:
            self.instances = self._collect(system)
            self.seconds = time.perf_counter() - self._start
            self._progress.close()
            self._report = None
            self.scores = self.score(system)
        shared.finish(f"{queue.name}/scored")
        if not isinstance(trainer.strategy, IndependentRanks):
            # the next collective operation must not wait longer than its time limit
            shared.wait(f"{queue.name}/scored", among=[0])
        if self.on_all_ranks and shared.rank != 0:
            self.scores = read_rows(self._log.folder / RESULTS)[0].scores

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Close the progress bar."""
        self._progress.close()

    def logged(self, system: System) -> dict[str, float]:
        """Return the scores of the last evaluation that have a value, by logged name."""
        prefix = f"{self.queue.split}/{system.direction}"
        return {
            f"{prefix}/{name}": value for name, value in self.scores.items() if value is not None
        }

    def score(self, system: System) -> Mapping[str, float | None]:
        """Score the collected streams and return the values by name of the score.

        The folder becomes a run folder of one row, which ``python -m zoo report`` reads.
        """
        run = ScoredRun(self._log.folder, talks=self.queue.talks, scorer=self.scorer)
        row = Row(
            self.row_name or system.name,
            None,
            data=self.queue.corpus,
            split=self.queue.split,
            source_language=system.source_language.code,
            target_language=system.target_language.code,
            scores={},
            signatures={},
            instances="instances.log",
            kind="ceiling" if self.queue.whole else "system",
            settings=RowSettings(
                batch_size=self.queue.batch_size,
                ranks=ranks().count,
                streaming_seconds=round(self.seconds, 3),
                parameters=sum(parameter.numel() for parameter in system.parameters()),
                reference_segments=system.uses_reference_segments,
            ),
        )
        run.score(row, self.queue.talks, with_speech=system.emits_speech)
        if self._comet is not None:
            run.add_comet(self._comet)
        return run.rows[0].scores

    def _find_comet(self, queue: TalkQueue) -> None:
        """Find the COMET models on the rank that scores, once, before talks are streamed."""
        settings = self.scorer.settings
        if not (self._with_comet and settings.comet):
            return
        if self._comet is None and ranks().rank == 0:
            self._comet = find_comet(settings.comet, settings.comet_python)
        if self._comet is not None:
            check_texts(queue.talks, self._comet)

    def _collect(self, system: System) -> list[Instance]:
        """Wait for the streams of all ranks; stream the talks of ranks that have stopped."""
        stopped = ranks().wait(self.queue.name, self._add_progress)
        finished = self._log.read()
        missing = [place for place in range(len(self.queue.talks)) if place not in finished]
        if missing:
            names = ", ".join(self.queue.talks[place].name for place in missing)
            logger.warning("rank %s has stopped; streaming again: %s", stopped, names)
            for instance in system.stream(self.queue.only(missing)):
                self._log.append(instance)
                finished[instance.index] = instance
        return [finished[place] for place in range(len(self.queue.talks))]

    def _add_progress(self, seconds: Seconds = 0.0) -> None:
        """Count streamed audio, and advance the bar of rank 0 to the audio of all ranks."""
        total = ranks().add(f"{self.queue.name}/milliseconds", round(seconds * MS)) / MS
        if self._report is not None:
            self._report(total - self._shown)
            self._shown = total
