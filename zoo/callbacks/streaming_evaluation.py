"""Callback that evaluates the system on streamed development talks during training.

It uses the simulation and the scoring functions of ``evaluate.py``.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

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


@dataclass(kw_only=True, eq=False)
class StreamingEvaluation(Callback):
    """Callback that scores streamed talks at fixed optimizer steps.

    The scores are BLEU and StreamLAAL, logged as ``dev/<source>-<target>/<score>``. The latency
    settings of the system are not changed. Talks of a batch are streamed in parallel, one chunk
    each per step of the simulation.

    Args:
        talks: Development talks.
        every_steps: Number of optimizer steps between two evaluations.
        first_step: First optimizer step that can have an evaluation.
        last_step: Optimizer step that has an evaluation in any case. None adds no such step.
        batch_size: Number of talks that are streamed in parallel.
    """

    talks: Sequence[Talk] = field(repr=False)
    every_steps: int
    first_step: int = 0
    last_step: int | None = None
    batch_size: int = 8

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        module: lightning.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Evaluate and log the scores if the finished optimizer step has an evaluation."""
        assert isinstance(module, Training)
        step = trainer.global_step
        is_regular_step = step >= self.first_step and step % self.every_steps == 0
        is_step_finished = (batch_idx + 1) % trainer.accumulate_grad_batches == 0
        if not is_step_finished or not (is_regular_step or step == self.last_step):
            return

        scores = self.evaluate(module)
        # ModelCheckpoint reads the monitored score from the logged values
        module.log_dict(scores, rank_zero_only=True, logger=False)
        # Lightning would pass the scores to the loggers only at its next logging interval
        for experiment_logger in trainer.loggers:
            experiment_logger.log_metrics(scores, step=step)
        summary = ", ".join(
            f"{name.rsplit('/', 1)[-1]} {value:.2f}" for name, value in scores.items()
        )
        logger.info("step %d: %s", step, summary)

    def evaluate(self, module: Training) -> dict[str, float]:
        """Stream the development talks with the current weights and score the hypotheses.

        Returns:
            BLEU (0 to 100) and StreamLAAL (seconds) by logged name. A score without a value is left
            out.
        """
        system = module.system
        talks = self.talks
        was_training = system.training
        system.eval()

        streams = sources(talks, system.target_language, chunk_samples=system.chunk_samples)
        with torch.autocast(module.device.type, enabled=False):
            instances = sorted(
                simulate(system, streams, batch_size=self.batch_size),
                key=lambda instance: instance.index,
            )
        system.train(was_training)

        references = [reference_segments(talk, system.target_language) for talk in talks]
        scores = score_talks(instances, references, language=system.target_language).scores
        logged = {name: scores[name].value for name in ("BLEU", "StreamLAAL")}
        return {
            f"dev/{system.direction}/{name}": value
            for name, value in logged.items()
            if value is not None
        }

    @staticmethod
    def monitor(system: StreamingSystem) -> str:
        """Return the logged name of the development BLEU, which ranks the checkpoints."""
        return f"dev/{system.direction}/BLEU"
