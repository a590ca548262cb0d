"""Checkpoints as W&B artifacts, and the thread from a training to the evaluations of what it made.

Knows files and run ids only. An artifact's version is its content: training and evaluation both build it, from the
same files under the same name, and W&B joins the two, also when both were offline and are synced later.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import wandb

TYPE = "model"
_NOT_CONTENT = ("README.md", "run.json")  # a card may be rewritten without making it another model


def artifact_name(path: Path, run_id: str) -> str:
    """``model-<id>`` for an exported folder, ``checkpoint-<id>`` for a Lightning checkpoint (a folder if sharded)."""
    kind = "model" if path.is_dir() and path.suffix != ".ckpt" else "checkpoint"
    return f"{kind}-{re.sub(r'[^A-Za-z0-9_.-]', '-', run_id)}"


def build_artifact(
    path: Path, run_id: str, metadata: dict[str, Any] | None = None
) -> "wandb.Artifact":
    """The artifact of an exported folder or a checkpoint file; the same content gives the same digest anywhere."""
    import wandb

    artifact = wandb.Artifact(artifact_name(path, run_id), type=TYPE, metadata=metadata or {})
    files = sorted(item for item in path.rglob("*") if item.is_file()) if path.is_dir() else [path]
    for file in files:
        if file.name not in _NOT_CONTENT:
            name = str(file.relative_to(path)) if path.is_dir() else "model.ckpt"
            artifact.add_file(
                str(file), name=name, policy="immutable", skip_cache=True
            )  # no copy: they may be large
    return artifact


def log_artifacts(
    run: "wandb.Run",
    paths: Sequence[Path],
    *,
    run_id: str,
    best: Path | None,
    metadata: dict[str, Any] | None = None,
) -> dict[str, set[str]]:
    """Log each of ``paths`` once, ``best`` under that alias; returns the digests now valid, by artifact name."""
    valid: dict[str, set[str]] = {}
    for path in paths:
        artifact = build_artifact(path, run_id, {**(metadata or {}), "file": path.name})
        valid.setdefault(artifact.name.partition(":")[0], set()).add(artifact.digest)
        run.log_artifact(
            artifact, aliases=["latest", *(["best"] if best is not None and path == best else [])]
        )
    return valid


def use_artifact(run: "wandb.Run", path: Path, *, run_id: str) -> str:
    """Declare the model at ``path``, made by training ``run_id``, an input of ``run``; returns the artifact's name."""
    artifact = build_artifact(path, run_id)
    name = str(artifact.name).partition(":")[0]
    if (
        run.offline
    ):  # W&B's use_artifact refuses offline, though the record it would write can wait for the sync
        run._log_artifact(artifact, aliases=[], is_user_created=True, use_after_commit=True)
    else:
        run.use_artifact(artifact)
    return name


class Version(Protocol):
    """What is asked of a version of an artifact on the server."""

    @property
    def digest(self) -> str:
        """Hash of its content."""

    def delete(self, delete_aliases: bool = ...) -> None:
        """Remove it."""


def drop_stale(versions: Iterable[Version], valid: set[str]) -> int:
    """Delete the versions whose content top-k no longer keeps; returns how many. Never deletes all of them."""
    found = list(versions)
    if not any(version.digest in valid for version in found):
        return 0  # the new ones did not arrive: better stale than none
    stale = [version for version in found if version.digest not in valid]
    for version in stale:
        version.delete(delete_aliases=True)
    return len(stale)
