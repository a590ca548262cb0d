"""``zoo.load`` gives the system of a checkpoint, and other systems on its network."""

import shutil
from pathlib import Path

import pytest

import zoo
from zoo.errors import ZooError

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
