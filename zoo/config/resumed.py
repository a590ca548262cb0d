"""The recorded overrides of a run that a command line resumes."""

import re
from collections.abc import Sequence
from pathlib import Path

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from zoo.base.disk.parsing import parse_object, read_bounded, read_yaml
from zoo.base.disk.run_folder import OVERRIDES, RUN_CARD
from zoo.base.errors import ZooError
from zoo.config.repository import named_packages
from zoo.config.writing import override_key

RESUME = "resume"
KINDS = ("train", "evaluate")  # of runs that can be resumed
# Settings and choices that let code of other people run, send keys or read the environment.
USERS_OWN = re.compile(
    r"trusted_packages|comet_python|utmos_trusted|simuleval_agent|simulstream_processor"
    r"|chat_server|(?<!voxtral_)realtime|xtts|synthesizer\b[\s\S]*\bpython|\$\{oc\."
)


def with_recorded(
    arguments: Sequence[str], given: Sequence[str], *, kind: str | None = None
) -> list[str]:
    """Return the arguments of a command line with the recorded overrides of the run it resumes.

    An override that is typed replaces the recorded one of its key; whether the run can be resumed
    with it is checked when the configuration is composed. Overrides that let code of other people
    run must be typed again, because a run folder may come from anybody.

    Args:
        arguments: arguments of the command line.
        given: those of them that are overrides.
        kind: kind of the run that the command line makes, such as ``train``; None: any.

    Returns:
        The arguments; unchanged if they resume no run, or one without a record.

    Raises:
        ZooError: the run is of another kind, or the record is damaged or has an override that must
            be typed again.
    """
    folder = _resumed_folder(given)
    if folder is not None and kind is not None:
        _check_kind(folder, kind)
    path = None if folder is None else folder / OVERRIDES
    if path is None or not path.is_file():
        return list(arguments)
    typed = {RESUME, *map(override_key, given)}
    added = [item for item in _recorded(path) if override_key(item) not in typed]
    for item in added:
        if USERS_OWN.search(item) or named_packages(item):
            raise ZooError(
                f"{path} has {item}, which may run code of other people or use keys; add it to "
                f"the command if you want it."
            )
    place = next(
        i for i, word in enumerate(arguments) if override_key(word) == RESUME and "=" in word
    )
    return [*arguments[: place + 1], *added, *arguments[place + 1 :]]


def _check_kind(folder: Path, kind: str) -> None:
    """Raise ZooError for the folder of a run of another kind. A damaged card has no kind."""
    try:
        card = parse_object(read_bounded(folder / RUN_CARD).decode(), str(folder / RUN_CARD))
    except (OSError, ValueError, ZooError):
        return
    if card.get("kind") in KINDS and card["kind"] != kind:
        raise ZooError(
            f"{folder} is a run of {card['kind']}.py, which {kind}.py cannot resume; name another "
            "folder."
        )


def _resumed_folder(given: Sequence[str]) -> Path | None:
    """Return the folder that overrides resume; None for none, or for a value that is no text."""
    named = [item for item in given if item.startswith(f"{RESUME}=")]
    try:
        value = OverridesParser.create().parse_override(named[-1]).value() if named else None
    except (HydraException, ValueError):
        return None  # Hydra refuses it later
    return Path(value) if isinstance(value, str) and value else None


def _recorded(path: Path) -> list[str]:
    """Return the recorded overrides. Raises ZooError for a damaged file or an option in it."""
    try:
        lines = read_yaml(path) or []
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ZooError(f"{path} is damaged: {' '.join(str(error).split())}.") from error
    if not isinstance(lines, list) or not all(
        isinstance(line, str) and re.match(r"[+~]*[A-Za-z_]", line) for line in lines
    ):
        raise ZooError(f"{path} is no list of overrides key=value; the run cannot be resumed.")
    if hydra := [line for line in lines if override_key(line).startswith("hydra")]:
        raise ZooError(f"{path} sets {override_key(hydra[0])}, which no run records.")
    return lines
