"""The commands simulzoo-train and simulzoo-evaluate; train.py and evaluate.py call them.

The jobs are imported late: their imports take seconds, which a mistyped key need not wait for.
"""

from zoo.config import Config, entry_point


def train() -> None:
    """Run the training that the command line describes; see ``conf/train.yaml``."""
    entry_point("train", _train)


def evaluate() -> None:
    """Run the evaluation that the command line describes; see ``conf/evaluate.yaml``."""
    entry_point("evaluate", _evaluate)


def _train(cfg: Config) -> float | None:
    from zoo.training.job import train

    return train(cfg)


def _evaluate(cfg: Config) -> float | None:
    from zoo.evaluation.job import evaluate

    return evaluate(cfg)
