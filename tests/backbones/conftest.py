"""One thread for all tests of backbones, and tiny checkpoints as Transformers writes them.

A tiny InfiniSST stands for every network that the shared parts serve.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.backbones.infinisst.conftest import make, tokenizer_folder
from tests.fixtures.tiny_checkpoints import KINDS
from zoo.backbones.decoding import static_memory

__all__ = ["make", "tokenizer_folder"]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a tiny checkpoint by kind and options (tests/fixtures/tiny_checkpoints.py)."""
    root = tmp_path_factory.mktemp("checkpoints")

    def folder(kind: str, **options: Any) -> Path:
        path = root / "-".join([kind, *(f"{key}={value}" for key, value in options.items())])
        if kind == "canary":
            pytest.importorskip("transformers", minversion="5.23")
        if not path.exists():
            KINDS[kind](path, **options)
        return path

    return folder


@pytest.fixture
def small_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes change often, and the memory has to grow."""
    monkeypatch.setattr(static_memory, "KEYS", 16)
