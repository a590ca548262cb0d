"""Streams the rows of a system in Lightning's Trainer, on as many ranks as it has."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from zoo.data.talks import Talk
from zoo.evaluation.callback import StreamingEvaluation
from zoo.evaluation.scorer import Scored, Scorer
from zoo.evaluation.strategy import evaluation_trainer
from zoo.results.row import Row
from zoo.streaming.queue import OneBatch, TalkQueue
from zoo.systems.system import System
from zoo.types import Instance

FINISHED = "finished"  # folder of the logs of finished streams, in the folder of a row


class StreamedRows:
    """Streams and scores the rows of one system.

    A trainer refers to its last module; with a trainer of its own a system can be freed.

    Args:
        scorer: scores the streams.
        trainer_options: the user's arguments of Lightning's Trainer.
        folder: run folder.
        resume: whether the streams that ``folder`` has are not streamed again.
    """

    def __init__(
        self, scorer: Scorer, trainer_options: Mapping[str, Any], *, folder: Path, resume: bool
    ) -> None:
        self.folder = folder
        self._batch_size = scorer.settings.batch_size
        self._offline_batch_size = scorer.settings.offline_batch_size or self._batch_size
        self._split = scorer.settings.split
        self._evaluation = StreamingEvaluation(scorer, resume=resume, comet=False, warm_up=True)
        self._trainer = evaluation_trainer(trainer_options, [self._evaluation])

    def stream(self, system: System, row: Row, talks: Sequence[Talk]) -> Scored | None:
        """Stream the talks of a row and score them; None on ranks other than 0.

        Args:
            system: system to evaluate.
            row: row without scores.
            talks: talks to stream.
        """
        offline = row.kind == "ceiling"  # only quality is scored: offline output has no latency
        queue = TalkQueue(
            talks,
            split=self._split,
            whole=offline,
            batch_size=self._offline_batch_size if offline else self._batch_size,
        )
        self._evaluation.folder = self.folder / Path(row.instances).parent / FINISHED
        knob = "" if row.knob is None else f" {row.knob.name}={row.knob.value:g}"
        self._evaluation.label = f"{row.system}{knob}"
        loader = DataLoader(OneBatch(queue), batch_size=None)
        self._trainer.test(system, loader, verbose=False)
        return self._evaluation.scored

    @property
    def instances(self) -> list[Instance]:
        """The streams of the last row."""
        return self._evaluation.instances

    @property
    def facts(self) -> dict[str, Any]:
        """Entries of ``settings`` of the last row."""
        return {
            "ranks": self._trainer.world_size,
            "streaming_seconds": round(self._evaluation.seconds, 3),
        }
