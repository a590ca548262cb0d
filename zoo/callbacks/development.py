"""Callback that evaluates the system on streamed development talks during training."""

import logging
from collections.abc import Sequence
from pathlib import Path

import lightning

from zoo.callbacks.averaging import averaged_weights
from zoo.callbacks.streaming_evaluation import StreamingEvaluation
from zoo.data.talks import Talk
from zoo.streaming.queue import TalkQueue
from zoo.systems.base import StreamingSystem
from zoo.training.curriculum import EvaluationSteps
from zoo.training.development_loss import DevelopmentLoss
from zoo.training.sharding import whole_backbone

LOGGED = ("/BLEU", "/StreamLAAL")  # ends of the names of logged scores

logger = logging.getLogger(__name__)


class DevelopmentEvaluation(StreamingEvaluation):
    """Scores streamed talks at fixed optimizer steps, and logs their loss; ranks share the talks.

    The scores are BLEU and StreamLAAL, logged as ``dev/<source>-<target>/<score>``. The latency
    settings of the system are not changed. If the ranks share the weights, every rank gathers all
    weights for the evaluation; if they do not fit into its memory, there is no evaluation.

    Args:
        talks: Development talks.
        loss: Loss of the development talks.
        steps: Optimizer steps that have an evaluation.
        folder: Folder of the hypotheses, one folder per evaluation.
        batch_size: Number of talks that one rank streams in lockstep.
    """

    def __init__(
        self,
        *,
        talks: Sequence[Talk],
        loss: DevelopmentLoss,
        steps: EvaluationSteps,
        folder: Path,
        batch_size: int = 8,
    ) -> None:
        super().__init__(on_all_ranks=True)  # every rank ranks the checkpoints by the scores
        self._talks = talks
        self._loss = loss
        self._folder = folder
        self._steps = steps
        self.batch_size = batch_size

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        module: lightning.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Evaluate and log the scores if the finished optimizer step has an evaluation."""
        assert isinstance(module, StreamingSystem)
        step = trainer.global_step
        is_step_finished = (batch_idx + 1) % trainer.accumulate_grad_batches == 0
        if not is_step_finished or step not in self._steps:
            return

        with whole_backbone(trainer.strategy, module) as is_whole:
            if not is_whole:
                return
            with averaged_weights(trainer, module):
                losses = self._loss.at(trainer, module, step)
                values = losses | self.evaluate(trainer, module, step)
        # ModelCheckpoint reads the monitored score from the logged values
        module.log_dict(values, rank_zero_only=True, logger=False)
        # Lightning would pass the scores to the loggers only at its next logging interval
        for experiment_logger in trainer.loggers:
            experiment_logger.log_metrics(values, step=step)
        summary = ", ".join(
            f"{name.rsplit('/', 1)[-1]} {value:.2f}"
            for name, value in values.items()
            if name.endswith(("/loss", *LOGGED))
        )
        logger.info("step %d: %s", step, summary)

    def evaluate(
        self, trainer: lightning.Trainer, system: StreamingSystem, step: int
    ) -> dict[str, float]:
        """Stream the development talks with the current weights and score the hypotheses.

        Args:
            trainer: Trainer of the training.
            system: System to evaluate.
            step: Optimizer step, which names the folder of the hypotheses.

        Returns:
            BLEU (0 to 100) and StreamLAAL (seconds) by logged name. A score without a value is left
            out.
        """
        self.folder = self._folder / f"step{step:06d}"
        self.label = f"development talks, step {step}"
        queue = TalkQueue(self._talks, split="dev", batch_size=self.batch_size)
        was_training = system.training
        system.eval()
        self.begin(trainer, system, queue)
        system.test_step(queue)
        self.end(trainer, system, queue)
        system.train(was_training)

        scores = self.logged(system)
        return {name: score for name, score in scores.items() if name.endswith(LOGGED)}

    @staticmethod
    def monitor(system: StreamingSystem) -> str:
        """Return the logged name of the development BLEU, which ranks the checkpoints."""
        return f"dev/{system.direction}/BLEU"
