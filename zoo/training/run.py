"""One training, from talks to checkpoints; loggers and callbacks are arguments."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger

from zoo import audio
from zoo.backbones.base import FeatureNormalising
from zoo.callbacks.random_state import RandomState
from zoo.callbacks.streaming_evaluation import StreamingEvaluation
from zoo.data.sampling import Sampler, Sampling, TalkEncoder
from zoo.data.talks import Talk
from zoo.errors import ZooError, unknown_choice
from zoo.objectives.base import Objective
from zoo.systems.base import StreamingSystem
from zoo.training.batches import TrainingData
from zoo.training.curriculum import Curriculum, Stage
from zoo.training.module import Training
from zoo.training.strategy import check_resumable, read
from zoo.training.trainer import make_trainer, savers

NORMALISATION_TALKS = 32  # most talks that statistics of features are estimated on
CHECKPOINTS = "checkpoints"  # folder of Lightning checkpoints in a run folder


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """What is trained, on what, and how often it is evaluated; steps are optimizer steps.

    Attributes:
        curriculum: The stages.
        objectives: By the names that the stages give.
        weight_decay: Of AdamW.
        betas: Of AdamW.
        train_split: Split of the corpus to train on.
        train_talks: How many of its talks; None: all.
        dev_split: Split that is streamed to choose the best checkpoints.
        dev_talks: How many of its talks; None: all.
        evaluate_every_steps: Steps between two evaluations.
        evaluate_from_step: First step with an evaluation.
        evaluate_last: Whether the last step has an evaluation in any case.
        log_every_steps: Steps between two logged losses.
        save_every_steps: Steps between two checkpoints to resume from.
        keep_best: How many checkpoints to keep, by development BLEU.
        data_workers: Processes that make batches; 0: the main process.
        vocabulary_size: Size of the tokenizer that is trained on the talks where the backbone
            names neither a tokenizer nor trained weights; None: no tokenizer is trained.
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
        """Raises ZooError for an unknown objective, for unfit examples and an interval below 1."""
        for stage in self.curriculum.stages:
            if stage.objective not in self.objectives:
                raise unknown_choice(
                    f"objective of stage {stage.name!r}", stage.objective, self.objectives
                )
            self._check_sampling(stage)
        self._check_encoded()
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ZooError(
                f"training.betas are two numbers from 0 to below 1, not {list(self.betas)}."
            )
        for name in ("evaluate_every_steps", "log_every_steps", "save_every_steps"):
            if getattr(self, name) < 1:
                raise ZooError(f"training.{name} must be at least 1, not {getattr(self, name)}.")

    def stages(self) -> list[Stage]:
        """The stages that have steps."""
        return [stage for stage in self.curriculum.stages if stage.steps]

    def sampling(self, stage: Stage) -> Sampling:
        """How the examples of a stage are drawn."""
        own = self.objectives[stage.objective].sampling
        return own if stage.sampling is None else stage.sampling

    def _check_sampling(self, stage: Stage) -> None:
        needed = type(self.objectives[stage.objective].sampling)
        if not isinstance(self.sampling(stage), needed):
            raise ZooError(
                f"Stage {stage.name!r} has {type(stage.sampling).__name__} as its sampling, but its "
                f"objective {stage.objective} takes {needed.__name__}."
            )

    def _check_encoded(self) -> None:
        """Raise ZooError where an encoder is trained before or while its outputs are reused."""
        trained: list[str] = []
        for stage in self.stages():
            if stage.trains is None or "encoder" in stage.trains:
                trained.append(stage.name)
            if trained and self.sampling(stage).encoded:
                raise ZooError(
                    f"Stage {stage.name!r} samples encoded audio, which needs a frozen encoder; "
                    f"these stages train it: {', '.join(trained)}."
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
) -> list[Path]:
    """Train a system and leave checkpoints in ``folder/checkpoints``.

    Evaluation scores text only, so the system's synthesizer is removed.

    Args:
        system: The system whose backbone is trained.
        talks: The training talks.
        dev: The talks that are streamed to choose the best checkpoints.
        settings: What is trained.
        trainer_options: Arguments of Lightning's Trainer.
        folder: The run folder.
        seed: Of all random numbers.
        device: Where talks are encoded before the first step.
        loggers: Receive losses and scores.
        callbacks: Of the Trainer, beside the training's own.
        resume: A checkpoint to continue from.

    Returns:
        The checkpoints that are best by development BLEU, best first.

    Raises:
        ZooError: The talks, the settings or the backbone do not fit together.
    """
    system.synthesizer = None
    lightning.seed_everything(seed, workers=True)
    samplers = make_samplers(system, talks, settings)  # talks are checked before weights are loaded

    evaluation = StreamingEvaluation(
        talks=dev,
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
        callbacks=[evaluation, RandomState(), last, best, *callbacks],
        default_root_dir=str(folder),
    )
    batches = trainer.num_devices * trainer.num_nodes * trainer.accumulate_grad_batches
    settings.curriculum.shared(batches)

    prepare(system, talks, settings, samplers, device)
    module = Training(
        system=system,
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
    trainer.fit(
        module,
        datamodule=data,
        ckpt_path=None if resume is None else str(resume),
        weights_only=True,
    )
    trainer.save_checkpoint(folder / CHECKPOINTS / "last.ckpt")  # the end, whatever the interval

    ranked = sorted(best.best_k_models.items(), key=lambda item: float(item[1]), reverse=True)
    return [Path(path) for path, _ in ranked]


def make_samplers(
    system: StreamingSystem, talks: Sequence[Talk], settings: TrainingSettings
) -> dict[str, Sampler]:
    """Samplers by name of the stage. Raises ZooError for talks that lack what a stage needs."""
    return {
        stage.name: settings.sampling(stage).sampler(
            talks, target=system.target_language, chunk_seconds=system.chunk_seconds
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
    """Create the network, the objectives' heads and the outputs of a frozen encoder.

    Raises:
        ZooError: The backbone or the talks lack what a stage needs.
    """
    system.configure_model()
    backbone = system.backbone
    if isinstance(backbone, FeatureNormalising):
        some = talks[:: -(-len(talks) // NORMALISATION_TALKS) or 1]
        backbone.fit_features(audio.load(t.file, start=t.offset, duration=t.duration) for t in some)

    for stage in settings.curriculum.stages:
        backbone.trainable(stage.trains)  # raises for an unknown part
    backbone.requires_grad_(True)
    system.train()  # what was loaded may be in eval mode, and Lightning leaves modes as they are

    for name in dict.fromkeys(stage.objective for stage in settings.stages()):
        own = [samplers[s.name] for s in settings.stages() if s.objective == name]
        settings.objectives[name].prepare(talks, backbone, own)
    for stage in settings.stages():
        if settings.sampling(stage).encoded:
            if not isinstance(backbone, TalkEncoder):
                raise ZooError(
                    f"Stage {stage.name!r} samples encoded audio, but {type(backbone).__name__} "
                    "encodes no whole talks; set encoded=false."
                )
            samplers[stage.name].encode(
                backbone, multipliers=stage.possible_multipliers, device=device
            )


def last_checkpoint(folder: Path, strategy: object = "auto") -> Path:
    """The checkpoint a run folder can be resumed from under the Trainer's ``strategy``.

    Raises ZooError when there is none, a damaged one, or one of another strategy.
    """
    path = folder / CHECKPOINTS / "last.ckpt"
    if not path.exists():
        raise ZooError(f"Nothing to resume in {folder}: it has no {CHECKPOINTS}/last.ckpt.")
    check_resumable(path, strategy)
    try:
        if path.is_dir():
            for file in path.rglob("*.pt"):
                read(file)
        else:
            torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        raise ZooError(
            f"{path} is damaged; resume from another copy of it or start afresh."
        ) from error
    return path
