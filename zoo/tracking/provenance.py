"""Where a run's numbers come from: code, packages and hardware. Knows no config, no data and no logger."""

import hashlib
import os
import platform
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

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
_GIT_TIMEOUT = 20.0  # seconds; a huge untracked tree must not hold up a run


@dataclass(frozen=True, slots=True)
class Git:
    """State of the working tree. diff: of tracked files against ``commit``; untracked: names only."""

    commit: str
    dirty: bool
    diff: str
    untracked: tuple[str, ...]


def git_state(root: Path = REPOSITORY) -> Git | None:
    """Commit and changes of the repository at ``root``; None without git, or where ``root`` is not its top folder."""
    top = _git(root, "rev-parse", "--show-toplevel")
    commit = _git(root, "rev-parse", "HEAD")
    if not top or not commit or Path(top.strip()).resolve() != root.resolve():
        return None
    diff = _git(root, "diff", "--no-ext-diff", "HEAD") or ""
    untracked = tuple((_git(root, "ls-files", "--others", "--exclude-standard") or "").splitlines())
    return Git(commit=commit.strip(), dirty=bool(diff or untracked), diff=diff, untracked=untracked)


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            timeout=_GIT_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def file_hash(path: Path) -> str | None:
    """SHA-256 of a file in hexadecimal, None where there is no such file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str | None]:
    """Installed version of each package (None: absent), and of Python."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def hardware() -> dict[str, Any]:
    """CPU model, cores (all, and those this process may use), memory in GiB, torch threads and the names of GPUs."""
    cores = os.cpu_count()
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "cpu": _cpu_model(),
        "cores": cores,
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores,
        "memory_gib": _memory(),
        "torch_threads": torch.get_num_threads(),
        "gpus": gpus,
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None  # not told on this system


def provenance(root: Path = REPOSITORY, *, constraints: str = "constraints.txt") -> dict[str, Any]:
    """All of it as plain values: ``git`` (None without), ``constraints_sha256``, ``versions``, ``hardware``.

    The diff itself is not among them: see ``git_state``.
    """
    git = git_state(root)
    return {
        "git": {"commit": git.commit, "dirty": git.dirty, "untracked": list(git.untracked)}
        if git
        else None,
        "constraints_sha256": file_hash(root / constraints),
        "versions": versions(),
        "hardware": hardware(),
    }
