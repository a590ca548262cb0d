"""What a checkpoint contains, how it is written, and on how many devices a training goes on."""

import json
import threading
from pathlib import Path
from typing import BinaryIO

import pytest
import torch

from tests.fixtures import processes
from tests.training import tiny
from zoo.backbones.base import mark_restored
from zoo.base.errors import ZooError
from zoo.training import writing
from zoo.training.contents import Restored
from zoo.training.writing import BackgroundWriter, read_file

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder with the checkpoint from which the training begins."""
    tiny.pretrained(tmp_path / "run" / "pretrained")
    return tmp_path / "run"


def test_a_checkpoint_lacks_frozen_weights_of_another_one_and_nothing_else(folder: Path) -> None:
    system = tiny.train(folder, steps=1)
    content = read_file(tiny.last(folder))
    encoder = {f"backbone.encoder.{name}" for name in ("weight", "bias")}
    everything = {name for name, _ in system.named_parameters()}
    everything |= {name for name, _ in system.named_buffers()}
    assert content["state_dict"].keys() == everything - encoder
    assert {f"backbone.{name}" for name in ("bridge.weight", "norm.running_mean")} < everything
    assert len(content["optimizer_states"][0]["state"]) == 3  # weight, bias and scale
    pretrained = folder / "pretrained" / "model.safetensors"
    assert tiny.last(folder).stat().st_size < 0.2 * pretrained.stat().st_size


def test_the_random_and_the_restored_parts_resume_bit_by_bit(folder: Path, tmp_path: Path) -> None:
    whole = tiny.train(folder, steps=6, dropout=0.5)
    pretrained = tiny.pretrained(tmp_path / "parts" / "pretrained")
    tiny.train(pretrained.parent, steps=4, dropout=0.5)
    parts = tiny.train(pretrained.parent, steps=6, resume=True, dropout=0.5, drawn=5)
    for (name, wanted), found in zip(whole.named_parameters(), parts.parameters(), strict=True):
        assert torch.equal(found, wanted), name


def test_another_named_checkpoint_is_refused(folder: Path) -> None:
    tiny.train(folder, steps=1)
    tiny.pretrained(folder / "pretrained", seed=2)
    with pytest.raises(ZooError, match=r"other frozen weights .*: backbone\.encoder\.bias"):
        tiny.train(folder, steps=2, resume=True)


def test_a_checksum_may_have_all_64_bits() -> None:
    layer = torch.nn.Linear(1, 1, bias=False).requires_grad_(False)
    torch.nn.init.constant_(layer.weight, -1.0)
    mark_restored(layer)
    assert Restored(layer).checksums["weight"] > 2**63


def test_two_processes_continue_as_one_and_one_as_two(tmp_path: Path) -> None:
    done = processes.run("-m", "tests.training.tiny", tmp_path, folder=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    whole, parts = (
        [json.loads(line) for line in (tmp_path / run / "steps.jsonl").read_text().splitlines()]
        for run in ("whole", "parts")
    )
    assert [line["step"] for line in parts] == list(range(1, 10))
    for found, wanted in zip(parts, whole, strict=True):
        assert found["examples"] == wanted["examples"]
        assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-5)
    weights = [read_file(tiny.last(tmp_path / run))["state_dict"] for run in ("whole", "parts")]
    for name, wanted in weights[0].items():
        torch.testing.assert_close(weights[1][name], wanted, msg=name)


def test_the_training_goes_on_while_a_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write, write = threading.Event(), writing._write

    def waiting(checkpoint: dict[str, object], path: Path) -> None:
        may_write.wait()
        write(checkpoint, path)

    monkeypatch.setattr(writing, "_write", waiting)
    writer, weight, gathered = BackgroundWriter(), torch.ones(2), torch.ones(2)
    content = {"weight": weight, "tied": weight, "gathered": gathered}
    writer.save_checkpoint(content, tmp_path / "last.ckpt", storage_options=("gathered", "none"))
    weight += 1  # the next step
    gathered += 1  # not copied: a strategy that gathers weights keeps none of them
    assert not (tmp_path / "last.ckpt").exists()
    may_write.set()
    content = writer.load_checkpoint(tmp_path / "last.ckpt")
    assert content["weight"].tolist() == [1, 1]
    assert content["gathered"].tolist() == [2, 2]
    assert content["weight"].data_ptr() == content["tied"].data_ptr()


def test_an_unfinished_file_replaces_nothing_and_its_error_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = BackgroundWriter()
    writer.save_checkpoint({"step": 1}, tmp_path / "last.ckpt")
    writer.finish()

    def full_disk(content: object, file: BinaryIO) -> None:
        file.write(b"PK")
        raise OSError("No space left on device")

    monkeypatch.setattr(torch, "save", full_disk)
    writer.save_checkpoint({"step": 2}, tmp_path / "last.ckpt")
    with pytest.raises(OSError, match="No space left"):
        writer.teardown()
    assert read_file(tmp_path / "last.ckpt") == {"step": 1}
