"""Checkpoints of DeepSpeed and settings of its strategies; test_sharding.py trains with them."""

import os
import pickle
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import distributed

from tests.training import tiny
from zoo.base.errors import ZooError
from zoo.config import build, compose
from zoo.training import strategy
from zoo.training.run import last_checkpoint
from zoo.training.writing import read_file

needs_deepspeed = pytest.mark.skipif(
    find_spec("deepspeed") is None, reason="needs pip install -e .[deepspeed]"
)


@needs_deepspeed
def test_a_checkpoint_lacks_frozen_weights_of_another_one_and_resumes(tmp_path: Path) -> None:
    environment = dict(os.environ)
    tiny.pretrained(tmp_path / "pretrained")
    before = tiny.train(tmp_path, steps=1, strategy=strategy.ZeRO())
    after = tiny.train(tmp_path, steps=1, strategy=strategy.ZeRO(), resume=True, drawn=5)
    after.trainer.save_checkpoint(tmp_path / "best.ckpt", weights_only=True)
    after.trainer.strategy.checkpoint_io.teardown()
    distributed.destroy_process_group()
    os.environ.clear()
    os.environ.update(environment)

    left_out = {"backbone.encoder.weight", "backbone.encoder.bias"}
    (file,) = tiny.last(tmp_path).rglob("*model_states.pt")
    content = strategy.read(file)
    assert content["module"].keys() == before.state_dict().keys()
    assert not left_out & {*content["module"], *content[strategy.FROZEN]}
    pairs = zip(before.backbone.named_parameters(), after.backbone.parameters(), strict=True)
    for (name, wanted), found in pairs:
        assert torch.equal(found, wanted), name
    best = read_file(tmp_path / "best.ckpt")["state_dict"]
    assert best.keys() == before.state_dict().keys()
    assert torch.equal(best["backbone.head.1.weight"], after.backbone.head[1].weight)


@needs_deepspeed
def test_a_checkpoint_runs_no_code(tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "made"),)

    torch.save({"optimizer_state_dict": Harmful()}, tmp_path / "0_optim_states.pt")
    with pytest.raises(pickle.UnpicklingError):
        strategy.read(tmp_path / "0_optim_states.pt")
    assert not (tmp_path / "made").exists()


@needs_deepspeed
@pytest.mark.parametrize(
    ("is_folder", "written"),
    [(True, "strategy=deepspeed_stage_2"), (False, "another strategy than strategy=deepspeed")],
)
def test_a_run_resumes_with_its_strategy(tmp_path: Path, is_folder: bool, written: str) -> None:
    checkpoint = tmp_path / "checkpoints" / "last.ckpt"
    checkpoint.parent.mkdir()
    if is_folder:
        (checkpoint / "checkpoint").mkdir(parents=True)
        (checkpoint / "checkpoint" / "mp_rank_00_model_states.pt").touch()
    else:
        checkpoint.touch()
    with pytest.raises(ZooError, match=f"written with {written}.*; resume it with the same"):
        last_checkpoint(tmp_path, "auto" if is_folder else strategy.ZeRO())


@needs_deepspeed
def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "last.ckpt" / "checkpoint"
    folder.mkdir(parents=True)
    (folder / "zero_pp_rank_0_mp_rank_00_optim_states.pt").write_bytes(b"cut short")
    with pytest.raises(ZooError, match="is damaged; resume from another copy"):
        last_checkpoint(tmp_path, strategy.ZeRO())


def test_without_deepspeed_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy, "find_spec", lambda name: None)
    with pytest.raises(ZooError, match=r"needs DeepSpeed: pip install -e \.\[deepspeed\]\.$"):
        build(compose("train", ["strategy=deepspeed_stage_2_offload"]).trainer)


def test_the_experiment_has_the_settings_of_table_3() -> None:
    cfg = compose("train", ["experiment=streamuni_phi4"])
    settings = build(cfg.training)
    (stage,) = settings.curriculum.stages
    assert (stage.examples, stage.learning_rate, cfg.optimizer.weight_decay) == (32, 4e-5, 0.01)
    assert [stage.factor(step) for step in (49, 1000, 3099)] == [1, 1, 1]  # constant once warm
    assert (list(cfg.optimizer.betas), cfg.optimizer.eps) == ([0.9, 0.95], 1e-7)
    sampling = settings.sampling(stage)
    assert (sampling.mixture["streaming"], sampling.mixture["non_streaming"]) == (0.5, 0.5)
    assert sampling.hours == {"streaming": 50, "non_streaming": 50}
    assert cfg.trainer.strategy._target_ == "zoo.training.strategy.ZeRO"
    assert (cfg.backbone.dtype, cfg.backbone.gradient_checkpointing) == ("bfloat16", True)
    assert list(stage.trains) == ["encoder", "projector", "lora"]
