"""A training killed in the middle and started again takes the very steps of one that was never interrupted."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEPS = {"hearing": 8, "translating": 12, "unbounded": 10}
TINY = [
    "experiment=infinisst_minitalks",
    "logger=csv",
    "threads=1",
    "device=cpu",
    "training.log_every_steps=1",
    "training.train_talks=2",
    "training.dev_talks=1",
    "training.save_every_steps=3",
    "training.evaluate_every_steps=1000",
    "training.evaluate_last=false",
    "backbone.encoder.hidden=16",
    "backbone.encoder.ff=32",
    "backbone.encoder.layers=2",
    "backbone.encoder.heads=2",
    "backbone.encoder.conv_channels=[8,8,8,8,8,8,8]",
    "backbone.decoder.hidden_size=16",
    "backbone.decoder.intermediate_size=32",
    "backbone.decoder.num_hidden_layers=1",
    "backbone.decoder.num_attention_heads=2",
    "backbone.decoder.num_key_value_heads=2",
    *(f"training.curriculum.stages.{name}.steps={steps}" for name, steps in STEPS.items()),
    *(f"training.curriculum.stages.{name}.batch_seconds=12" for name in STEPS),
    *(f"training.curriculum.stages.{name}.warmup_steps=2" for name in STEPS),
]


def command(folder: Path, *extra: str) -> list[str]:
    return [sys.executable, str(ROOT / "train.py"), *TINY, f"hydra.run.dir={folder}", *extra]


def run(arguments: list[str], folder: Path) -> None:
    done = subprocess.run(arguments, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def losses(folder: Path) -> dict[int, float]:
    """Loss by step; where a resumed run took a step again, the later row."""
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    named = [f"train/{name}/loss" for name in STEPS]
    return {int(row["step"]): float(row[name]) for row in rows for name in named if row.get(name)}


def test_killed_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(command(whole), tmp_path)
    expected = losses(whole)
    assert sorted(expected) == list(range(sum(STEPS.values())))

    process = subprocess.Popen(
        command(broken), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while process.poll() is None:
        if (broken / "metrics.csv").exists() and len(losses(broken)) > 10:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        time.sleep(0.02)
    assert process.returncode == -signal.SIGKILL, "the run ended before it could be killed: give it more steps"
    assert max(losses(broken)) < max(expected)

    run(command(broken, f"resume={broken}"), tmp_path)
    resumed = losses(broken)
    assert sorted(resumed) == sorted(expected)
    for step, loss in expected.items():
        assert resumed[step] == pytest.approx(loss, abs=1e-5), f"step {step}"
    assert (broken / "export" / "model.safetensors").is_file()
