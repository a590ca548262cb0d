"""2,000 examples through validators, parsers and loaders, and 100 compositions: none crashes.

``python -m tests.fuzz --examples 50000`` searches longer.
"""

import contextlib
import random
from functools import cache

import pytest
from omegaconf.errors import OmegaConfBaseException

from tests.fuzz.running import find_crash
from tests.fuzz.targets import PARTS, Target, targets
from zoo.base.errors import ZooError
from zoo.config import build, compose, plain

EXAMPLES = 2000
COMPOSITIONS = 100
NAMES = (
    "manifest",
    "log",
    "finished streams",
    "audio",
    "segments",
    "results",
    "answer",
    "launcher",
    "config.json",
    "tokenizer",
    "safetensors",
    "pickle",
    "record",
    "values",
    "settings",
    "YAML",
)
WORDS = ("null", "nan", "-1", "0", "1e400", "x", "''", "[]", "{}", "[1,x]", "true", "${x}", "'")
SIGNS = ("", "", "", "+", "++", "~")


@cache
def all_targets() -> dict[str, Target]:
    """The targets; their correct files are made once."""
    return targets()


def test_every_target_is_run() -> None:
    assert tuple(all_targets()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_no_example_crashes(name: str) -> None:
    assert find_crash(all_targets()[name], EXAMPLES // len(NAMES) + 1) == ""


def overrides() -> list[str]:
    """Overrides of keys of all parts, drawn from one seed."""
    chooser = random.Random(0)
    cfg = plain(compose("evaluate"), resolve=False)
    keys = [
        *cfg,
        *(f"{part}.{key}" for part, node in cfg.items() if isinstance(node, dict) for key in node),
    ]
    found = []
    for _ in range(COMPOSITIONS):
        sign, key = chooser.choice(SIGNS), chooser.choice(keys)
        found.append(f"~{key}" if sign == "~" else f"{sign}{key}={chooser.choice(WORDS)}")
    return found


def test_no_override_crashes() -> None:
    for override in overrides():
        # entry_point makes a sentence of the errors of OmegaConf
        with contextlib.suppress(ZooError, OmegaConfBaseException):
            cfg = compose("evaluate", [override])
            for part in PARTS:
                build(cfg[part])
