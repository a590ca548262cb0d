"""Settings of a training."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from zoo.backbones.objective import Objective
from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.data.sampling import Sampler, Sampling
from zoo.training.curriculum import Curriculum, EvaluationSteps, Stage
from zoo.training.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of a training: curriculum, data, evaluation and checkpoints.

    All steps are optimizer steps.

    Attributes:
        curriculum: Stages of the training.
        objectives: Objectives by the names that the stages refer to.
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
                objective, or encoded audio although the encoder is trained; or an interval is out
                of range.
        """
        for stage in self.curriculum.stages:
            check_choice(f"objective of stage {stage.name!r}", stage.objective, self.objectives)
            self._check_sampling(stage)
        self._check_encoded()
        for name in (
            "train_talks",
            "dev_talks",
            "evaluate_every_steps",
            "log_every_steps",
            "save_every_steps",
            "vocabulary_size",
        ):
            check_numbers("training", least=1, **{name: getattr(self, name)})

    @property
    def evaluation_steps(self) -> EvaluationSteps:
        """Optimizer steps after which the development talks are evaluated."""
        return EvaluationSteps(
            every=self.evaluate_every_steps,
            first=self.evaluate_from_step,
            last=self.curriculum.steps if self.evaluate_last else None,
        )

    def check_ranked(self) -> None:
        """Raise ZooError unless the training ranks a checkpoint, whose BLEU a sweep optimises."""
        counted = not any(stage.passes for stage in self.curriculum.stages)
        steps = range(1, self.curriculum.steps + 1)
        if not self.keep_best or (counted and not any(s in self.evaluation_steps for s in steps)):
            raise ZooError(
                "optimized_metric needs a checkpoint with the BLEU of the development talks; set "
                "training.evaluate_last=true and training.keep_best=1."
            )

    def stages(self) -> list[Stage]:
        """Return the stages that have at least one step."""
        return [stage for stage in self.curriculum.stages if stage.is_used]

    def counted(
        self, samplers: Mapping[str, Sampler], *, batches: int, seed: int
    ) -> "TrainingSettings":
        """Return the settings with the number of steps of each stage with passes.

        Args:
            samplers: Samplers of the stages, by name.
            batches: Number of batches per step, over all ranks.
            seed: Seed of the training.
        """
        steps = {
            stage.name: Schedule(
                samplers[stage.name], stage.limits, steps=0, batches=batches, seed=[seed, number]
            ).steps_per_pass
            for number, stage in enumerate(self.curriculum.shared(batches).stages, start=1)
            if stage.passes
        }
        return replace(self, curriculum=self.curriculum.counted(steps))

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
