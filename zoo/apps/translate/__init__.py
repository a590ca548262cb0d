"""Translation of audio files and of a microphone: text, subtitles, log, speech and report page."""

import sys

from zoo.base.machine.imports import ending_on_interrupt


def main() -> None:
    """Translate the files that the command line names; see ``conf/translate.yaml``.

    The function imports what it uses: Ctrl-C ends the command with a sentence also during imports.
    """
    with ending_on_interrupt():
        from zoo.apps.translate.command_line import to_overrides
        from zoo.base.machine.commands import run_script
        from zoo.config import entry_point

        def start() -> None:
            sys.argv[1:] = to_overrides(sys.argv[1:])
            entry_point("translate", "zoo.apps.translate.job:translate")

        run_script(start)
