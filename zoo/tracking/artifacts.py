"""Checkpoints as W&B artifacts, which link a training to the evaluations of its checkpoints.

The version of an artifact is a digest of its content. Training and evaluation build the artifact
from the same files under the same name, so W&B recognises that they are the same artifact, even if
both runs were offline and are synchronised later.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import wandb

TYPE = "model"  # type of all artifacts
# Files that are not part of a model: after an edit of the model card, the model is the same.
_IGNORED = ("README.md", "run.json")


def artifact_name(path: Path, run_id: str) -> str:
    """Return ``model-<id>`` for an exported folder, ``checkpoint-<id>`` for a Lightning checkpoint.

    A sharded Lightning checkpoint is a folder whose name ends in ``.ckpt``.
    """
    kind = "model" if path.is_dir() and path.suffix != ".ckpt" else "checkpoint"
    return f"{kind}-{re.sub(r'[^A-Za-z0-9_.-]', '-', run_id)}"


def build_artifact(
    path: Path, run_id: str, metadata: dict[str, Any] | None = None
) -> "wandb.Artifact":
    """Return the artifact of an exported folder or a checkpoint file.

    Args:
        path: the folder or file; its content alone determines the artifact's digest.
        run_id: id of the training run.
        metadata: values that W&B shows with the artifact.
    """
    import wandb

    artifact = wandb.Artifact(artifact_name(path, run_id), type=TYPE, metadata=metadata or {})
    is_folder = path.is_dir()
    files = sorted(item for item in path.rglob("*") if item.is_file()) if is_folder else [path]
    for file in files:
        if file.name not in _IGNORED:
            name = str(file.relative_to(path)) if is_folder else "model.ckpt"
            # Checkpoints may be large: no second copy in W&B's cache.
            artifact.add_file(str(file), name=name, policy="immutable", skip_cache=True)
    return artifact


def log_artifacts(
    run: "wandb.Run",
    paths: Sequence[Path],
    *,
    run_id: str,
    best: Path | None,
    metadata: dict[str, Any] | None = None,
) -> dict[str, set[str]]:
    """Log checkpoints as artifacts.

    Args:
        run: the W&B run.
        paths: exported folders and checkpoint files.
        run_id: id of the training run.
        best: the path among ``paths`` that receives the alias ``best``.
        metadata: values that W&B shows with every artifact.

    Returns:
        The digests of the logged versions by artifact name.
    """
    digests: dict[str, set[str]] = {}
    for path in paths:
        artifact = build_artifact(path, run_id, {**(metadata or {}), "file": path.name})
        digests.setdefault(artifact.name.partition(":")[0], set()).add(artifact.digest)
        is_best = best is not None and path == best
        run.log_artifact(artifact, aliases=["latest", "best"] if is_best else ["latest"])
    return digests


def use_artifact(run: "wandb.Run", path: Path, *, run_id: str) -> str:
    """Declare a checkpoint an input of a W&B run.

    Args:
        run: the W&B run that uses the checkpoint.
        path: exported folder or checkpoint file.
        run_id: id of the training run that wrote it.

    Returns:
        The artifact's name.
    """
    artifact = build_artifact(path, run_id)
    name = str(artifact.name).partition(":")[0]
    if run.offline:
        # The public use_artifact refuses to work offline, although its record could be synchronised
        # later like all others.
        run._log_artifact(artifact, aliases=[], is_user_created=True, use_after_commit=True)
    else:
        run.use_artifact(artifact)
    return name


class Version(Protocol):
    """The part of W&B's interface to an artifact version that ``delete_stale`` uses."""

    @property
    def digest(self) -> str:
        """Hash of the version's content."""

    def delete(self, delete_aliases: bool = ...) -> None:
        """Delete the version from the server."""


def delete_stale(versions: Iterable[Version], valid: set[str]) -> int:
    """Delete the versions of checkpoints that training no longer keeps.

    If no valid version is on the server, the upload of the valid versions has failed. No version is
    deleted then.

    Args:
        versions: all versions of an artifact on the server.
        valid: digests of the versions to keep.

    Returns:
        The number of deleted versions.
    """
    all_versions = list(versions)
    if not any(version.digest in valid for version in all_versions):
        return 0
    stale = [version for version in all_versions if version.digest not in valid]
    for version in stale:
        version.delete(delete_aliases=True)
    return len(stale)
