"""Evaluation: systems stream talks, and their output is scored and reported."""

from zoo.base.machine.imports import ending_on_interrupt


def main() -> None:
    """Run the evaluation that the command line describes; see ``conf/evaluate.yaml``.

    The function imports what it uses: Ctrl-C ends the command with a sentence also during imports.
    """
    with ending_on_interrupt():
        from zoo.config import entry_point

        entry_point("evaluate", "zoo.apps.evaluate.job:evaluate")
