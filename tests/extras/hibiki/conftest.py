"""Tiny models of Hibiki in the published layout."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import hibiki_layout
from zoo.extras.hibiki.hibiki import Hibiki, SamplingConfig

GREEDY = SamplingConfig(temperature=0, text_temperature=0)


@pytest.fixture(scope="session")
def mimi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("codec") / "mimi"
    hibiki_layout.mimi(folder)
    return folder


@pytest.fixture(scope="session")
def zero(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hibiki") / "zero"
    hibiki_layout.hibiki(folder)
    return folder


@pytest.fixture
def loaded(mimi: Path) -> Callable[..., Hibiki]:
    def load(folder: Path, **options: Any) -> Hibiki:
        given = {"sampling": GREEDY, "end_seconds": 3.0, "dtype": "float64", **options}
        backbone = Hibiki(name=str(folder), codec=str(mimi), **given)
        backbone.load()
        return backbone

    return load
