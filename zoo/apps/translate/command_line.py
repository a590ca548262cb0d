"""The command line of a translation: files, folders and overrides in any order."""

import re
from collections.abc import Sequence
from pathlib import Path

from zoo.base.errors import ZooError
from zoo.config.writing import quote_text

MICROPHONE = "--microphone"
# options of Hydra whose next argument is their value
WITH_VALUE = {
    "--cfg",
    "-c",
    "--package",
    "-p",
    "--config-dir",
    "-cd",
    "--config-name",
    "-cn",
    "--config-path",
    "-cp",
    "--info",
    "-i",
}
OVERRIDE = re.compile(r"[+~]{0,2}[\w.@/$-]+=|~[\w.@/]+$", re.ASCII)


def to_overrides(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with which Hydra composes a translation.

    An argument that names an existing file or folder is an input, also with spaces or "=" in it.
    Any other argument with a key and "=" is an override. All arguments after "--" are inputs.

    Args:
        arguments: command line without the name of the program.

    Raises:
        ZooError: an argument is neither an option, nor an override, nor an existing file or folder.
    """
    hydra_arguments: list[str] = []
    inputs: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            inputs += [_existing(path) for path in remaining]
        elif argument == MICROPHONE:
            hydra_arguments.append("microphone=true")
        elif argument.startswith("-"):
            hydra_arguments.append(argument)
            if argument in WITH_VALUE:
                hydra_arguments += [value for value in [next(remaining, None)] if value is not None]
        elif not (argument and Path(argument).exists()) and OVERRIDE.match(argument):
            hydra_arguments.append(argument)
        else:
            inputs.append(_existing(argument))
    if inputs:
        hydra_arguments.append(f"inputs=[{','.join(map(quote_text, inputs))}]")
    return hydra_arguments


def _existing(path: str) -> str:
    """Return a path. Raises ZooError if there is no such file or folder."""
    if not path.strip() or not Path(path).exists():
        raise ZooError(
            f"There is no file or folder {path!r}; give audio files, folders and key=value."
        )
    return path
