"""The commands of jobs: simulzoo train, -evaluate, -live and -prepare.

train.py, evaluate.py and ``python -m`` with zoo.apps.live and zoo.apps.prepare call them. The functions
import what they use: Ctrl-C ends a command with a sentence also during these imports.
"""

from zoo.base.machine.imports import ending_on_interrupt


def train() -> None:
    """Run the training that the command line describes; see ``conf/train.yaml``."""
    with ending_on_interrupt():
        from zoo.config import entry_point

        entry_point("train", "zoo.training.job:train")


def evaluate() -> None:
    """Run the evaluation that the command line describes; see ``conf/evaluate.yaml``."""
    with ending_on_interrupt():
        from zoo.config import entry_point

        entry_point("evaluate", "zoo.apps.evaluate.job:evaluate")


def live() -> None:
    """Serve the systems that the command line describes; see ``conf/live.yaml``."""
    with ending_on_interrupt():
        from zoo.config import entry_point

        entry_point("live", "zoo.apps.live.job:live")


def prepare() -> None:
    """Make training data of the corpus that the command line names; see ``conf/prepare.yaml``."""
    with ending_on_interrupt():
        from zoo.config import entry_point

        entry_point("prepare", "zoo.apps.prepare.job:prepare")
