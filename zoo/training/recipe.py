"""The training that a configuration describes: its settings and its optimizer."""

from dataclasses import replace
from math import inf

from zoo.base.errors import ZooError
from zoo.config import Config, build, take_value
from zoo.training.optimizer import OptimizerFactory, check_optimizer
from zoo.training.settings import TrainingSettings


def build_training(cfg: Config) -> tuple[TrainingSettings, OptimizerFactory]:
    """Return the settings of a training, and what creates its optimizer.

    ``optimizer.lr``, unless it is null, is the peak learning rate of every stage.

    Raises:
        ZooError: A value of ``training`` or ``optimizer`` is wrong.
    """
    if not cfg.optimizer.get("_partial_"):
        raise ZooError(
            "optimizer needs _partial_: true in its YAML file, because the training adds the "
            "weights."
        )
    cfg, rate = take_value(cfg, "optimizer", "lr")
    settings: TrainingSettings = build(cfg.training)
    optimizer: OptimizerFactory = build(cfg.optimizer)
    check_optimizer(optimizer)
    if rate is None:
        return settings, optimizer
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < inf:
        raise ZooError(
            f"optimizer.lr must be a number above 0, or null for the rates of the stages, not "
            f"{rate!r}."
        )
    return replace(settings, curriculum=settings.curriculum.at_rate(float(rate))), optimizer
