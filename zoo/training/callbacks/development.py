"""Callback that evaluates the system on streamed development talks during training."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import lightning

from zoo.base.talks import Talk
from zoo.data.mixture import Direction, by_direction
from zoo.evaluation.callback import StreamingEvaluation
from zoo.runs.rows.training import MEAN
from zoo.streaming.queue import TalkQueue
from zoo.systems.base import StreamingSystem
from zoo.training.callbacks.averaging import averaged_weights
from zoo.training.curriculum import EvaluationSteps
from zoo.training.development_loss import DevelopmentLoss
from zoo.training.sharding import whole_backbone

LOGGED = ("/BLEU", "/StreamLAAL")  # ends of the names of logged scores

logger = logging.getLogger(__name__)


class DevelopmentEvaluation(StreamingEvaluation):
    """Scores streamed talks at fixed optimizer steps, and logs their loss; ranks share the talks.

    The scores are BLEU and StreamLAAL, logged as ``dev/<source>-<target>/<score>``. The talks of a
    mixture are streamed direction by direction, and the means of the directions are logged as
    ``dev/mean/<score>``. The latency settings of the system are not changed. If the ranks share the
    weights, every rank gathers all weights for the evaluation; if they do not fit into its memory,
    there is no evaluation.

    This is not Lightning's validation loop, because that loop runs after the hook in which
    ``ModelCheckpoint`` saves ``last.ckpt``: the file would lack the score and the ranking of its
    step, and Lightning does not repeat the validation of a run that is killed in it and resumed.
    (It also validates after a multiple of batches only, not from a first step on or after the last
    step. In a script, where ``StreamingEvaluation`` is a callback, it is Lightning's loop.)

    Args:
        talks: Development talks.
        loss: Loss of the development talks.
        steps: Optimizer steps that have an evaluation.
        folder: Folder of the hypotheses, one folder per evaluation and, for a mixture, direction.
        batch_size: Number of talks that one rank streams in lockstep.
        after: Called on rank 0 when the scores of an evaluation are logged.
    """

    def __init__(
        self,
        *,
        talks: Sequence[Talk],
        loss: DevelopmentLoss,
        steps: EvaluationSteps,
        folder: Path,
        batch_size: int = 8,
        after: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(on_all_ranks=True)  # each rank needs the scores to select the checkpoints
        self._talks = talks
        self._loss = loss
        self._folder = folder
        self._steps = steps
        self.batch_size = batch_size
        self._after = after

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
            f"{name.removeprefix('dev/')} {value:.2f}"
            for name, value in values.items()
            if name.endswith(("/loss", *LOGGED))
        )
        logger.info("step %d: %s", step, summary)
        if self._after is not None and trainer.is_global_zero:
            self._after()

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
        folder = self._folder / f"step{step:06d}"
        directions = self._directions(system)
        is_mixture = len(directions) > 1
        was_training = system.training
        system.eval()
        scores: dict[str, float] = {}
        for (source, target), talks in directions.items():
            with system.translating(source, target):
                self.folder = folder / system.direction if is_mixture else folder
                moment = f"step {step}, {system.direction}" if is_mixture else f"step {step}"
                self.label = f"development talks, {moment}"
                self.row_name = f"{system.name} step {step}"
                scores |= self._streamed(trainer, system, talks)
        system.train(was_training)
        return scores | _means(scores) if is_mixture else scores

    def _streamed(
        self, trainer: lightning.Trainer, system: StreamingSystem, talks: Sequence[Talk]
    ) -> dict[str, float]:
        """Stream talks in the direction of the system; arguments and result as ``evaluate``."""
        queue = TalkQueue(talks, split="dev", batch_size=self.batch_size)
        self.begin(trainer, system, queue)
        system.test_step(queue)
        self.end(trainer, system, queue)
        scores = self.logged(system)
        return {name: score for name, score in scores.items() if name.endswith(LOGGED)}

    def _directions(self, system: StreamingSystem) -> dict[Direction, list[Talk]]:
        """Return the development talks by direction."""
        return by_direction(self._talks, (system.source_language, system.target_language))

    def monitor(self, system: StreamingSystem) -> str:
        """Return the logged name of the development BLEU, which ranks the checkpoints.

        It is the BLEU of the only direction, or the mean of all directions.
        """
        [*directions] = self._directions(system)
        if len(directions) > 1:
            return f"dev/{MEAN}/BLEU"
        source, target = (directions or [(system.source_language, system.target_language)])[0]
        return f"dev/{source.code}-{target.code}/BLEU"


def _means(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the mean of each score over the directions that have a value, by logged name."""
    by_score = {end: [v for name, v in scores.items() if name.endswith(end)] for end in LOGGED}
    return {
        f"dev/{MEAN}{end}": sum(values) / len(values) for end, values in by_score.items() if values
    }
