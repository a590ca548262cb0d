"""Shipped weights stay small and complete."""

import json
from pathlib import Path

import pytest
import yaml

from zoo.backbones.pretrained.weights import SHARED, WEIGHTS

FOLDER = Path(__file__).parents[1] / "checkpoints"
MEGABYTES = 70


def folders() -> list[Path]:
    return sorted(path for path in FOLDER.iterdir() if path.is_dir())


def test_all_of_them_together_are_small() -> None:
    assert (
        sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < MEGABYTES * 1e6
    )


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_each_has_weights_a_configuration_and_a_card(folder: Path) -> None:
    assert (folder / WEIGHTS).is_file()
    assert yaml.safe_load((folder / "config.yaml").read_text())
    assert "python train.py experiment=" in (folder / "README.md").read_text()


@pytest.mark.parametrize(
    "folder", [folder for folder in folders() if (folder / SHARED).is_file()], ids=str
)
def test_shared_parts_are_in_the_repository(folder: Path) -> None:
    for place in json.loads((folder / SHARED).read_text()).values():
        assert (folder / place).resolve().is_relative_to(FOLDER)
        assert (folder / place / WEIGHTS).is_file()
