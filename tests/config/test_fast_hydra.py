"""Lists of defaults with links, which Hydra resolves by its map of choices."""

from pathlib import Path

import pytest

from zoo.config import compose


@pytest.mark.parametrize(("experiment", "seed"), [("seven", 7), ("eight", 8)])
def test_a_link_in_a_list_of_defaults_is_resolved(
    tmp_path: Path, experiment: str, seed: int
) -> None:
    files = {
        f"experiment/{experiment}.yaml": "defaults:\n  - /seeds: ${experiment}\n",
        "seeds/seven.yaml": "seed: 7\n",
        "seeds/eight.yaml": "seed: 8\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# @package _global_\n{text}")
    assert compose("evaluate", [f"experiment={experiment}"], folders=[tmp_path]).seed == seed
