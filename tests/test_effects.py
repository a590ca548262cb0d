"""Every value that a user may type in the parts of a system has an effect, or is refused.

Each key of the composed configuration of every system gets other values, and the system is built
without weights. What was built must differ, or the value must be refused.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from zoo.base.errors import ZooError
from zoo.config import Config, build, compose, plain
from zoo.evaluation.settings import Settings, knob_values
from zoo.runs.weights import check_replaced
from zoo.systems.base import StreamingSystem

SYSTEMS = {  # every system, and other choices whose keys no system of the first choice has
    "alignatt": ("alignatt",),
    "edatt": ("edatt",),
    "infinisst": ("infinisst",),
    "learned_wait": ("learned_wait",),
    "local_agreement": ("local_agreement",),
    "simulu": ("simulu",),
    "streamatt": ("streamatt",),
    "streamatt_plus": ("streamatt_plus",),
    "streamuni": ("streamuni",),
    "wait_k": ("wait_k",),
    "espeak": ("streamatt", "synthesizer=espeak"),
    "punctuation": ("streamatt", "history=punctuation"),
    "qwen": ("streamuni", "backbone=qwen_minitalks"),
    "lst": ("streamatt_plus", "backbone=lst_minitalks"),
    "doa": ("doa",),
    "retranslation": ("retranslation",),
    "cascade": ("local_agreement", "backbone=cascade_minitalks"),
    "glossary": ("streamuni", "context=names"),
    "document": ("streamuni", "context=document", "context.path=paper.pdf"),
    "retrieved": ("streamuni", "context=retrieved", "context.path=terms.txt"),
}
PARTS = ("system", "backbone", "policy", "history", "synthesizer", "context")
CHOICES = re.compile(r"(?:must be one of|choose one of:) (.*?)(?:, not [^,]*)?\.?$")
Key = tuple[str, ...]


def leaves(node: Mapping[str, Any], path: Key = ()) -> Iterator[tuple[Key, str, Any]]:
    """Path, target and value of each key below a node, without links to other parts."""
    for name, value in node.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, name))
        elif name != "_target_" and not str(value).startswith("${"):
            yield (*path, name), str(node.get("_target_")), value


def other_values(value: Any) -> list[Any]:
    """Other values of the type of a value."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, 2 * value]
    if isinstance(value, float):
        return [value + 0.25, value / 2]
    if isinstance(value, str):
        return [f"{value}x"]
    if isinstance(value, list):
        longer = [*value, value[-1]] if value else [3]
        return [longer, *([value[:-1]] if value else [])]
    return [3, 0.5, "x", True]


def content(part: object, seen: dict[int, int]) -> Any:
    """What a built part holds, as plain values that can be compared.

    Args:
        part: the part.
        seen: number of each object that was met before, by identity; parts refer to each other.
    """
    if part is None or isinstance(part, bool | int | float | str | bytes | Path):
        return part
    if isinstance(part, type) or (callable(part) and hasattr(part, "__qualname__")):
        return part.__qualname__
    if id(part) in seen:
        return ("seen", seen[id(part)])
    seen[id(part)] = len(seen)
    if isinstance(part, torch.Tensor):
        return tuple(part.shape), str(part.dtype)
    if isinstance(part, Mapping):
        return {str(name): content(value, seen) for name, value in part.items()}
    if isinstance(part, set | frozenset):
        return sorted(map(str, part))
    if isinstance(part, Sequence):
        return [content(value, seen) for value in part]
    if isinstance(part, partial):
        return [content(one, seen) for one in (part.func, part.args, part.keywords)]
    slots = [name for one in type(part).__mro__ for name in getattr(one, "__slots__", ())]
    names = {*getattr(part, "__dict__", {}), *(name for name in slots if hasattr(part, name))}
    held = {name: content(getattr(part, name), seen) for name in sorted(names - {"__weakref__"})}
    return type(part).__qualname__, held


def built(cfg: Config) -> Any:
    """Content of the system of a configuration, and the latency settings that it evaluates."""
    system: StreamingSystem = build(copy.deepcopy(cfg).system)
    return content(system, {}), knob_values(system, Settings())


def has_effect(cfg: Config, path: Key, value: Any, before: Any) -> bool:
    """Whether another value of a key changes what is built or is refused for what it is.

    A value that is refused because it is not among some choices is followed by these choices.

    Args:
        cfg: composed configuration of a system.
        path: the key.
        value: its value.
        before: content of the system with this value.
    """
    candidates, refused = other_values(value), False
    for candidate in candidates:
        trial = copy.deepcopy(cfg)
        node = trial
        for name in path[:-1]:
            node = node[name]
        node[path[-1]] = candidate
        try:
            check_replaced(plain(trial), [f"{'.'.join(path)}={candidate}"])
            if built(trial) != before:
                return True
        except ZooError as error:
            refused = True
            choices = CHOICES.search(str(error))
            if choices and isinstance(value, str) and len(candidates) == 1:
                names = [name.strip("' ") for name in choices[1].split(",")]
                candidates += [name for name in names if name != value]
            continue
        refused = False
    return refused


@pytest.fixture(scope="module")
def tried() -> set[object]:
    """Keys that a test has tried with another system that has the same part."""
    return set()


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_value_has_an_effect_or_is_refused(name: str, tried: set[object]) -> None:
    system, *others = SYSTEMS[name]
    cfg = compose("evaluate", [f"system={system}", *others])
    before = built(cfg)
    assert built(cfg) == before
    values = {part: value for part, value in plain(cfg, resolve=False).items() if part in PARTS}
    without = []
    for path, target, value in leaves(values):
        key = (target, path[-1], str(value))
        if key not in tried:
            tried.add(key)
            if not has_effect(cfg, path, value, before):
                without.append(".".join(path))
    assert without == []


def test_a_value_without_effect_is_found() -> None:
    cfg = compose("evaluate", ["system=wait_k"])
    before = built(cfg)
    assert not has_effect(cfg, ("seed",), 1, before)
    assert has_effect(cfg, ("policy", "k"), cfg.policy.k, before)
