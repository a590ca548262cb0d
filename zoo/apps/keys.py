"""Lists what can be overridden: ``python -m zoo keys [COMMAND] [override ...]``.

Each line is an override as a shell reads it, with its meaning and what it accepts in a comment:

    python -m zoo keys system=streamatt | grep history
    python -m zoo keys train experiment=infinisst_minitalks
"""

import argparse
from collections.abc import Sequence

from zoo.base.errors import check_choice
from zoo.base.machine.commands import run_script
from zoo.base.machine.hints import program
from zoo.config.command_line import check_config_folder
from zoo.config.help import PAGES, group_lines, key_lines
from zoo.config.keys import keys_of


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the keys of the command and the overrides that the command line names.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(
        prog=program("keys"),
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "command", nargs="?", default="evaluate", help=f"{', '.join(PAGES)} (default: evaluate)"
    )
    parser.add_argument("overrides", nargs="*", metavar="override", help="group=choice, key=value")
    parser.add_argument("--config-dir", "-cd", help="folder with YAML files of groups")
    typed = parser.parse_args(arguments)
    run_script(lambda: print_keys([typed.command, *typed.overrides], typed.config_dir))


def print_keys(words: Sequence[str], folder: str | None = None) -> None:
    """Print the groups and keys of a configuration, as a shell reads them.

    Args:
        words: name of the command, unless it is ``evaluate``, and overrides.
        folder: additional folder of YAML files.

    Raises:
        ZooError: an override is wrong.
    """
    command, given = "evaluate", words
    if "=" not in words[0]:
        check_choice("command", words[0], PAGES)
        command, given = words[0], words[1:]
    folders = [] if folder is None else [folder]
    for name in folders:
        check_config_folder(name)
    keys = key_lines(keys_of(command, given, folders))
    print("\n".join([*group_lines(command, given, folders), *keys]))


if __name__ == "__main__":
    main()
