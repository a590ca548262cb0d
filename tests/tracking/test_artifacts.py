"""Artifacts: the same content is the same version anywhere; only stale versions go."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from zoo.tracking.artifacts import artifact_name, build_artifact, delete_stale


def _export(folder: Path, card: str) -> Path:
    (folder / "deep").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "deep" / "tokenizer.json").write_text("{}")
    (folder / "README.md").write_text(card)
    (folder / "run.json").write_text(card)
    return folder


def test_training_and_evaluation_build_the_same_version(tmp_path: Path) -> None:
    logged = build_artifact(_export(tmp_path / "export", "a"), "id1", {"file": "export"})
    used = build_artifact(_export(tmp_path / "checkpoints" / "copy", "another card"), "id1")
    assert (logged.digest, logged.name) == (used.digest, used.name)
    assert logged.name.partition(":")[0] == "model-id1"
    (tmp_path / "export" / "model.safetensors").write_bytes(b"other weights")
    assert build_artifact(tmp_path / "export", "id1").digest != used.digest


def test_checkpoint_may_be_renamed(tmp_path: Path) -> None:
    (tmp_path / "a.ckpt").write_bytes(b"x")
    (tmp_path / "b.ckpt").write_bytes(b"x")
    assert artifact_name(tmp_path / "a.ckpt", "id 1/2") == "checkpoint-id-1-2"
    assert (
        build_artifact(tmp_path / "a.ckpt", "i").digest
        == build_artifact(tmp_path / "b.ckpt", "i").digest
    )


@dataclass
class _Version:
    digest: str
    deleted: bool = False

    def delete(self, delete_aliases: bool = False) -> None:
        self.deleted = True
        assert delete_aliases


@pytest.mark.parametrize(
    ("valid", "deleted"),
    [
        ({"b", "c"}, ["a"]),
        ({"a", "b", "c"}, []),
        ({"new"}, []),
        (set(), []),
    ],  # what did not arrive replaces nothing
)
def test_only_stale_versions_go(valid: set[str], deleted: list[str]) -> None:
    versions = [_Version("a"), _Version("b"), _Version("c")]
    assert delete_stale(iter(versions), valid) == len(deleted)
    assert [version.digest for version in versions if version.deleted] == deleted
