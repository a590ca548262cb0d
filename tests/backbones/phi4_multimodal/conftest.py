"""A tiny Phi-4-Multimodal in a folder, and audio."""

from pathlib import Path

import pytest
import torch

from tests.fixtures.tiny_checkpoints import phi4_multimodal


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as Transformers saves it."""
    checkpoint: Path = tmp_path_factory.mktemp("phi4")
    phi4_multimodal(checkpoint)
    return checkpoint


@pytest.fixture(scope="session")
def wave() -> torch.Tensor:
    """2.5 s of noise."""
    return 0.1 * torch.randn(40_000, generator=torch.Generator().manual_seed(0))
