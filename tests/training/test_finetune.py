"""One command trains a shipped model further on data=aligned; steps scale with the talks."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.fixtures.streams import white_noise
from tests.training.jobs import train
from zoo.base.audio import files as audio
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.config import build, compose
from zoo.data import manifest
from zoo.training.preparation import make_samplers
from zoo.training.settings import TrainingSettings

CHECKPOINTS = Path(__file__).resolve().parents[2] / "checkpoints"
# parameter that names the model, its stages and, by the first part of their names, trained weights
EXPERIMENTS = {
    "infinisst": ("checkpoint", ("speech", "translation"), {"encoder", "adapter", "decoder"}),
    "lst": ("name", ("excerpts",), {"adapter", "decoder"}),
    "streamuni": ("name", ("chains_of_thought",), {"model"}),
}
SHIPPED = {
    "infinisst": "infinisst_minitalks_en-de",
    "lst": "lst_minitalks_en-de",
    "streamuni": "phi4_minitalks_en-de",
}
SOURCE = ("the", "old", "house", "is", "here.")
TARGET = ("das", "alte", "Haus", "ist", "hier.")
SEGMENT = 4.0  # seconds from one sentence to the next


def talk(folder: Path, name: str, sentences: int) -> Talk:
    """Noise with one sentence every four seconds, aligned word by word."""
    duration = sentences * SEGMENT
    audio.write(folder / f"{name}.wav", torch.as_tensor(white_noise(round(duration * 16_000), 0)))
    target = Target(" ".join(TARGET), TARGET, tuple((place,) for place in range(len(TARGET))))
    segments = []
    for index in range(sentences):
        start = index * SEGMENT + 0.5
        words = tuple(
            Word(word, start + 0.5 * place, start + 0.5 * place + 0.4)
            for place, word in enumerate(SOURCE)
        )
        segments.append(Segment(start, 2.4, " ".join(SOURCE), words, {"de": target}))
    return Talk(name, folder / f"{name}.wav", duration, "en", tuple(segments))


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("talks")
    manifest.write(folder / "train.jsonl", [talk(folder, f"t{n}", 14) for n in range(4)])
    manifest.write(folder / "dev.jsonl", [talk(folder, "dev", 1)])
    return folder


@pytest.mark.parametrize(
    ("name", "lazy"), [("infinisst", True), ("lst", False), ("streamuni", True)]
)
def test_a_shipped_model_is_trained_further(
    name: str, lazy: bool, talks: Path, tmp_path: Path
) -> None:
    key, stages, trained = EXPERIMENTS[name]
    shipped = CHECKPOINTS / SHIPPED[name]
    given = [
        f"experiment={name}_finetune",
        "data=aligned",
        f"data.folder={talks}",
        *(["data.lazy=true"] if lazy else []),
        f"backbone.{key}={shipped}",
        *(f"training.curriculum.stages.{stage}.step_seconds=60" for stage in stages),
        *(f"training.curriculum.stages.{stage}.passes=0.4" for stage in stages),
        "training.data_workers=0",
        "training.log_every_steps=1",
        "logger=csv",
        "threads=1",
        "device=cpu",
    ]
    train(tmp_path / "run", given)
    before = load_file(shipped / "model.safetensors")
    after = load_file(tmp_path / "run" / "export" / "model.safetensors")
    assert after.keys() >= before.keys()  # the shipped LST takes its encoder from InfiniSST
    changed = {key.split(".")[0] for key in before if not after[key].equal(before[key])}
    assert changed == trained

    # the model that it began with is recorded
    parent, *_ = json.loads((tmp_path / "run" / "weights.json").read_text())
    assert parent["name"] == str(shipped)
    rows = (tmp_path / "run" / "metrics.csv").read_text()
    assert all(f"train/{stage}/loss" in rows for stage in stages)


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("size", ["minitalks", "large"])
def test_steps_and_warm_up_scale_with_the_talks(name: str, size: str, talks: Path) -> None:
    large = "published" if name == "streamuni" else "llama8b"
    cfg = compose(
        "train", [f"experiment={name}_finetune", f"size={large if size == 'large' else size}"]
    )
    settings: TrainingSettings = build(cfg.training)
    system = build(cfg.system)
    few = manifest.read(talks / "train.jsonl")
    steps = []
    for repeated in (1, 10):
        many = few * (60 * repeated)
        samplers = make_samplers(system, many, settings)
        counted = settings.counted(samplers, batches=1, seed=0).curriculum
        for stage in counted.stages:
            tenth = stage.steps * (0.02 if name == "streamuni" else 0.1)
            reached = next(step for step in range(stage.steps) if stage.factor(step) > 0.9)
            assert reached <= max(1, tenth)
        steps.append(counted.steps)
    assert steps[1] == pytest.approx(10 * steps[0], rel=0.3)
