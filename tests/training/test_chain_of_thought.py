"""A small training of a chain of thought from its configuration, stage by stage."""

import csv
from pathlib import Path

import pytest

from tests.fixtures import processes
from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.config import build, compose

ROOT = Path(__file__).resolve().parents[2]
TEXT = ["hidden_size=16", "intermediate_size=24", "num_hidden_layers=1", "num_attention_heads=2"]
PHI4 = [
    *(f"backbone.config.{field}" for field in [*TEXT, "num_key_value_heads=2"]),
    *(f"backbone.config.audio_config.{field}" for field in TEXT[:2]),
    "backbone.config.audio_config.num_blocks=2",
    "backbone.config.audio_config.num_attention_heads=2",
    "backbone.config.audio_config.ext_pw_out_channel=16",
    "backbone.config.audio_config.depthwise_separable_out_channel=16",
    "backbone.config.audio_config.nemo_conv_channels=4",
    "backbone.alignment.layer=0",
    "backbone.alignment.heads=null",
]
STAGES = "training.curriculum.stages"
TRAINING = [
    "experiment=streamuni_phi4_minitalks",
    "logger=csv",
    "threads=1",
    "device=cpu",
    "training.train_talks=2",
    "training.dev_talks=1",
    "training.evaluate_last=false",
    "training.log_every_steps=1",
    *(f"{STAGES}.{name}.steps=2" for name in ("recognition", "sentences", "segments")),
    *(f"{STAGES}.{name}.batch_seconds=6" for name in ("recognition", "sentences", "segments")),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    overrides = [*PHI4, *TRAINING, f"hydra.run.dir={folder / 'run'}"]
    done = processes.run(ROOT / "train.py", *overrides, folder=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"backbone.name={folder / 'run' / 'export'}" in done.stdout
    return folder / "run"


@pytest.fixture(scope="module")
def exported(run: Path) -> ChainOfThought:
    backbone = build(
        compose("evaluate", ["system=streamuni", *PHI4, f"backbone.name={run / 'export'}"]).system
    ).backbone
    assert isinstance(backbone, ChainOfThought)
    backbone.load()
    return backbone


def test_every_stage_has_its_own_losses(run: Path) -> None:
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    for stage, name in (
        ("recognition", "word_accuracy"),
        ("sentences", "transcript"),
        ("segments", "translation"),
    ):
        assert len([row for row in rows if row[f"train/{stage}/{name}"]]) == 2


def test_its_tokenizer_covers_both_languages_and_its_own_prompt(exported: ChainOfThought) -> None:
    words = {exported.tokenizer.tokenize(word)[0] for word in ("the", "die", "separator")}
    assert words == {"Ġthe", "Ġdie", "Ġseparator"}
    assert len(exported.prompt.separator) == 1
    assert (
        exported.text([*exported.prompt.transcript("the"), *exported.prompt.translation("die")])
        == " the die"
    )


def test_its_encoder_normalises_by_statistics_of_the_training_audio(
    exported: ChainOfThought,
) -> None:
    buffers = dict(exported.model.named_buffers())
    [mean] = [buffer for name, buffer in buffers.items() if name.endswith("global_mean")]
    assert mean.min() > 1  # of log mel energies; 0 where nobody looked
