"""Tiny thinkers of random weights, of the real class, in double precision."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.fixtures.thinkers import FAMILIES
from zoo.backbones.qwen3_omni.qwen3_omni import Qwen3Omni

FAMILY = FAMILIES["qwen3_omni"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Qwen3Omni]:
    """Builds loaded backbones, by default randomly initialised in float64."""
    return partial(FAMILY.make, FAMILY.write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="session")
def backbone(tiny: Callable[..., Qwen3Omni]) -> Qwen3Omni:
    return tiny()
