"""Checkpoints of DeepSpeed and settings of its strategies; test_sharding.py trains with them."""

import os
import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import distributed

from tests.training import tiny
from zoo.config import build, compose
from zoo.errors import ZooError
from zoo.training import strategy
from zoo.training.run import last_checkpoint
from zoo.training.trainer import make_trainer
from zoo.training.writing import read_file

needs_deepspeed = pytest.mark.skipif(
    find_spec("deepspeed") is None, reason="needs pip install -e .[deepspeed]"
)


@needs_deepspeed
def test_shards_lack_frozen_weights_of_another_checkpoint_and_resume(tmp_path: Path) -> None:
    environment = dict(os.environ)
    stages: tuple[Literal[2, 3], ...] = (2, 3)
    systems = {}
    for stage in stages:  # DeepSpeed allows one process group in a process
        folder = tmp_path / str(stage)
        tiny.pretrained(folder / "pretrained")
        before = tiny.train(folder, steps=1, strategy=strategy.ZeRO(stage=stage))
        after = tiny.train(
            folder, steps=1, strategy=strategy.ZeRO(stage=stage), resume=True, drawn=5
        )
        after.trainer.save_checkpoint(folder / "best.ckpt", weights_only=True)
        after.trainer.strategy.checkpoint_io.teardown()
        systems[folder] = before, after
    distributed.destroy_process_group()
    os.environ.clear()
    os.environ.update(environment)

    left_out = {"backbone.encoder.weight", "backbone.encoder.bias"}
    for folder, (before, after) in systems.items():
        (file,) = tiny.last(folder).rglob("*model_states.pt")
        content = strategy.read(file)
        assert content["module"].keys() == before.state_dict().keys()
        assert not left_out & {*content["module"], *content[strategy.FROZEN]}
        pairs = zip(before.backbone.named_parameters(), after.backbone.parameters(), strict=True)
        for (name, wanted), found in pairs:
            assert torch.equal(found, wanted), name
        best = read_file(folder / "best.ckpt")["state_dict"]
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
    ("file", "stage", "written"),
    [
        ("zero_pp_rank_0_mp_rank_00_model_states.pt", 2, "deepspeed_stage_3"),
        ("mp_rank_00_model_states.pt", 3, "deepspeed_stage_2"),
        ("mp_rank_00_model_states.pt", None, "deepspeed_stage_2"),
    ],
)
def test_a_run_resumes_with_its_strategy(
    tmp_path: Path, file: str, stage: int | None, written: str
) -> None:
    folder = tmp_path / "checkpoints" / "last.ckpt" / "checkpoint"
    folder.mkdir(parents=True)
    (folder / file).touch()
    chosen = "auto" if stage is None else strategy.ZeRO(stage=stage)
    with pytest.raises(ZooError, match=f"written with strategy={written}; resume it with the same"):
        last_checkpoint(tmp_path, chosen)


@needs_deepspeed
def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "last.ckpt" / "checkpoint"
    folder.mkdir(parents=True)
    (folder / "zero_pp_rank_0_mp_rank_00_optim_states.pt").write_bytes(b"cut short")
    with pytest.raises(ZooError, match="is damaged; resume from another copy"):
        last_checkpoint(tmp_path, strategy.ZeRO())


@needs_deepspeed
def test_layers_that_ranks_run_unequally_often_are_refused() -> None:
    options = ["experiment=streamuni_phi4_minitalks", "backbone.tokenizer=none"]
    backbone = build(compose("train", options).backbone)
    trainer = make_trainer({"accelerator": "cpu", "devices": 2, "strategy": strategy.ZeRO(stage=3)})
    with pytest.raises(ZooError, match=r"Phi4Multimodal \(encoder\) .* choose strategy=fsdp2"):
        trainer.strategy.check_backbone(backbone)
    strategy.ZeRO(stage=2).check_backbone(backbone)


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
    assert cfg.trainer.strategy.stage == 2
    assert (cfg.backbone.dtype, cfg.backbone.gradient_checkpointing) == ("bfloat16", True)
    assert list(stage.trains) == ["encoder", "projector", "lora"]
