"""``zoo.load`` gives the system of a checkpoint, and other systems on its network."""

import shutil
from pathlib import Path

import lightning
import pytest
import torch

import zoo
from zoo.base.errors import ZooError

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = sorted(
    path.name for path in (ROOT / "checkpoints").iterdir() if not path.name.startswith("recogniser")
)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_checkpoint_is_the_system_of_its_card(name: str) -> None:
    system = zoo.load(name)
    card = (ROOT / "checkpoints" / name / "README.md").read_text()
    assert system.direction == name.rpartition("_")[2]
    assert f"system={system.name.partition('+')[0]}" in card or system.name == "infinisst"


def test_an_offline_network_serves_several_systems() -> None:
    folder = ROOT / "checkpoints" / "offline_minitalks_en-de"
    system = zoo.load(folder, system="wait_k", **{"policy.k": 3})
    assert (system.name, type(system.policy).__name__) == ("wait_k", "WaitK")
    assert vars(system.policy)["k"] == 3
    assert vars(system.backbone)["checkpoint"] == str(folder)
    assert zoo.load(folder, policy="local_agreement").name == "streamatt+policy=local_agreement"
    assert zoo.load("alignatt").name == "alignatt"


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=r"Unknown system or folder of a checkpoint 'infini'"):
        zoo.load("infini")
    with pytest.raises(ZooError, match=r"config\.yaml does not state how to evaluate"):
        zoo.load(tmp_path)
    with pytest.raises(ZooError, match=r"Unknown policy 'nope'"):
        zoo.load("infinisst", policy="nope")
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    shutil.copy(ROOT / "checkpoints" / "recogniser_minitalks_de" / "config.yaml", folder)
    with pytest.raises(ZooError, match="does not state how to evaluate"):
        zoo.load(folder)


def test_the_package_names_what_scripts_use() -> None:
    assert all(getattr(zoo, name) for name in zoo.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        zoo.nothing  # noqa: B018


def test_a_plan_trains_a_loaded_system_on_the_talks_of_a_corpus() -> None:
    """The first stage of the experiment has no steps; the next one trains adapter and decoder."""
    system = zoo.load("infinisst_minitalks_en-de")
    trainer, other = (
        lightning.Trainer(
            accelerator="cpu",
            max_steps=2,
            limit_val_batches=0,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        for _ in range(2)
    )
    data = zoo.TalksDataModule("minitalks", talks=1)
    with pytest.raises(ZooError, match="no training plan"):
        trainer.fit(system, data)
    stages = "training.curriculum.stages"
    system.training_plan = zoo.training_plan(
        "infinisst_minitalks",
        **{
            f"{stages}.recognition.steps": 0,
            f"{stages}.translation.batch_seconds": 12,
            "training.data_workers": 0,
        },
    )
    with pytest.raises(ZooError, match="A training needs talks"):
        other.fit(system)
    before = {name: weight.clone() for name, weight in system.backbone.named_parameters()}
    trainer.fit(system, data)
    changed = {
        name
        for name, weight in system.backbone.named_parameters()
        if not torch.equal(weight, before[name])
    }
    assert trainer.global_step == 2
    assert changed
    assert not [name for name in changed if name.startswith("encoder")]
