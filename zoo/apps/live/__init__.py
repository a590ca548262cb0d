"""Live interpretation: a server that translates the speech of many users while they speak."""

from zoo.base.machine.imports import ending_on_interrupt


def main() -> None:
    """Serve the systems that the command line describes; see ``conf/live.yaml``.

    The function imports what it uses: Ctrl-C ends the command with a sentence also during imports.
    """
    with ending_on_interrupt():
        from zoo.config import entry_point

        entry_point("live", "zoo.apps.live.job:live")
