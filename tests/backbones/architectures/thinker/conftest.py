"""Each family of thinkers."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.thinkers import FAMILIES, Family


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Family:
    return FAMILIES[request.param]


@pytest.fixture(scope="module")
def tokenizer_folder(family: Family, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return family.write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def tiny(family: Family, tokenizer_folder: Path) -> Callable[..., Any]:
    """Builds loaded backbones, by default randomly initialised in float64."""
    return partial(family.make, tokenizer_folder)
