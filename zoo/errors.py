"""User errors: one sentence that names the problem and the valid choices.

Entry points print the sentence without a traceback and exit with code 2.
"""

import logging
import sys
from collections.abc import Callable, Iterable


class ZooError(Exception):
    """An error in the input or the configuration that the user can correct."""


def unknown_choice(noun: str, name: object, choices: Iterable[object]) -> ZooError:
    """Return the error for a name that is not one of the valid choices.

    ``unknown_choice("language", "xx", ["de", "es"])`` has the message
    "Unknown language 'xx'; choose one of: de, es."

    Args:
        noun: Kind of thing that the name should denote.
        name: The invalid name.
        choices: The valid names.
    """
    names = ", ".join(str(choice) for choice in choices)
    return ZooError(f"Unknown {noun} {str(name)!r}; choose one of: {names}.")


def shorten_list(names: Iterable[str], most: int = 3) -> str:
    """Join at most ``most`` names: ["a", "b", "c", "d"] becomes "a, b, c and 1 more"."""
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def run_script(main: Callable[[], object]) -> None:
    """Log to stderr and call ``main``; print a ``ZooError`` to stderr and exit with code 2."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        main()
    except ZooError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
