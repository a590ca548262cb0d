"""The shipped W&B sweep: its agent's command is accepted by train.py."""

from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from zoo.base.machine.launch import register_resolvers

CONF = Path(__file__).resolve().parents[2] / "conf"


def test_agent_command_composes() -> None:
    sweep = yaml.safe_load((CONF / "wandb_sweep.yaml").read_text())
    assert (CONF.parent / sweep["program"]).name == "train.py"
    args = {name: {"value": _first(options)} for name, options in sweep["parameters"].items()}
    pieces = create_sweep_command_args({"args": args})["args_no_hyphens"]
    assert sweep["command"] == ["${env}", "${interpreter}", "${program}", "${args_no_hyphens}"]
    register_resolvers()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose(Path(sweep["program"]).stem, overrides=pieces)
    assert config.seed == args["seed"]["value"]
    _, direction, score = sweep["metric"]["name"].split("/")
    assert direction == f"{config.source_language}-{config.target_language}"
    assert score == "BLEU"


def _first(options: dict[str, Any]) -> object:
    return options["value"] if "value" in options else options["values"][0]
