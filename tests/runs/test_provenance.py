"""Provenance of small temporary repositories."""

import hashlib
import subprocess
from pathlib import Path

import pytest
import torch

from zoo.runs.provenance import git_state, hardware, provenance, versions


def _git(root: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    _git(root, "init", "-q")
    (root / "a.txt").write_text("one\n")
    _git(root, "add", ".")
    _git(root, "commit", "-qm", "first")
    return root


def test_clean_then_changed(repository: Path) -> None:
    clean = git_state(repository)
    assert clean is not None
    assert clean.commit == _git(repository, "rev-parse", "HEAD").strip()
    assert (clean.dirty, clean.diff, clean.untracked) == (False, "", ())
    (repository / "a.txt").write_text("two\n")
    (repository / "new file").write_text("new\n")
    changed = git_state(repository)
    assert changed is not None
    assert changed.dirty
    assert "-one\n+two\n" in changed.diff
    assert changed.untracked == ("new file",)


def test_without_git(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "inner").mkdir()
    assert git_state(repository / "inner") is None  # installed into somebody else's repository
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "plain").mkdir()
    assert git_state(tmp_path / "plain") is None
    monkeypatch.setenv("PATH", "")
    assert git_state(repository) is None


def test_constraints_hash_versions_and_hardware(repository: Path) -> None:
    assert provenance(repository)["constraints_sha256"] is None
    (repository / "constraints.txt").write_text("torch==2.13.0\n")
    record = provenance(repository)
    assert record["constraints_sha256"] == hashlib.sha256(b"torch==2.13.0\n").hexdigest()
    assert versions(("torch", "no-such-package"))["no-such-package"] is None
    assert record["versions"]["torch"] == torch.__version__ or torch.__version__.startswith(
        record["versions"]["torch"]
    )
    machine = hardware()
    assert machine["cores"] >= machine["usable_cores"] >= 1
    assert machine["memory_gib"] > 0
    assert machine["torch_threads"] == torch.get_num_threads()
    assert machine["cpu"]
