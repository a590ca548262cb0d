"""python -m zoo.translate FILE [FILE or folder ...] [key=value]: translate speech as it arrives."""

import sys

from zoo.machine.imports import ending_on_interrupt


def main() -> None:
    """Translate the files that the command line names; see ``conf/translate.yaml``."""
    with ending_on_interrupt():
        from zoo.config import entry_point
        from zoo.machine.commands import run_script
        from zoo.translate.command_line import to_overrides

        def start() -> None:
            sys.argv[1:] = to_overrides(sys.argv[1:])
            entry_point("translate", "zoo.translate.job:translate")

        run_script(start)


if __name__ == "__main__":
    main()
