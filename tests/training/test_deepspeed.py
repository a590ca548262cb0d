"""ZeRO-2 on CPU processes takes the steps of a plain single run, also when killed and resumed."""

import os
import pickle
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import distributed

from tests.training import tiny
from tests.training.jobs import losses, train, train_and_kill
from zoo.config import build, compose
from zoo.errors import ZooError
from zoo.training import strategy
from zoo.training.run import last_checkpoint
from zoo.training.writing import read_file

needs_deepspeed = pytest.mark.skipif(
    find_spec("deepspeed") is None, reason="needs pip install -e .[deepspeed]"
)
STEPS = {"recognition": 4, "sentences": 4, "segments": 6}  # the second freezes the encoder
STEP = 1e-3  # learning rate of all stages: about what one step moves a weight by
TINY = [
    "experiment=streamuni_phi4_minitalks",
    "logger=csv",
    "threads=1",
    "device=cpu",
    "export_dtype=float32",
    "trainer.precision=32-true",
    "training.log_every_steps=1",
    "training.train_talks=2",
    "training.dev_talks=1",
    "training.vocabulary_size=400",
    "training.save_every_steps=3",
    "training.evaluate_every_steps=1000",
    "training.evaluate_last=false",
    "backbone.config.hidden_size=16",
    "backbone.config.intermediate_size=32",
    "backbone.config.num_attention_heads=2",
    "backbone.config.num_key_value_heads=2",
    "backbone.config.audio_config.hidden_size=16",
    "backbone.config.audio_config.intermediate_size=32",
    "backbone.config.audio_config.num_blocks=2",
    "backbone.config.audio_config.num_attention_heads=2",
    "backbone.config.audio_config.ext_pw_out_channel=16",
    "backbone.config.audio_config.depthwise_separable_out_channel=16",
    "backbone.config.audio_config.nemo_conv_channels=8",
    *(f"training.curriculum.stages.{name}.steps={steps}" for name, steps in STEPS.items()),
    *(f"training.curriculum.stages.{name}.batch_seconds=8" for name in STEPS),
    *(f"training.curriculum.stages.{name}.warmup_steps=2" for name in STEPS),
    *(f"training.curriculum.stages.{name}.learning_rate={STEP}" for name in STEPS),
]
ZERO = ["strategy=deepspeed_stage_2", "trainer.devices=2"]


@needs_deepspeed
def test_two_processes_killed_and_resumed_equal_one(tmp_path: Path) -> None:
    plain, sharded = tmp_path / "plain", tmp_path / "sharded"
    train(plain, [*TINY, "trainer.accumulate_grad_batches=2"])  # the batches of both processes
    expected = losses(plain, STEPS)
    assert sorted(expected) == list(range(sum(STEPS.values())))

    train_and_kill(sharded, [*TINY, *ZERO], stages=STEPS, step=7)
    assert (sharded / "checkpoints" / "last.ckpt").is_dir()
    with pytest.raises(
        ZooError, match=r"written with strategy=deepspeed_\.\.\.; resume it with the same"
    ):
        last_checkpoint(sharded)

    train(sharded, [*TINY, *ZERO, f"resume={sharded}"])
    resumed = losses(sharded, STEPS)
    assert sorted(resumed) == sorted(expected)
    for step, loss in expected.items():
        assert resumed[step] == pytest.approx(loss, abs=1e-4), f"step {step}"
    weights = [load_file(folder / "export" / "model.safetensors") for folder in (plain, sharded)]
    assert weights[0].keys() == weights[1].keys()
    for name, wanted in weights[0].items():
        torch.testing.assert_close(weights[1][name], wanted, rtol=0, atol=STEP / 20, msg=name)


@needs_deepspeed
def test_shards_lack_frozen_weights_of_another_checkpoint_and_resume(tmp_path: Path) -> None:
    environment = dict(os.environ)
    tiny.pretrained(tmp_path / "pretrained")
    before = tiny.train(tmp_path, steps=1, strategy=strategy.ZeRO())
    after = tiny.train(tmp_path, steps=1, strategy=strategy.ZeRO(), resume=True, drawn=5)
    best = tmp_path / "best.ckpt"
    after.trainer.save_checkpoint(best, weights_only=True)
    after.trainer.strategy.checkpoint_io.teardown()
    distributed.destroy_process_group()
    os.environ.clear()
    os.environ.update(environment)

    left_out = {"backbone.encoder.weight", "backbone.encoder.bias"}
    (file,) = tiny.last(tmp_path).rglob("*model_states.pt")
    content = strategy.read(file)
    assert content["module"].keys() == before.state_dict().keys()
    assert not left_out & {*content["module"], *content[strategy.FROZEN]}
    for (name, wanted), found in zip(before.named_parameters(), after.parameters(), strict=True):
        assert torch.equal(found, wanted), name
    assert read_file(best)["state_dict"].keys() == before.state_dict().keys()


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
    assert (stage.examples, stage.learning_rate, settings.weight_decay) == (32, 4e-5, 0.01)
    assert [stage.factor(step) for step in (49, 1000, 1999)] == [
        1,
        1,
        1,
    ]  # constant once it is warm
    assert list(settings.betas) == [0.9, 0.95]
    assert (cfg.trainer.strategy.stage, cfg.trainer.precision) == (2, "bf16-mixed")
    assert (cfg.backbone.dtype, cfg.backbone.gradient_checkpointing) == ("bfloat16", True)
    assert list(stage.trains) == ["encoder", "projector", "lora"]
