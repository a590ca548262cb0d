"""A tiny InfiniSST stands for every network that the shared parts serve."""

import pytest

from tests.backbones.infinisst.conftest import make, tokenizer_folder
from zoo.backbones.decoding import static_memory

__all__ = ["make", "tokenizer_folder"]


@pytest.fixture
def small_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes change often, and the memory has to grow."""
    monkeypatch.setattr(static_memory, "KEYS", 16)
