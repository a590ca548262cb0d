"""A tiny randomly initialised LST in double precision, with a tokenizer of bytes."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.fixtures.shapes import ENCODER, text_shape
from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.architectures.speech_llm.prompt import LEAN
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.lst.lst import LST
from zoo.backbones.text.tokenizer import train_tokenizer
from zoo.streaming.session import Session

DECODER = text_shape(model_type="llama", layers=3)
GREEDY = SearchConfig(beams=1, no_repeat_ngram=0, repetition_penalty=1.0)

Make = Callable[..., LST]


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer([], vocabulary_size=8 + 256).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def make(tokenizer_folder: Path) -> Make:
    """Builds a backbone; ``end_scale`` is large enough that hypotheses end early."""

    def build(*, seed: int = 0, end_scale: float = 3.0, **options: object) -> LST:
        torch.manual_seed(seed)
        settings: dict[str, object] = {
            "encoder": ENCODER,
            "decoder": DECODER,
            "template": LEAN,
            "block_chunks": 1,
            "alignment": AlignmentConfig(layer=1),
            "tokenizer": str(tokenizer_folder),
            "embedding_std": 0.5,
            "dtype": "float64",
            "search": GREEDY,
            "max_tokens": 8,
        } | options
        backbone = LST(**settings)  # type: ignore[arg-type]
        backbone.load()
        if backbone.checkpoint is None:
            with torch.no_grad():
                backbone.decoder.lm_head.weight[backbone.prompt.end_of_turn] *= end_scale
        return backbone.eval()

    return build


@pytest.fixture(scope="session")
def live() -> Callable[..., Session]:
    """A session that has received seconds of noise and has written token ids."""

    def receive(
        backbone: LST, *, seconds: float, prefix: list[int] | None = None, seed: int = 0
    ) -> Session:
        return new_session(backbone, noise_of(seconds, seed), prefix=prefix or [])

    return receive


def noise_of(seconds: float, seed: int = 0) -> Tensor:
    return white_noise(round(seconds * 16_000), seed)


@pytest.fixture(scope="session")
def noise() -> Callable[..., Tensor]:
    """Random audio, (seconds x 16 000,)."""
    return noise_of
