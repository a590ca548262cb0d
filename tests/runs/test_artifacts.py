"""Artifacts: the same content is the same version anywhere; only stale versions go."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from zoo.runs.artifacts import artifact_name, build_artifact, delete_stale, pretrained_artifact


def _export(folder: Path, card: str) -> Path:
    (folder / "deep").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "deep" / "tokenizer.json").write_text("{}")
    (folder / "README.md").write_text(card)
    (folder / "run.json").write_text(card)
    return folder


def test_training_and_evaluation_build_the_same_version(tmp_path: Path) -> None:
    logged = build_artifact(
        _export(tmp_path / "export", "a"), "model-id1", metadata={"file": "export"}
    )
    used = build_artifact(_export(tmp_path / "checkpoints" / "copy", "another card"), "model-id1")
    assert (logged.digest, logged.name) == (used.digest, used.name)
    referred = build_artifact(tmp_path / "export", "model-id1", by_reference=True)
    assert (referred.digest, referred.name) == (logged.digest, logged.name)
    assert all(entry.ref for entry in referred.manifest.entries.values())
    assert not any(entry.ref for entry in logged.manifest.entries.values())
    (tmp_path / "export" / "model.safetensors").write_bytes(b"other weights")
    assert build_artifact(tmp_path / "export", "model-id1").digest != used.digest


def test_checkpoint_may_be_renamed(tmp_path: Path) -> None:
    (tmp_path / "a.ckpt").write_bytes(b"x")
    (tmp_path / "b.ckpt").write_bytes(b"x")
    assert artifact_name(tmp_path / "a.ckpt", "id 1/2") == "checkpoint-id-1-2"
    assert (
        build_artifact(tmp_path / "a.ckpt", "i").digest
        == build_artifact(tmp_path / "b.ckpt", "i").digest
    )


def test_every_model_has_an_artifact_that_holds_no_files(tmp_path: Path) -> None:
    trained = _export(tmp_path / "a", '{"id": "i d", "kind": "train", "name": "x", "group": null}')
    other = _export(tmp_path / "other model", "card")
    (other / "run.json").unlink()
    commit = "1" * 40
    models = [
        {"name": str(trained), "commit": None},
        {"name": str(other), "commit": None},
        {"name": "owner/model@v1", "commit": commit, "revision": "v1", "files": {"a": "f"}},
    ]
    found = [pretrained_artifact(model) for model in models]
    assert [artifact.name.partition(":")[0] for artifact in found] == [
        "model-i-d",
        "pretrained-other-model",
        "pretrained-owner-model",
    ]
    refs = [entry.ref for artifact in found for entry in artifact.manifest.entries.values()]
    assert refs[:-1] == [
        (folder / name).as_uri()
        for folder in (trained, other)
        for name in ("deep/tokenizer.json", "model.safetensors")
    ]
    assert refs[-1] == f"https://huggingface.co/owner/model/tree/{commit}"


@dataclass
class _Version:
    digest: str
    deleted: bool = False

    def delete(self, delete_aliases: bool = False) -> None:
        self.deleted = True
        assert delete_aliases


@pytest.mark.parametrize(
    ("valid", "deleted"),
    # what did not arrive replaces nothing
    [({"b", "c"}, ["a"]), ({"a", "b", "c"}, []), ({"new"}, []), (set(), [])],
)
def test_only_stale_versions_go(valid: set[str], deleted: list[str]) -> None:
    versions = [_Version("a"), _Version("b"), _Version("c")]
    assert delete_stale(iter(versions), valid) == len(deleted)
    assert [version.digest for version in versions if version.deleted] == deleted
