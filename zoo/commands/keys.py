"""Lists what can be overridden: ``python -m zoo keys [COMMAND] [override ...]``.

Each line is an override as a shell reads it, with its meaning and what it accepts in a comment:

    python -m zoo keys system=streamatt | grep history
    python -m zoo keys train experiment=infinisst_minitalks
"""

import argparse
import sys
from collections.abc import Sequence

from zoo.config.commands import PREFIX, program, run_script
from zoo.config.help import PAGES, key_lines
from zoo.config.keys import keys_of
from zoo.errors import check_choice

NAME = "keys"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the keys of the command and the overrides that the command line names.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = program("zoo")
    if not name.startswith(PREFIX):
        name = f"{name} {NAME}"
        is_named = given[:1] == [NAME]
        given = given[1:] if is_named else ["--help"]
    parser = argparse.ArgumentParser(
        prog=name, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "command", nargs="?", default="evaluate", help=f"{', '.join(PAGES)} (default: evaluate)"
    )
    parser.add_argument("overrides", nargs="*", metavar="override", help="group=choice, key=value")
    parser.add_argument("--config-dir", "-cd", help="folder with YAML files of groups")
    typed = parser.parse_args(given)
    run_script(lambda: print_keys([typed.command, *typed.overrides], typed.config_dir))


def print_keys(words: Sequence[str], folder: str | None = None) -> None:
    """Print the keys of a configuration.

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
    print("\n".join(key_lines(keys_of(command, given, [folder] if folder else []))))
