"""One training from talks to exported weights. Knows no Hydra and no W&B: loggers and callbacks are given."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger

from zoo import audio
from zoo.backbones.base import FeatureNormalising
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.lst.lst import LST
from zoo.backbones.wav2text.wav2text import Wav2Text
from zoo.callbacks.random_state import RandomState
from zoo.callbacks.streaming_evaluation import StreamingEvaluation
from zoo.data.chain_of_thought import Thought, ThoughtConfig, Thoughts
from zoo.data.clips import Clip, ClipConfig, Clips
from zoo.data.excerpts import Excerpt, ExcerptConfig, Excerpts
from zoo.data.robust_segments import RobustSegments, Stretch
from zoo.data.talks import Talk
from zoo.data.units import UnitFitting
from zoo.errors import ZooError, unknown_choice
from zoo.objectives.base import Objective
from zoo.systems.base import StreamingSystem
from zoo.training.batches import (
    ClipSupply,
    ExcerptSupply,
    Stretches,
    StretchSupply,
    Supply,
    ThoughtSupply,
    TrainingData,
)
from zoo.training.curriculum import Curriculum, Stage
from zoo.training.encoded import encode_talks
from zoo.training.module import Training
from zoo.training.strategy import check_resumable, read
from zoo.training.trainer import make_trainer, savers

# What batches are made of
PIECES = {Stretch: "stretches", Excerpt: "excerpts", Thought: "thoughts", Clip: "clips"}
Told = TypeVar("Told", ExcerptConfig, ThoughtConfig, ClipConfig)
NORMALISED = 32  # talks, at most, that statistics of features come from
QUANTISED = 600  # clips, at most, that units come from
CHECKPOINTS = "checkpoints"  # folder of Lightning checkpoints in a run folder


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """What is trained, on what, and how often it is looked at. Steps are optimizer steps.

    utterances: share of the steps that see single utterances, which begin in speech at once, instead of robust segments
    (1: the paper's Table 2). encode_once: what the encoder hears is computed before the first step and kept in the
    cache folder, for all runs with this encoder; no stage may train it then. excerpts, thoughts, clips: what those are
    like that objectives take. vocabulary_size: of the tokenizer that is trained on the talks where the backbone names
    neither a tokenizer nor a checkpoint that has one (None: never).
    """

    curriculum: Curriculum
    objectives: Mapping[str, Objective]
    weight_decay: float = 0.01
    betas: Sequence[float] = (0.9, 0.98)
    utterances: float = 0.0
    encode_once: bool = False
    excerpts: ExcerptConfig | None = None
    thoughts: ThoughtConfig | None = None
    clips: ClipConfig | None = None
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
        """Raises ZooError for an objective that is not there and for an interval below 1."""
        for stage in self.curriculum.stages:
            if stage.objective not in self.objectives:
                raise unknown_choice(
                    f"objective of stage {stage.name!r}", stage.objective, self.objectives
                )
        if not 0 <= self.utterances <= 1:
            raise ZooError(
                f"training.utterances is a share of the steps, from 0 to 1, not {self.utterances}."
            )
        if self.encode_once and (
            training := [s.name for s in self.stages() if "encoder" in s.trains]
        ):
            raise ZooError(
                f"training.encode_once needs a frozen encoder; these stages train it: {', '.join(training)}."
            )
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ZooError(
                f"training.betas are two numbers from 0 to below 1, not {list(self.betas)}."
            )
        for name in ("evaluate_every_steps", "log_every_steps", "save_every_steps"):
            if getattr(self, name) < 1:
                raise ZooError(f"training.{name} must be at least 1, not {getattr(self, name)}.")
        self._check_supplies()

    def stages(self, takes: type | None = None) -> list[Stage]:
        """Stages with steps; those whose objective takes what is named."""
        with_steps = [stage for stage in self.curriculum.stages if stage.steps]
        return [
            stage for stage in with_steps if takes in (None, self.objectives[stage.objective].takes)
        ]

    def _check_supplies(self) -> None:
        """Raises ZooError where a stage lacks what its objective takes, or has what it does not take, and for an
        encoder that is trained on what it heard before."""
        for stage in self.stages():
            takes = self.objectives[stage.objective].takes
            if takes is not Thought and stage.examples is not None:
                raise ZooError(
                    f"Stage {stage.name!r} counts examples, but {stage.objective} takes {PIECES[takes]}, not thoughts."
                )
            for piece, own, common in (
                (Excerpt, stage.excerpts, self.excerpts),
                (Thought, stage.thoughts, self.thoughts),
                (Clip, stage.clips, self.clips),
            ):
                if takes is piece and own is common is None:
                    raise ZooError(
                        f"Stage {stage.name!r} trains {stage.objective}, which takes {PIECES[piece]}; describe them in "
                        f"training.{PIECES[piece]}."
                    )
                if takes is not piece and own is not None:
                    raise ZooError(
                        f"Stage {stage.name!r} has {PIECES[piece]}, but {stage.objective} takes {PIECES[takes]}."
                    )
        if not self.stages(Stretch) and (self.utterances or self.encode_once):
            raise ZooError(
                "training.utterances and training.encode_once are for stretches; of excerpts, set "
                "training.excerpts.single and training.excerpts.encoded."
            )
        encoded = [
            stage for stage in self.stages(Excerpt) if told(stage.excerpts, self.excerpts).encoded
        ]
        if training := [stage.name for stage in encoded if "encoder" in stage.trains]:
            raise ZooError(
                f"Encoded excerpts need a frozen encoder; these stages train it: {', '.join(training)}."
            )


def told(own: Told | None, common: Told | None) -> Told:
    """A stage's own description of its pieces, or the training's."""
    described = common if own is None else own
    assert described is not None, "the settings have checked it"
    return described


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
    """Train ``system`` on ``talks`` and leave checkpoints in ``folder/checkpoints``; ``resume`` is one of them.

    A training streams for words alone: a synthesizer is put away. Returns the checkpoints that top-k keeps, best first.
    """
    system.synthesizer = (
        None  # its speech would take time, its weights memory, and neither is scored or trained
    )
    lightning.seed_everything(seed, workers=True)
    thoughts = thought_supplies(
        system, talks, settings
    )  # talks that lack something are told before weights are read
    clips = clip_supplies(system, talks, settings)
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
        use_distributed_sampler=False,
        enable_model_summary=False,
        default_root_dir=str(folder),
    )
    settings.curriculum.shared(
        trainer.num_devices * trainer.num_nodes * trainer.accumulate_grad_batches
    )
    prepare(system, talks, settings, next((supply.clips for supply in clips.values()), None))
    module = Training(
        system=system,
        curriculum=settings.curriculum,
        objectives=settings.objectives,
        weight_decay=settings.weight_decay,
        betas=(settings.betas[0], settings.betas[1]),
        log_every_steps=settings.log_every_steps,
    )
    data = TrainingData(
        supplies=thoughts | clips | supplies(system, talks, settings, device),
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
    trainer.save_checkpoint(
        folder / CHECKPOINTS / "last.ckpt"
    )  # whatever the interval, the end can be resumed
    ranked = sorted(best.best_k_models.items(), key=lambda item: float(item[1]), reverse=True)
    return [Path(path) for path, _ in ranked]


def supplies(
    system: StreamingSystem, talks: Sequence[Talk], settings: TrainingSettings, device: torch.device
) -> dict[str, Supply]:
    """What each stage's objective takes that may be encoded, by the stage's name; the backbone is loaded.

    Raises ZooError for talks or a backbone without it.
    """
    made: dict[str, Supply] = {}
    if stages := settings.stages(Stretch):
        made |= dict.fromkeys(
            (stage.name for stage in stages), stretch_supply(system, talks, settings, device)
        )
    for stage in settings.stages(Excerpt):
        excerpts = told(stage.excerpts, settings.excerpts)
        made[stage.name] = excerpt_supply(system, talks, excerpts, device)
    return made


def thought_supplies(
    system: StreamingSystem, talks: Sequence[Talk], settings: TrainingSettings
) -> dict[str, Supply]:
    """Thoughts of the stages that take them, by the stage's name. Raises ZooError for talks that lack something."""
    made: dict[str, Supply] = {}
    for stage in settings.stages(Thought):
        config = told(stage.thoughts, settings.thoughts)
        thoughts = Thoughts(
            talks, system.target_language, config, chunk_seconds=system.chunk_seconds
        )
        made[stage.name] = ThoughtSupply(thoughts)
    return made


def clip_supplies(
    system: StreamingSystem, talks: Sequence[Talk], settings: TrainingSettings
) -> dict[str, ClipSupply]:
    """Clips of the stages that take them, by the stage's name, spoken now where the cache lacks them.

    Raises ZooError for talks that lack something and for voices that espeak-ng does not know.
    """
    made = {
        stage.name: Clips(talks, system.target_language, told(stage.clips, settings.clips))
        for stage in settings.stages(Clip)
    }
    return {name: ClipSupply(clips) for name, clips in made.items()}


def stretch_supply(
    system: StreamingSystem, talks: Sequence[Talk], settings: TrainingSettings, device: torch.device
) -> StretchSupply:
    """Robust segments and utterances, as far as they have a share, encoded where the settings say so.

    Raises ZooError where they do and the backbone has no streaming encoder.
    """
    made: list[Stretches] = []
    for robust, share in ((True, 1 - settings.utterances), (False, settings.utterances)):
        if share == 0:
            continue
        segments = RobustSegments(
            talks, chunk_seconds=system.chunk_seconds, robust=robust, on_grid=settings.encode_once
        )
        encoded = None
        if settings.encode_once:
            if not isinstance(system.backbone, InfiniSST):
                raise ZooError(
                    f"training.encode_once serves InfiniSST, not {type(system.backbone).__name__}."
                )
            multipliers = settings.curriculum.multipliers
            encoded = encode_talks(
                system.backbone.encoder, segments.talks, multipliers, device=device
            )
        made.append(Stretches(segments, share, encoded))
    return StretchSupply(made)


def excerpt_supply(
    system: StreamingSystem, talks: Sequence[Talk], config: ExcerptConfig, device: torch.device
) -> ExcerptSupply:
    """Excerpts of ``talks``, encoded where the configuration says so.

    Raises ZooError where it does and the backbone has no encoder for whole talks.
    """
    excerpts, backbone = Excerpts(talks, system.target_language, config), system.backbone
    if not config.encoded:
        return ExcerptSupply(excerpts)
    if not isinstance(backbone, Wav2Text | LST) or not backbone.block_chunks:
        raise ZooError(
            f"training.excerpts.encoded serves Wav2Text and LST with block_chunks above 0, "
            f"not this {type(backbone).__name__}."
        )
    encoded = encode_talks(backbone.encoder, excerpts.talks, [backbone.block_chunks], device=device)
    return ExcerptSupply(excerpts, encoded, backbone.block_chunks)


def prepare(
    system: StreamingSystem,
    talks: Sequence[Talk],
    settings: TrainingSettings,
    clips: Clips | None = None,
) -> None:
    """Create the network and what the objectives need. clips: whose speech units are taken from.

    Raises ZooError for a part or a label that is not there.
    """
    system.configure_model()
    if isinstance(system.backbone, FeatureNormalising):
        some = talks[:: -(-len(talks) // NORMALISED) or 1]
        system.backbone.fit_features(
            audio.load(t.file, start=t.offset, duration=t.duration) for t in some
        )
    if clips is not None and isinstance(system.backbone, UnitFitting):
        system.backbone.fit_units(
            clips[index].samples for index in range(min(len(clips), QUANTISED))
        )
    for stage in settings.curriculum.stages:
        system.backbone.trainable(stage.trains)  # told now, not when its stage begins
    system.backbone.requires_grad_(True)
    system.train()  # what was loaded may be in eval mode, and Lightning leaves modes as they are
    for name in dict.fromkeys(stage.objective for stage in settings.stages()):
        settings.objectives[name].prepare(talks, system.backbone)


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
