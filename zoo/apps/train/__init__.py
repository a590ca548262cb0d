"""Training: a system in stages, evaluated on development talks and exported."""

from zoo.base.machine.imports import ending_on_interrupt


def main() -> None:
    """Run the training that the command line describes; see ``conf/train.yaml``.

    The function imports what it uses: Ctrl-C ends the command with a sentence also during imports.
    """
    with ending_on_interrupt():
        from zoo.config import entry_point

        entry_point("train", "zoo.training.job:train")
