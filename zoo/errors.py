"""Errors a person can act on: one sentence that names the thing and the choices; entry points exit with code 2."""

import sys
from collections.abc import Callable, Iterable


class ZooError(Exception):
    """A mistake in the input or the configuration. The message is the whole story; no traceback is shown."""


def unknown_choice(noun: str, name: object, choices: Iterable[object]) -> ZooError:
    """``unknown_choice("language", "xx", ["de", "es"])`` -> "Unknown language 'xx'; choose one of: de, es."."""
    return ZooError(
        f"Unknown {noun} {str(name)!r}; choose one of: {', '.join(str(choice) for choice in choices)}."
    )


def shorten_list(names: Iterable[str], most: int = 3) -> str:
    """``shorten_list(["a", "b", "c", "d"])`` -> "a, b, c and 1 more"."""
    known = list(names)
    return ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")


def run_script(main: Callable[[], object]) -> None:
    """Run a script's ``main``; a mistake is told on stderr and ends it with exit code 2."""
    try:
        main()
    except ZooError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
