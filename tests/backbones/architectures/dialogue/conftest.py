"""Each family of thinkers in a dialogue."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.fixtures.thinkers import FAMILIES, Family
from zoo.backbones.architectures.dialogue.dialogue import Dialogue

Maker = Callable[..., Dialogue]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Family:
    return FAMILIES[request.param]


@pytest.fixture(scope="module")
def tiny(family: Family, tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Builds loaded backbones, by default randomly initialised in float64."""
    folder = family.write_tokenizer(tmp_path_factory.mktemp("tokenizer"))
    return partial(family.make, folder, dialogue=True)
