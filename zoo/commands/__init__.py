"""The commands simulzoo-train, simulzoo-evaluate, simulzoo-translate and simulzoo-prepare.

train.py, evaluate.py, ``python -m zoo.translate`` and ``python -m zoo.prepare`` call them.

The jobs are imported late: their imports take seconds, which a mistyped key need not wait for.
"""

import sys

from zoo.config import Config, entry_point
from zoo.errors import run_script


def train() -> None:
    """Run the training that the command line describes; see ``conf/train.yaml``."""
    entry_point("train", _train)


def evaluate() -> None:
    """Run the evaluation that the command line describes; see ``conf/evaluate.yaml``."""
    entry_point("evaluate", _evaluate)


def translate() -> None:
    """Translate the files that the command line names; see ``conf/translate.yaml``."""
    from zoo.translate.command_line import to_overrides

    def start() -> None:
        sys.argv[1:] = to_overrides(sys.argv[1:])
        entry_point("translate", _translate)

    run_script(start)


def prepare() -> None:
    """Make training data of the corpus that the command line names; see ``conf/prepare.yaml``."""
    entry_point("prepare", _prepare)


def _train(cfg: Config) -> float | None:
    from zoo.training.job import train

    return train(cfg)


def _evaluate(cfg: Config) -> float | None:
    from zoo.commands.evaluation import evaluate

    return evaluate(cfg)


def _translate(cfg: Config) -> None:
    from zoo.translate.job import translate

    translate(cfg)


def _prepare(cfg: Config) -> None:
    from zoo.prepare.job import prepare

    prepare(cfg)
