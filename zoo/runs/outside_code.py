"""The code outside of the zoo that a run executes: packages, git commits and hashes."""

import hashlib
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from zoo.runs.provenance import git_state, repository_of

TARGET = "_target_"  # key of a class or function in a configuration
OURS = "zoo"


def outside_code(config: Any) -> list[dict[str, Any]]:
    """Describe the packages outside of the zoo whose classes a configuration names.

    Args:
        config: plain configuration.

    Returns:
        One entry per package: ``package`` and ``version`` (None unless it is installed). Code that
        is not in a folder of installed packages also has ``sha256`` of its Python files, and the
        ``commit`` and ``dirty`` of the git repository that contains it.
    """
    names = sorted({target.partition(".")[0] for target in _targets(config)} - {OURS})
    return [found for name in names if (found := _package(name)) is not None]


def _targets(value: Any) -> Iterator[str]:
    """Yield the names of classes and functions in a configuration."""
    if isinstance(value, Mapping):
        if isinstance(value.get(TARGET), str):
            yield value[TARGET]
        for item in value.values():
            yield from _targets(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _targets(item)


def _package(name: str) -> dict[str, Any] | None:
    """Describe a package or module; None if it has no file, such as one of Python itself."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.has_location:
        return None
    path = Path(spec.origin).resolve()
    folder = path.parent if spec.submodule_search_locations else path
    described: dict[str, Any] = {"package": name, "version": _version(name)}
    if "site-packages" in path.parts or "dist-packages" in path.parts:
        return described
    top = repository_of(folder)
    state = None if top is None else git_state(top)
    return {
        **described,
        "sha256": _hash(folder),
        "commit": None if state is None else state.commit,
        "dirty": None if state is None else state.dirty,
    }


def _version(name: str) -> str | None:
    """Return the version of the distribution with the name of a package; None without one."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _hash(place: Path) -> str:
    """Return the SHA-256 of names and contents of the Python files in a folder, or of a file."""
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(place.parent).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()
