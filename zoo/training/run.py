"""Functions that train a system, write checkpoints and find the last one."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.loggers import Logger

from zoo.base.disk.files import restore_folder
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data.views import usable_parts
from zoo.runs.rows.join import DEVELOPMENT
from zoo.systems.base import StreamingSystem
from zoo.training.callbacks.averaging import check_averaging, keep_averaged_weights
from zoo.training.callbacks.development import DevelopmentEvaluation
from zoo.training.callbacks.random_state import RandomState
from zoo.training.callbacks.termination import SaveAtEnd
from zoo.training.development_loss import DevelopmentLoss
from zoo.training.module import Training
from zoo.training.optimizer import ADAMW, OptimizerFactory, check_optimizer
from zoo.training.preparation import development_samplers, encode, make_samplers
from zoo.training.settings import TrainingSettings
from zoo.training.sharding import gather_for_export
from zoo.training.strategy import check_resumable, read
from zoo.training.trainer import batches_per_step, make_trainer, savers
from zoo.training.writing import READ_ERRORS, damaged_checkpoint, read_file

LAST = "last.ckpt"  # checkpoint from which a run is resumed
CHECKPOINTS = "checkpoints"  # folder of Lightning checkpoints in a run folder


def fit(
    *,
    system: StreamingSystem,
    talks: Sequence[Talk],
    dev: Sequence[Talk],
    settings: TrainingSettings,
    trainer_options: Mapping[str, Any],
    folder: Path,
    seed: int,
    device: torch.device,
    optimizer: OptimizerFactory = ADAMW,
    loggers: Sequence[Logger] = (),
    callbacks: Sequence[Callback] = (),
    resume: Path | None = None,
    after_evaluation: Callable[[], object] | None = None,
) -> dict[Path, float]:
    """Train a system and write checkpoints to ``folder/checkpoints``.

    The evaluation scores text only, so the system's synthesizer is removed.

    Args:
        system: System whose backbone is trained.
        talks: Training talks.
        dev: Development talks that are streamed to rank the checkpoints.
        settings: Settings of the training.
        trainer_options: The user's arguments of Lightning's Trainer.
        folder: Run folder.
        seed: Seed of all random number generators.
        device: Device on which talks are encoded before the first step.
        optimizer: Creates the optimizer.
        loggers: Lightning loggers of losses and scores.
        callbacks: Further Lightning callbacks.
        resume: Checkpoint to resume from. None starts a new training.
        after_evaluation: Called on rank 0 after each evaluation of the development talks.

    Returns:
        Development BLEU of the best checkpoints by path, best first.

    Raises:
        ZooError: The talks or the backbone lack data or parts that a stage needs, the Trainer or
            the optimizer refuses an option, or ``examples`` cannot be divided among the batches of
            a step.
    """
    system.synthesizer = None
    lightning.seed_everything(seed, workers=True)
    batches = batches_per_step(trainer_options)
    talks = usable_parts(talks)
    samplers = make_samplers(system, talks, settings)
    settings = settings.counted(samplers, batches=batches, seed=seed)
    dev_samplers = development_samplers(system, dev, settings)
    dev_loss = DevelopmentLoss(
        samplers=dev_samplers,
        curriculum=settings.curriculum.shared(batches),
        objectives=settings.objectives,
        seed=seed,
    )
    trainer, best = _trainer(
        system=system,
        dev=dev,
        dev_loss=dev_loss,
        settings=settings,
        trainer_options=trainer_options,
        folder=folder,
        loggers=loggers,
        callbacks=callbacks,
        after_evaluation=after_evaluation,
    )
    check_averaging(trainer)
    check_optimizer(optimizer, trainer.strategy)
    system.training_plan = Training(settings, optimizer=optimizer, seed=seed)
    system.training_plan.setup(system, talks, device, samplers=samplers)
    encode(system, settings, dev_samplers, device)
    trainer.fit(system, ckpt_path=resume, weights_only=True)
    keep_averaged_weights(trainer, system)
    gather_for_export(trainer.strategy, system)
    return _kept(best)


def _trainer(
    *,
    system: StreamingSystem,
    dev: Sequence[Talk],
    dev_loss: DevelopmentLoss,
    settings: TrainingSettings,
    trainer_options: Mapping[str, Any],
    folder: Path,
    loggers: Sequence[Logger],
    callbacks: Sequence[Callback],
    after_evaluation: Callable[[], object] | None,
) -> tuple[lightning.Trainer, ModelCheckpoint]:
    """Create the Trainer with its evaluation and checkpoint callbacks.

    Args:
        system: System whose backbone is trained.
        dev: Development talks that are streamed to rank the checkpoints.
        dev_loss: Loss of the development talks.
        settings: Settings of the training.
        trainer_options: The user's arguments of Lightning's Trainer.
        folder: Run folder.
        loggers: Lightning loggers of losses and scores.
        callbacks: Further Lightning callbacks.
        after_evaluation: Called on rank 0 after each evaluation.

    Returns:
        The Trainer, and the callback that keeps the best checkpoints.

    Raises:
        ZooError: Lightning refuses an option, or the strategy cannot shard the backbone.
    """
    evaluation = DevelopmentEvaluation(
        talks=dev,
        loss=dev_loss,
        folder=folder / DEVELOPMENT,
        steps=settings.evaluation_steps,
        after=after_evaluation,
    )
    last, best = savers(
        folder / CHECKPOINTS,
        save_every_steps=settings.save_every_steps,
        steps=settings.evaluation_steps,
        monitor=evaluation.monitor(system),
        keep=settings.keep_best,
    )
    trainer = make_trainer(
        trainer_options,
        max_steps=settings.curriculum.steps,
        logger=list(loggers) or False,
        callbacks=[
            *callbacks,
            evaluation,
            RandomState(),
            best,
            last,  # saved after ``best``, because it contains the ranking of ``best``
            SaveAtEnd(folder / CHECKPOINTS / LAST),
        ],
        default_root_dir=str(folder),
    )
    return trainer, best


def _kept(best: ModelCheckpoint) -> dict[Path, float]:
    """Return the scores of the best checkpoints that exist, best first.

    A run that was killed and resumed may name a file that it had already replaced.
    """
    ranked = sorted(best.best_k_models.items(), key=lambda item: float(item[1]), reverse=True)
    return {Path(path): float(score) for path, score in ranked if Path(path).exists()}


def last_checkpoint(folder: Path, strategy: object = "auto") -> Path:
    """Return the checkpoint from which a run can be resumed.

    Args:
        folder: Run folder.
        strategy: Strategy of the Trainer that resumes the run.

    Raises:
        ZooError: The run folder has no checkpoint, the checkpoint is damaged, or the checkpoint was
            written with an incompatible strategy.
    """
    path = folder / CHECKPOINTS / LAST
    restore_folder(path)
    if not path.exists():
        raise ZooError(f"Nothing to resume in {folder}: it has no {CHECKPOINTS}/last.ckpt.")
    check_resumable(path, strategy)
    if not path.is_dir():
        read_file(path, mmap=True)
        return path
    try:
        for file in path.rglob("*.pt"):
            read(file)
    except READ_ERRORS as error:
        raise damaged_checkpoint(path) from error
    return path
