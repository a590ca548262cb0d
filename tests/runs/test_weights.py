"""The record of the pretrained models of a run."""

import hashlib
import json
from pathlib import Path

import pytest

from zoo.runs.run import open_run
from zoo.runs.tracker import Tracker
from zoo.runs.wandb_run import WandbSettings
from zoo.runs.weights import models, weights_of


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_bytes(b"{}")
    (folder / "README.md").write_bytes(b"card")
    return folder


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The commit of the revision v1 of a/b, as the hub's client stores it."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    commit = "1" * 40
    model = tmp_path / "cache" / "models--a--b"
    snapshot = model / "snapshots" / commit
    for folder in (snapshot, model / "refs", model / "blobs"):
        folder.mkdir(parents=True)
    (model / "refs" / "v1").write_text(commit)
    (snapshot / "config.json").write_bytes(b"{}")
    large = model / "blobs" / ("f" * 64)  # the hub names it by its SHA-256: it is not read again
    large.write_bytes(b"weights")
    (snapshot / "model.safetensors").symlink_to(large)
    return commit


def test_models_of_folders_and_of_the_hub_are_described(checkpoint: Path, cached: str) -> None:
    config = {
        "backbone": {"checkpoint": str(checkpoint), "decoder": "a/b@v1", "tokenizer": "a/b@v1"},
        "data": {"root": str(checkpoint.parent), "split": "tst", "names": ["x/y", "tests"]},
        "seed": 3,
    }
    assert models(config) == [
        {
            "name": str(checkpoint),
            "revision": None,
            "commit": None,
            "files": {"config.json": digest(b"{}"), "model.safetensors": digest(b"weights")},
        },
        {
            "name": "a/b@v1",
            "revision": "v1",
            "commit": cached,
            "files": {"config.json": digest(b"{}"), "model.safetensors": "f" * 64},
        },
    ]


def test_one_function_names_the_models_of_the_table_and_of_the_record(
    checkpoint: Path, cached: str
) -> None:
    config = {
        "backbone": {
            "_target_": "mine.Network",
            "checkpoint": str(checkpoint),
            "decoder": "not/read",
            "tokenizer": "a/b@v1",
            "transcriber": {"vocabulary": "a/b@v1", "prompt": "Say </s>/<s> or nothing."},
        },
        "synthesizer": {"voices": [str(checkpoint), "absent/voice"]},
    }
    named = weights_of(config)
    assert named == {
        "backbone.checkpoint": str(checkpoint),
        "backbone.tokenizer": "a/b@v1",
        "synthesizer.voices.0": str(checkpoint),
        "synthesizer.voices.1": "absent/voice",
    }
    assert [model["name"] for model in models(config)] == [str(checkpoint), "a/b@v1"]


def test_an_empty_text_is_not_the_current_folder(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkpoint)
    assert weights_of({"backbone": {"template": {"latency": ""}, "name": "."}}) == {
        "backbone.name": "."
    }


def test_a_checkpoint_that_shares_a_part_is_described_as_well(checkpoint: Path) -> None:
    other = checkpoint.with_name("other")
    other.mkdir()
    (other / "model.safetensors").write_bytes(b"other weights")
    (other / "shared.json").write_text('{"encoder": "../checkpoint"}')
    found = models({"backbone": {"checkpoint": str(other)}})
    assert [model["name"] for model in found] == [str(other), str(checkpoint)]


def test_a_run_records_the_models_of_all_its_systems_once(checkpoint: Path, tmp_path: Path) -> None:
    other = checkpoint.with_name("other")
    for folder in (other, tmp_path / "unused"):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"other weights")
    run = open_run(tmp_path / "run", kind="evaluate")
    with Tracker(run, config={}, overrides=[], settings=WandbSettings(mode="disabled")) as tracker:
        for folder in (checkpoint, other, checkpoint):
            unused = {"recogniser": {"name": str(tmp_path / "unused")}}
            tracker.record_models({"backbone": {"checkpoint": str(folder)}, "evaluation": unused})
    recorded = json.loads((tmp_path / "run" / "weights.json").read_text())
    assert [model["name"] for model in recorded] == [str(checkpoint), str(other)]
