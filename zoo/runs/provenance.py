"""The provenance of a run's numbers: state of the code, versions of packages, hardware."""

import hashlib
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from zoo.base.machine.cores import usable_cores

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = (
    "torch",
    "lightning",
    "transformers",
    "torchmetrics",
    "hydra-core",
    "wandb",
    "sacrebleu",
    "mweralign",
)
_GIT_TIMEOUT = 20.0  # seconds; a large number of untracked files must not delay a run


@dataclass(frozen=True, slots=True)
class GitState:
    """State of a git working tree.

    Attributes:
        commit: hash of HEAD.
        dirty: whether there are changes or untracked files.
        diff: changes of tracked files relative to ``commit``.
        untracked: names of untracked files.
    """

    commit: str
    dirty: bool
    diff: str
    untracked: tuple[str, ...]


def git_state(root: Path = REPOSITORY) -> GitState | None:
    """Return the state of the git repository at ``root``.

    Returns:
        None if git is not installed or ``root`` is not the top folder of a repository.
    """
    top = _git(root, "rev-parse", "--show-toplevel")
    commit = _git(root, "rev-parse", "HEAD")
    if not top or not commit or Path(top.strip()).resolve() != root.resolve():
        return None

    diff = _git(root, "diff", "--no-ext-diff", "HEAD") or ""
    untracked = tuple((_git(root, "ls-files", "--others", "--exclude-standard") or "").splitlines())
    return GitState(
        commit=commit.strip(), dirty=bool(diff or untracked), diff=diff, untracked=untracked
    )


def repository_of(place: Path) -> Path | None:
    """Return the top folder of the git repository that contains a file or folder, or None."""
    top = _git(place if place.is_dir() else place.parent, "rev-parse", "--show-toplevel")
    return Path(top.strip()) if top else None


def _git(root: Path, *arguments: str) -> str | None:
    """Return the output of a git command; None if it fails."""
    command = ["git", "-C", str(root), *arguments]
    try:
        result = subprocess.run(command, capture_output=True, timeout=_GIT_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.decode(errors="replace")


def file_hash(path: Path) -> str | None:
    """Return the hexadecimal SHA-256 of a file; None if the file does not exist."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str | None]:
    """Return the versions of Python and of installed packages; None for a missing package."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def hardware() -> dict[str, Any]:
    """Return CPU model, number of cores, memory in GiB, torch threads and names of GPUs.

    ``cores`` counts all cores, ``usable_cores`` the cores that this process may use. A run that has
    not imported torch computes without it: its threads are None and it has no GPUs.
    """
    torch = sys.modules.get("torch")
    gpus = torch.cuda.device_count() if torch else 0
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_gib": _memory_gib(),
        "torch_threads": torch.get_num_threads() if torch else None,
        "gpus": [torch.cuda.get_device_name(index) for index in range(gpus)] if torch else [],
    }


def _cpu_model() -> str:
    """Return the name of the CPU model."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    """Return the size of the main memory in GiB, or None if it is unknown."""
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None  # this operating system does not report its memory


def provenance(root: Path = REPOSITORY, *, constraints: str = "constraints.txt") -> dict[str, Any]:
    """Collect the provenance of a run as plain values.

    Args:
        root: top folder of the repository.
        constraints: name of the file with pinned versions in ``root``.

    Returns:
        ``git`` (None without a repository; without the diff), ``constraints_sha256``, ``versions``
        and ``hardware``.
    """
    git = git_state(root)
    summary = None
    if git is not None:
        summary = {"commit": git.commit, "dirty": git.dirty, "untracked": list(git.untracked)}
    return {
        "git": summary,
        "constraints_sha256": file_hash(root / constraints),
        "versions": versions(),
        "hardware": hardware(),
    }
