"""A user of a wheel, which contains no weights, is given the command that gets them."""

import tomllib
from pathlib import Path

import pytest

from zoo.config import shipped
from zoo.config.shipped import GET, REPOSITORY, SHIPPED, how_to_get

ROOT = Path(__file__).resolve().parents[2]


def test_the_names_and_the_address_are_those_of_the_repository() -> None:
    assert sorted(SHIPPED) == sorted(path.name for path in (ROOT / "checkpoints").iterdir())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Homepage"] == REPOSITORY


@pytest.mark.parametrize(
    ("folder", "installed", "is_named"),
    [
        ("checkpoints/lst_minitalks_en-de", True, True),
        ("checkpoints/lst_minitalks_en-de", False, False),  # the repository has it
        ("checkpoints/lst_minitalks_en-fr", True, False),  # the repository has none
        ("checkpoints/simulu_minitalks_en-de", True, False),  # it is here
    ],
)
def test_only_missing_checkpoints_of_the_repository(
    folder: str,
    installed: bool,
    is_named: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoints" / "simulu_minitalks_en-de").mkdir(parents=True)
    monkeypatch.setattr(shipped, "INSTALLED", installed)
    assert (GET in (how_to_get(folder) or "")) == is_named
