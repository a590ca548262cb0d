"""Compares the configuration of a run with the configuration that resumes it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from zoo.base.disk.parsing import MALFORMED, read_yaml
from zoo.base.disk.run_folder import RUN_CARD
from zoo.base.errors import ZooError
from zoo.base.version import __version__

LENGTH = 60  # characters of a value in a message


def folder_to_resume(given: object, output: Path, *, multirun: bool) -> Path | None:
    """Return the run folder that ``resume=...`` names.

    Args:
        given: Value of the key; None resumes no run.
        output: Folder that the job writes to.
        multirun: Whether the job is one of several.

    Raises:
        ZooError: There is no such folder, the job writes to another one, or it is one of several.
    """
    if given is None:
        return None
    if multirun:
        raise ZooError("resume=... continues one run; it cannot be combined with a multirun.")
    if not isinstance(given, str) or not given or not Path(given).is_dir():
        raise ZooError(f"resume must name the folder of a run; there is no folder {str(given)!r}.")
    folder = Path(given)
    if (folder / RUN_CARD).is_file() and output.resolve() != folder.resolve():
        raise ZooError(
            f"resume={given} continues in its folder and cannot write to {output}; leave out "
            "hydra.run.dir."
        )
    return folder


def check_same(
    folder: Path,
    config: Mapping[str, Any],
    *,
    keys: Sequence[str],
    may_differ: Sequence[str] = (),
) -> None:
    """Check that a run can be resumed with a configuration.

    Args:
        folder: Run folder with ``config.yaml``.
        config: Configuration of the job that resumes the run.
        keys: Top-level keys that must have the values of the first start.
        may_differ: Dotted keys below ``keys`` that may have other values.

    Raises:
        ZooError: The run has another version or another value, which the message names, or its
            configuration cannot be read.
    """
    path = folder / "config.yaml"
    try:
        before = read_yaml(path)
        version = str(before.get("version", "0.1"))
        recorded = {name: before[name] for name in keys}
    except (OSError, yaml.YAMLError, *MALFORMED) as error:
        raise ZooError(f"{path} is missing or damaged; the run cannot be resumed.") from error
    if version.split(".")[:2] != __version__.split(".")[:2]:
        raise ZooError(
            f"The run in {folder} was started by version {version} and cannot be resumed by "
            f"version {__version__}; start a new run."
        )

    here, there = (dict(leaves(values)) for values in ({k: config[k] for k in keys}, recorded))
    for name in dict.fromkeys([*there, *here]):
        if here.get(name) != there.get(name) and name not in may_differ:
            raise ZooError(
                f"The run in {folder} was started with {name}={_shown(there.get(name))}, not "
                f"{_shown(here.get(name))}; leave it out, because resume=RUN has the "
                "overrides of the run."
            )


def leaves(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of each leaf of nested mappings; lists are leaves."""
    if not isinstance(node, Mapping):
        yield prefix, node
        return
    for name, value in node.items():
        yield from leaves(value, f"{prefix}.{name}" if prefix else str(name))


def _shown(value: Any) -> str:
    """Return a value as an override writes it, shortened."""
    text = "null" if value is None else str(value)
    return text if len(text) <= LENGTH else f"{text[:LENGTH]}…"
