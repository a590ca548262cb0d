"""Streams development talks through the system while it trains: the same simulation and scores as evaluate.py."""

import logging
from collections.abc import Sequence

import lightning
import torch
from lightning.pytorch.callbacks import Callback

from zoo.data.talks import Talk
from zoo.evaluation.sources import reference_segments, sources
from zoo.metrics.longform import score_talks
from zoo.streaming.simulate import simulate
from zoo.systems.base import StreamingSystem
from zoo.training.module import Training

logger = logging.getLogger(__name__)


class StreamingEvaluation(Callback):
    """Scores ``talks`` every ``every_steps`` optimizer steps from ``first_step`` on, and after ``last_step``.

    Logs ``dev/<source>-<target>/<score>`` at the system's current knob setting; streams advance in lockstep.
    """

    def __init__(
        self,
        *,
        talks: Sequence[Talk],
        every_steps: int,
        first_step: int = 0,
        last_step: int | None = None,
        batch_size: int = 8,
    ) -> None:
        self._talks = talks
        self.every_steps = every_steps
        self.first_step = first_step
        self.last_step = last_step
        self.batch_size = batch_size

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        module: lightning.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Evaluate when it is time."""
        assert isinstance(module, Training)
        step = trainer.global_step
        due = step >= self.first_step and step % self.every_steps == 0
        ended = (batch_idx + 1) % trainer.accumulate_grad_batches == 0
        if ended and (due or step == self.last_step):
            scores = self.evaluate(module)
            module.log_dict(
                scores, rank_zero_only=True, logger=False
            )  # for the checkpoints that watch it
            for tracker in trainer.loggers:  # at once: Lightning would wait for its own interval
                tracker.log_metrics(scores, step=step)
            shown = ", ".join(
                f"{name.rsplit('/', 1)[-1]} {value:.2f}" for name, value in scores.items()
            )
            logger.info("step %d: %s", step, shown)

    def evaluate(self, module: Training) -> dict[str, float]:
        """BLEU and StreamLAAL (seconds) of the current weights."""
        system = module.system
        talks = self._talks
        training = system.training
        system.eval()
        streams = sources(talks, system.target_language, chunk_samples=system.chunk_samples)
        with torch.autocast(module.device.type, enabled=False):
            instances = sorted(
                simulate(system, streams, batch_size=self.batch_size), key=lambda i: i.index
            )
        system.train(training)
        references = [reference_segments(talk, system.target_language) for talk in talks]
        scores = score_talks(instances, references, language=system.target_language).scores
        wanted = {name: scores[name].value for name in ("BLEU", "StreamLAAL")}
        return {
            f"dev/{system.direction}/{name}": value
            for name, value in wanted.items()
            if value is not None
        }

    @staticmethod
    def monitor(system: StreamingSystem) -> str:
        """The logged name that decides which checkpoint is best."""
        return f"dev/{system.direction}/BLEU"
