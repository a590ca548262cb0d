"""Every backbone with every policy and history of conf: bound or refused, as the committed table says."""

from importlib import import_module
from itertools import product
from pathlib import Path

import pytest
import yaml

from zoo.backbones.base import Backbone
from zoo.errors import ZooError
from zoo.history.base import History
from zoo.policies.base import Policy
from zoo.systems.binding import bind

CONF = Path(__file__).resolve().parents[1] / "conf"
TABLE = Path(__file__).with_name("compatibility.yaml")
BOUND = "bound"


def choices(noun: str) -> dict[str, type]:
    """Name in the configuration and class of every choice for ``noun``."""
    found = {}
    for file in sorted((CONF / noun).glob("*.yaml")):
        module, _, name = yaml.safe_load(file.read_text())["_target_"].rpartition(".")
        found[file.stem] = getattr(import_module(module), name)
    return found


def verdict(backbone: type[Backbone], policy: type[Policy], history: type[History]) -> str:
    """``bound``, or the needs of which part are not met. Binding asks the classes: nothing is built or loaded."""
    try:
        bind(backbone, policy, history)  # type: ignore[arg-type]
    except ZooError:
        missing = {
            noun: sorted(part.needs - backbone.exposes) for noun, part in (("policy", policy), ("history", history))
        }
        return "; ".join(f"{noun} needs {', '.join(names)}" for noun, names in missing.items() if names)
    return BOUND


def verdicts() -> dict[str, dict[str, dict[str, str]]]:
    """Backbone, policy, history, verdict."""
    table: dict[str, dict[str, dict[str, str]]] = {}
    parts = product(choices("backbone").items(), choices("policy").items(), choices("history").items())
    for (backbone, network), (policy, when), (history, what) in parts:
        table.setdefault(backbone, {}).setdefault(policy, {})[history] = verdict(network, when, what)
    return table


def test_the_table_is_what_binding_says() -> None:
    found = verdicts()
    expected = f"tests/compatibility.yaml should read:\n{yaml.safe_dump(found, width=120)}"
    assert yaml.safe_load(TABLE.read_text()) == found, expected


@pytest.mark.parametrize("noun", ["policy", "history"])
def test_a_choice_is_named_after_its_module(noun: str) -> None:
    assert {name: part.__module__.rpartition(".")[2] for name, part in choices(noun).items()} == {
        name: name for name in choices(noun)
    }


@pytest.mark.parametrize(("noun", "kind"), [("backbone", Backbone), ("policy", Policy), ("history", History)])
def test_a_choice_is_what_its_folder_says(noun: str, kind: type) -> None:
    assert choices(noun)
    assert all(issubclass(part, kind) for part in choices(noun).values())
