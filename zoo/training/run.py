"""Settings of a training run, and the functions that train a system and write checkpoints."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.loggers import Logger

from zoo import audio
from zoo.backbones.base import FeatureNormalising
from zoo.callbacks.development import DevelopmentEvaluation
from zoo.callbacks.random_state import RandomState
from zoo.callbacks.termination import SaveAtEnd
from zoo.data.sampling import Sampler, Sampling, TalkEncoder
from zoo.data.talks import Talk
from zoo.errors import ZooError, check_choice, check_numbers
from zoo.files import restore_folder
from zoo.objectives.base import Objective
from zoo.systems.base import StreamingSystem
from zoo.training.batches import TrainingData
from zoo.training.curriculum import Curriculum, Stage
from zoo.training.module import Training
from zoo.training.sharding import gather_for_export
from zoo.training.strategy import check_resumable, read
from zoo.training.trainer import make_trainer, savers
from zoo.training.writing import READ_ERRORS, damaged, read_file

NORMALISATION_TALKS = 32  # maximum number of talks that feature statistics are estimated from
DEVELOPMENT = "development"  # folder of hypotheses of development talks in a run folder
LAST = "last.ckpt"  # checkpoint from which a run is resumed
CHECKPOINTS = "checkpoints"  # folder of Lightning checkpoints in a run folder


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of a training: curriculum, optimizer, data, evaluation and checkpoints.

    All steps are optimizer steps.

    Attributes:
        curriculum: Stages of the training.
        objectives: Objectives by the names that the stages refer to.
        weight_decay: Weight decay of AdamW.
        betas: The two beta coefficients of AdamW.
        train_split: Split of the corpus to train on.
        train_talks: Number of training talks. None uses all talks of the split.
        dev_split: Split of the corpus that is streamed to rank the checkpoints.
        dev_talks: Number of development talks. None uses all talks of the split.
        evaluate_every_steps: Number of steps between two evaluations.
        evaluate_from_step: First step that can have an evaluation.
        evaluate_last: Whether the last step has an evaluation in any case.
        log_every_steps: Number of steps between two logged losses.
        save_every_steps: Number of steps between two checkpoints for resuming.
        keep_best: Number of best checkpoints to keep, ranked by development BLEU.
        data_workers: Number of processes that load batches. 0 loads batches in the main process.
        vocabulary_size: Size of the tokenizer that is trained on the training talks if the backbone
            has neither a tokenizer nor trained weights. None trains no tokenizer.
    """

    curriculum: Curriculum
    objectives: Mapping[str, Objective]
    weight_decay: float = 0.01
    betas: Sequence[float] = (0.9, 0.98)
    train_split: str = "train"
    train_talks: int | None = None
    dev_split: str = "dev"
    dev_talks: int | None = 2
    evaluate_every_steps: int = 400
    evaluate_from_step: int = 0
    evaluate_last: bool = True
    log_every_steps: int = 20
    save_every_steps: int = 100
    keep_best: int = 1
    data_workers: int = 1
    vocabulary_size: int | None = None

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            ZooError: A stage has an unknown objective, sampling options of another type than its
                objective, or encoded audio although the encoder is trained; or ``betas`` or an
                interval is out of range.
        """
        for stage in self.curriculum.stages:
            check_choice(f"objective of stage {stage.name!r}", stage.objective, self.objectives)
            self._check_sampling(stage)
        self._check_encoded()
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ZooError(
                f"training.betas are two numbers from 0 to below 1, not {list(self.betas)}."
            )
        for name in ("evaluate_every_steps", "log_every_steps", "save_every_steps"):
            check_numbers("training", least=1, **{name: getattr(self, name)})

    def stages(self) -> list[Stage]:
        """Return the stages that have at least one step."""
        return [stage for stage in self.curriculum.stages if stage.steps]

    def sampling(self, stage: Stage) -> Sampling:
        """Return the sampler options of a stage, by default the options of its objective."""
        if stage.sampling is not None:
            return stage.sampling
        return self.objectives[stage.objective].sampling

    def _check_sampling(self, stage: Stage) -> None:
        """Raise ZooError if a stage's sampler options have another type than its objective's."""
        needed = type(self.objectives[stage.objective].sampling)
        if not isinstance(self.sampling(stage), needed):
            raise ZooError(
                f"Stage {stage.name!r} has {type(stage.sampling).__name__} as its sampling, but "
                f"its objective {stage.objective} takes {needed.__name__}."
            )

    def _check_encoded(self) -> None:
        """Raise ZooError if a stage with encoded audio trains the encoder or follows such a stage.

        The talks are encoded once, before the first step, so the encoder must not change until the
        end of the stage.
        """
        encoder_stages: list[str] = []  # names of the stages so far that train the encoder
        for stage in self.stages():
            if stage.trains is None or "encoder" in stage.trains:
                encoder_stages.append(stage.name)
            if encoder_stages and self.sampling(stage).encoded:
                raise ZooError(
                    f"Stage {stage.name!r} samples encoded audio, which needs a frozen encoder; "
                    f"these stages train it: {', '.join(encoder_stages)}."
                )


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
    loggers: Sequence[Logger] = (),
    callbacks: Sequence[Callback] = (),
    resume: Path | None = None,
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
        loggers: Lightning loggers of losses and scores.
        callbacks: Further Lightning callbacks.
        resume: Checkpoint to resume from. None starts a new training.

    Returns:
        Development BLEU of the best checkpoints by path, best first.

    Raises:
        ZooError: The talks or the backbone lack data or parts that a stage needs, the Trainer
            refuses an option, or ``examples`` cannot be divided among the batches of a step.
    """
    system.synthesizer = None
    lightning.seed_everything(seed, workers=True)
    samplers = make_samplers(system, talks, settings)  # talks are checked before weights are loaded

    trainer, best = _trainer(
        system=system,
        dev=dev,
        settings=settings,
        trainer_options=trainer_options,
        folder=folder,
        loggers=loggers,
        callbacks=callbacks,
    )
    prepare(system, talks, settings, samplers, device)
    system.training_plan = Training(
        curriculum=settings.curriculum,
        objectives=settings.objectives,
        weight_decay=settings.weight_decay,
        betas=(settings.betas[0], settings.betas[1]),
        log_every_steps=settings.log_every_steps,
    )
    data = TrainingData(
        samplers=samplers,
        curriculum=settings.curriculum,
        objectives=settings.objectives,
        seed=seed,
        workers=settings.data_workers,
    )
    checkpoint = None if resume is None else str(resume)
    trainer.fit(system, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    gather_for_export(trainer.strategy, system)
    ranked = sorted(best.best_k_models.items(), key=lambda item: float(item[1]), reverse=True)
    # a run that was killed and resumed may remember a file that it had replaced already
    return {Path(path): float(score) for path, score in ranked if Path(path).exists()}


def _trainer(
    *,
    system: StreamingSystem,
    dev: Sequence[Talk],
    settings: TrainingSettings,
    trainer_options: Mapping[str, Any],
    folder: Path,
    loggers: Sequence[Logger],
    callbacks: Sequence[Callback],
) -> tuple[lightning.Trainer, ModelCheckpoint]:
    """Create the Trainer with its evaluation and checkpoint callbacks.

    Args:
        system: System whose backbone is trained.
        dev: Development talks that are streamed to rank the checkpoints.
        settings: Settings of the training.
        trainer_options: The user's arguments of Lightning's Trainer.
        folder: Run folder.
        loggers: Lightning loggers of losses and scores.
        callbacks: Further Lightning callbacks.

    Returns:
        The Trainer, and the callback that keeps the best checkpoints.

    Raises:
        ZooError: Lightning refuses an option, or ``examples`` of a stage cannot be divided among
            the batches of a step.
    """
    evaluation = DevelopmentEvaluation(
        talks=dev,
        folder=folder / DEVELOPMENT,
        every_steps=settings.evaluate_every_steps,
        first_step=settings.evaluate_from_step,
        last_step=settings.curriculum.steps if settings.evaluate_last else None,
    )
    last, best = savers(
        folder / CHECKPOINTS,
        save_every_steps=settings.save_every_steps,
        evaluate_every_steps=settings.evaluate_every_steps,
        monitor=evaluation.monitor(system),
        keep=settings.keep_best,
    )
    trainer = make_trainer(
        trainer_options,
        max_steps=settings.curriculum.steps,
        logger=list(loggers) or False,
        callbacks=[
            evaluation,
            RandomState(),
            best,
            last,  # after ``best``, whose ranking it contains
            SaveAtEnd(folder / CHECKPOINTS / LAST),
            *callbacks,
        ],
        default_root_dir=str(folder),
    )

    batches = trainer.num_devices * trainer.num_nodes * trainer.accumulate_grad_batches
    settings.curriculum.shared(batches)  # raises if the examples of a stage are not divisible
    return trainer, best


def make_samplers(
    system: StreamingSystem, talks: Sequence[Talk], settings: TrainingSettings
) -> dict[str, Sampler]:
    """Create the sampler of each stage.

    Args:
        system: System, which has the target language and the chunk duration.
        talks: Training talks.
        settings: Settings of the training.

    Returns:
        Samplers by name of the stage.

    Raises:
        ZooError: A talk lacks labels that the examples of a stage need.
    """
    return {
        stage.name: settings.sampling(stage).sampler(
            talks,
            target=system.target_language,
            chunk_seconds=system.chunk_seconds,
            stretches=stage.stretches,
        )
        for stage in settings.stages()
    }


def prepare(
    system: StreamingSystem,
    talks: Sequence[Talk],
    settings: TrainingSettings,
    samplers: Mapping[str, Sampler],
    device: torch.device,
) -> None:
    """Create the network and the heads of the objectives, and encode talks for frozen encoders.

    Args:
        system: System whose network is created.
        talks: Training talks.
        settings: Settings of the training.
        samplers: Samplers by name of the stage.
        device: Device on which talks are encoded.

    Raises:
        ZooError: The backbone lacks a part that a stage trains, or cannot encode whole talks for a
            stage with encoded audio; or a talk lacks labels that an objective needs.
    """
    system.configure_model()
    backbone = system.backbone
    if isinstance(backbone, FeatureNormalising):
        interval = max(1, math.ceil(len(talks) / NORMALISATION_TALKS))
        backbone.fit_features(
            audio.load(talk.file, start=talk.offset, duration=talk.duration)
            for talk in talks[::interval]
        )

    for stage in settings.curriculum.stages:
        backbone.trainable(stage.trains)  # raises for an unknown part
    backbone.requires_grad_(True)
    system.train()  # loaded modules may be in eval mode, and Lightning does not change the mode

    for name in dict.fromkeys(stage.objective for stage in settings.stages()):
        objective_samplers = [
            samplers[stage.name] for stage in settings.stages() if stage.objective == name
        ]
        settings.objectives[name].prepare(talks, backbone, objective_samplers)
    for stage in settings.stages():
        if settings.sampling(stage).encoded:
            if not isinstance(backbone, TalkEncoder):
                raise ZooError(
                    f"Stage {stage.name!r} samples encoded audio, but {type(backbone).__name__} "
                    "encodes no whole talks; set encoded=false."
                )
            samplers[stage.name].encode(
                backbone, multipliers=stage.stretches.possible_multipliers, device=device
            )


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
        raise damaged(path) from error
    return path
