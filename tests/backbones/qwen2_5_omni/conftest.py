"""Tiny thinkers of random weights, of the real class, in double precision."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fixtures.shapes import thinker_shape
from zoo.backbones.common.text.tokenizer import train_tokenizer
from zoo.backbones.qwen2_5_omni.qwen2_5_omni import CHATML, Qwen25Omni

SPECIAL = (
    "<|pad|>",
    "<|begin_of_text|>",
    "<|eot_id|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|audio_bos|>",
    "<|AUDIO|>",
)
TEXTS = (
    "Good morning. The sea is far away.",
    "Guten Morgen. Das Meer ist weit weg.",
    CHATML.instruction,
)
SHAPE = thinker_shape(audio_layers=3, max_position_embeddings=2048)


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    special = (*SPECIAL, "<|audio_eos|>", "<sep>")
    train_tokenizer(TEXTS, vocabulary_size=340, special_tokens=special).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tokenizer_folder: Path) -> Callable[..., Qwen25Omni]:
    """Builds loaded backbones, by default randomly initialised in float64."""

    def make(**options: Any) -> Qwen25Omni:
        torch.manual_seed(0)
        settings = {
            "config": SHAPE,
            "tokenizer": str(tokenizer_folder),
            "dtype": "float64",
            "embedding_std": 0.5,
        }
        backbone = Qwen25Omni(**{**settings, **options})
        backbone.load()
        return backbone

    return make


@pytest.fixture(scope="session")
def backbone(tiny: Callable[..., Qwen25Omni]) -> Qwen25Omni:
    return tiny()
