"""A small offline training from its configuration; its export translates streams."""

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import zoo
from tests.fixtures import processes
from zoo.config import build, compose
from zoo.config.records import FOLDER
from zoo.runs.rows.row import read_rows
from zoo.runs.rows.segments import read_segments
from zoo.training.preparation import prepare
from zoo.training.writing import read_file

ROOT = Path(__file__).resolve().parents[2]
TINY = [
    "backbone.encoder.hidden=16",
    "backbone.encoder.ff=32",
    "backbone.encoder.layers=2",
    "backbone.encoder.heads=2",
    "backbone.encoder.conv_channels=[8,8,8,8,8,8,8]",
    "backbone.decoder.d_model=16",
    "backbone.decoder.decoder_layers=2",
    "backbone.decoder.decoder_attention_heads=2",
    "backbone.decoder.decoder_ffn_dim=32",
    "backbone.alignment.heads=[[1,0]]",
    "backbone.max_tokens=5",
]
STAGES = "training.curriculum.stages"
TRAINING = [
    "experiment=offline_minitalks",
    "logger=csv",
    "threads=1",
    "device=cpu",
    "backbone.encoder_weights=null",
    "export_dtype=float32",
    "training.train_talks=2",
    "training.dev_talks=1",
    "training.evaluate_every_steps=4",
    "training.evaluate_from_step=4",
    "training.evaluate_last=false",
    # they would fill the cache folder
    *(f"{STAGES}.{name}.steps=0" for name in ("sentences", "short", "long")),
    f"{STAGES}.alone.steps=5",
    f"{STAGES}.alone.batch_seconds=12",
]


def run(program: str, *arguments: str, folder: Path) -> str:
    done = processes.run(ROOT / program, *TINY, *arguments, folder=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_training_exports_what_an_evaluation_reads(tmp_path: Path) -> None:
    output = run("train.py", *TRAINING, f"hydra.run.dir={tmp_path / 'run'}", folder=tmp_path)
    export = tmp_path / "run" / "export"
    assert f"backbone.checkpoint={export}" in output
    assert re.search(
        r"step 4: alone/loss [\d.]+, en-de/BLEU [\d.]+",
        (tmp_path / "run" / "train.log").read_text(),
    )
    assert {"the", "a"} < set(json.loads((export / "source_words.json").read_text()))
    _check_best(tmp_path / "run")
    evaluation = tmp_path / "run" / "development" / "step000004"
    [row] = read_rows(evaluation / "results.json")
    assert (row.system, row.split, row.kind) == ("streamatt step 4", "dev", "system")
    assert read_segments(evaluation / "segments.jsonl", needed_by="a test")
    results = run(
        "evaluate.py",
        "system=streamatt",
        "evaluation.talks=1",
        "evaluation.knob_values=[2]",
        "evaluation.upper_bound=false",
        "evaluation.oracle_k=[]",
        "device=cpu",
        "logger=csv",
        f"backbone.checkpoint={export}",
        f"hydra.run.dir={tmp_path / 'evaluation'}",
        folder=tmp_path,
    )
    assert "BLEU" in results


def _check_best(folder: Path) -> None:
    """The evaluated step is exported beside the last one, and ``zoo.load`` reads it."""
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == [
        "best-step=4.ckpt",
        "last.ckpt",
    ]
    best = zoo.load(folder / "export_best")
    best.configure_model()
    content = read_file(folder / "checkpoints" / "best-step=4.ckpt")
    assert "optimizer_states" not in content
    for name, weight in best.state_dict().items():
        torch.testing.assert_close(weight, content["state_dict"][name], msg=name)
    weights = [load_file(folder / name / "model.safetensors") for name in ("export_best", "export")]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    card = (folder / "export_best" / "README.md").read_text()
    assert "Weights of step 4, the best on the development talks: " in card
    assert f"backbone.checkpoint={FOLDER}" in card
    assert "Weights of step 5, the last." in (folder / "export" / "README.md").read_text()


def test_no_part_is_left_in_the_mode_of_evaluation() -> None:
    """It would train without its dropout."""
    tokenizer = f"backbone.tokenizer={ROOT / 'checkpoints' / 'offline_minitalks_en-de'}"
    config = compose("train", [*TINY, *TRAINING, tokenizer])
    system = build(config.system)
    samplers: Any = {"alone": None}
    prepare(system, [], build(config.training), samplers, torch.device("cpu"))
    assert all(module.training for module in system.modules())
