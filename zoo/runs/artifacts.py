"""Models as W&B artifacts, which link a training to its parents and to its evaluations.

The version of an artifact is a digest of its content. Training and evaluation build the artifact
from the same files under the same name, so W&B recognises that they are the same artifact, even if
both runs were offline and are synchronised later. A run that uses a model refers to its files and
does not upload them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from zoo.base.disk.run_folder import RUN_CARD
from zoo.runs.run import run_id_of

if TYPE_CHECKING:
    import wandb

TYPE = "model"  # type of all artifacts except data sets
MAX_NAME = 128  # characters of a name that W&B accepts
# Files that are not part of a model: after an edit of the model card, the model is the same.
_IGNORED = ("README.md", RUN_CARD)
_HUB = "https://huggingface.co"


def artifact_name(path: Path, run_id: str) -> str:
    """Return ``model-<id>`` for an exported folder, ``checkpoint-<id>`` for a Lightning checkpoint.

    A sharded Lightning checkpoint is a folder whose name ends in ``.ckpt``.
    """
    kind = "model" if path.is_dir() and path.suffix != ".ckpt" else "checkpoint"
    return f"{kind}-{_accepted(run_id)}"


def _accepted(text: str) -> str:
    """Return a text with the characters that names of artifacts may have."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)


def build_artifact(
    path: Path,
    name: str,
    *,
    metadata: Mapping[str, Any] | None = None,
    by_reference: bool = False,
) -> "wandb.Artifact":
    """Return the artifact of a folder or a checkpoint file.

    Args:
        path: the folder or file; its content alone determines the artifact's digest.
        name: name of the artifact.
        metadata: values that W&B shows with the artifact.
        by_reference: whether the artifact has the paths and checksums of the files instead of the
            files. The digest is the same.
    """
    import wandb

    artifact = wandb.Artifact(name, type=TYPE, metadata=dict(metadata or {}))
    is_folder = path.is_dir()
    files = sorted(item for item in path.rglob("*") if item.is_file()) if is_folder else [path]
    for file in files:
        if file.name in _IGNORED:
            continue
        place = file.relative_to(path).as_posix() if is_folder else "model.ckpt"
        if by_reference:
            artifact.add_reference(file.resolve().as_uri(), name=place)
        else:
            # Checkpoints may be large: no second copy in W&B's cache.
            artifact.add_file(str(file), name=place, policy="immutable", skip_cache=True)
    return artifact


def dataset_artifact(
    name: str, paths: Sequence[Path], *, metadata: Mapping[str, Any] | None = None
) -> "wandb.Artifact":
    """Return the artifact of the files of a data set.

    Args:
        name: name of the data set.
        paths: its files.
        metadata: values that W&B shows with the artifact.
    """
    import wandb

    accepted = f"dataset-{_accepted(name)}"[:MAX_NAME]
    artifact = wandb.Artifact(accepted, type="dataset", metadata=dict(metadata or {}))
    for path in paths:
        artifact.add_file(str(path), name=path.name, policy="immutable", skip_cache=True)
    return artifact


def pretrained_artifact(model: Mapping[str, Any]) -> "wandb.Artifact":
    """Return the artifact of a model that a run reads; it has references and no files.

    Args:
        model: an entry of ``zoo.runs.weights.models``. The export of a training is the artifact
            that the training has logged, another folder is ``pretrained-<folder>``, and a model of
            the hub is ``pretrained-<owner>-<model>`` with the commit.
    """
    import wandb

    if model["commit"] is None:
        folder = Path(model["name"])
        trained = (folder / RUN_CARD).is_file()
        name = artifact_name(folder, run_id_of(folder)) if trained else _pretrained(folder.name)
        return build_artifact(folder, name, metadata={"file": folder.name}, by_reference=True)

    place = model["name"].partition("@")[0]
    artifact = wandb.Artifact(_pretrained(place), type=TYPE, metadata=dict(model))
    url = f"{_HUB}/{place}/tree/{model['commit']}"
    artifact.add_reference(url, name="model", checksum=False)  # sends no request to the hub
    return artifact


def _pretrained(name: str) -> str:
    return f"pretrained-{_accepted(name)}"[:MAX_NAME]


def log_artifacts(
    run: "wandb.Run",
    paths: Sequence[Path],
    *,
    run_id: str,
    best: Path | None,
    metadata: Mapping[str, Any] | None = None,
    by_reference: bool = False,
) -> dict[str, set[str]]:
    """Log checkpoints as artifacts.

    Args:
        run: the W&B run.
        paths: exported folders and checkpoint files.
        run_id: id of the training run.
        best: the path among ``paths`` that receives the alias ``best``.
        metadata: values that W&B shows with every artifact.
        by_reference: whether paths and checksums are logged instead of the files.

    Returns:
        The digests of the logged versions by artifact name.
    """
    digests: dict[str, set[str]] = {}
    for path in paths:
        artifact = build_artifact(
            path,
            artifact_name(path, run_id),
            metadata={**(metadata or {}), "file": path.name},
            by_reference=by_reference,
        )
        digests.setdefault(artifact.name.partition(":")[0], set()).add(artifact.digest)
        is_best = best is not None and path == best
        run.log_artifact(artifact, aliases=["latest", "best"] if is_best else ["latest"])
    return digests


def use_artifact(run: "wandb.Run", artifact: "wandb.Artifact") -> None:
    """Declare a model an input of a W&B run, without waiting for the server.

    Args:
        run: the W&B run that uses the model.
        artifact: artifact of the model.
    """
    # The public use_artifact refuses to work offline, although its record could be synchronised
    # later like all others, and waits for the server without a limit when it is online.
    run._log_artifact(artifact, aliases=[], is_user_created=True, use_after_commit=True)


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
