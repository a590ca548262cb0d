"""A tiny SeamlessM4T of random weights, as Transformers writes it."""

from pathlib import Path

import pytest

from tests.fixtures.tiny_checkpoints import KINDS


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    checkpoint: Path = tmp_path_factory.mktemp("checkpoints") / "speech"
    KINDS["seamless_m4t_speech"](checkpoint, seed=5)
    return str(checkpoint)
