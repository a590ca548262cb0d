"""From a corpus to training data: audio, word times, word alignment, filters and a card."""

from zoo.base.machine.imports import ending_on_interrupt


def main() -> None:
    """Make training data of the corpus that the command line names; see ``conf/prepare.yaml``.

    The function imports what it uses: Ctrl-C ends the command with a sentence also during imports.
    """
    with ending_on_interrupt():
        from zoo.config import entry_point

        entry_point("prepare", "zoo.apps.prepare.job:prepare")
