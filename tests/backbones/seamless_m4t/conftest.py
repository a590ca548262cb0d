"""A tiny SeamlessM4T with speech output, saved by Transformers and loaded in double precision."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import SeamlessM4TModel

from tests.fixtures.streams import new_session, white_noise
from tests.fixtures.tiny_checkpoints import KINDS
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.streaming.session import Session

Opened = Callable[..., Session]
Load = Callable[..., SeamlessM4TSpeech]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the checkpoint."""
    checkpoint = tmp_path_factory.mktemp("checkpoints") / "speech"
    KINDS["seamless_m4t_speech"](checkpoint)
    return checkpoint


@pytest.fixture(scope="session")
def theirs(folder: Path) -> Any:
    """The same checkpoint as Transformers loads it."""
    network = SeamlessM4TModel.from_pretrained(folder, dtype=torch.float64).eval()
    network.set_attn_implementation("eager")
    return network


@pytest.fixture(scope="session")
def load(folder: Path) -> Load:
    """The checkpoint, loaded anew; arguments change how."""

    def make(**options: Any) -> SeamlessM4TSpeech:
        defaults = {
            "name": str(folder),
            "search": SearchConfig(no_repeat_ngram=2),
            "max_tokens": 12,
            "max_units": 40,
        }
        backbone = SeamlessM4TSpeech(
            alignment=AlignmentConfig(layer=1), dtype="float64", **{**defaults, **options}
        )
        backbone.load()
        return backbone

    return make


@pytest.fixture(scope="session")
def backbone(load: Load) -> SeamlessM4TSpeech:
    """Shared: not to be changed."""
    return load()


def noise(features: int, seed: int = 0) -> Tensor:
    """A wave of so many feature frames; where they are even, Transformers fills nothing up."""
    return white_noise(400 + 160 * (features - 1), seed, scale=0.1)


def opened(
    backbone: SeamlessM4TSpeech,
    features: int = 182,
    *,
    seed: int = 0,
    target: str = "de",
    prefix: tuple[int, ...] = (),
) -> Session:
    """A stream that has received noise and has written ``prefix``."""
    audio, talk = noise(features, seed), f"talk {seed}"
    return new_session(backbone, audio, target=target, prefix=prefix, talk=talk)
