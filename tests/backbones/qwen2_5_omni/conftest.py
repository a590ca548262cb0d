"""Tiny thinkers of random weights, of the real class, in double precision."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.fixtures.thinkers import FAMILIES
from zoo.backbones.qwen2_5_omni.qwen2_5_omni import Qwen25Omni

FAMILY = FAMILIES["qwen2_5_omni"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Qwen25Omni]:
    """Builds loaded backbones, by default randomly initialised in float64."""
    return partial(FAMILY.make, FAMILY.write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="session")
def backbone(tiny: Callable[..., Qwen25Omni]) -> Qwen25Omni:
    return tiny()
