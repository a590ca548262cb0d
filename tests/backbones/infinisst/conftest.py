"""A tiny randomly initialised InfiniSST in double precision, with a tokenizer of bytes."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor

from tests.backbones.infinisst.turns import GREEDY
from tests.fixtures.shapes import ENCODER, text_shape
from tests.fixtures.streams import new_system, white_noise
from zoo.backbones.architectures.speech_llm.prompt import LEAN
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.window import WindowConfig
from zoo.backbones.text.tokenizer import train_tokenizer
from zoo.base.types import Instance
from zoo.policies.turn_taking import TurnTaking
from zoo.streaming.simulate import Source, simulate
from zoo.systems.base import StreamingSystem

DECODER = text_shape(model_type="llama")

Make = Callable[..., InfiniSST]


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bytes and special tokens; like Llama's tokenizer it puts no space in front."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer = train_tokenizer([], vocabulary_size=8 + 256)
    tokenizer.backend_tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def make(tokenizer_folder: Path) -> Make:
    """Builds a backbone; ``end_scale`` is large enough that about half of the steps end a turn."""

    def build(*, seed: int = 0, end_scale: float = 3.0, **options: object) -> InfiniSST:
        torch.manual_seed(seed)
        settings = {
            "encoder": ENCODER,
            "decoder": DECODER,
            "template": LEAN,
            "tokenizer": str(tokenizer_folder),
            "embedding_std": 0.5,
            "dtype": "float64",
            "window": WindowConfig(),
            "search": GREEDY,
        } | options
        backbone = InfiniSST(**settings)
        backbone.load()
        with torch.no_grad():
            backbone.decoder.lm_head.weight[backbone.prompt.end_of_turn] *= end_scale
        return backbone.eval()

    return build


def system(backbone: InfiniSST, multiplier: int = 1) -> StreamingSystem:
    return new_system(
        backbone, TurnTaking(), chunk_seconds=0.96, latency_multiplier=multiplier, loaded=True
    )


@pytest.fixture(scope="session")
def stream() -> Callable[..., dict[str, Instance]]:
    """Stream talks, given as {name: samples}, in order; the instances by name."""

    def run(
        backbone: InfiniSST, talks: dict[str, Tensor], *, multiplier: int = 1, batch_size: int = 1
    ) -> dict[str, Instance]:
        streaming_system = system(backbone, multiplier)
        sources = [
            Source(name, samples.split(streaming_system.chunk_samples))
            for name, samples in talks.items()
        ]
        return {
            instance.talk: instance
            for instance in simulate(streaming_system, sources, batch_size=batch_size)
        }

    return run


@pytest.fixture(scope="session")
def make_system() -> Callable[..., StreamingSystem]:
    return system


@pytest.fixture(scope="session")
def noise() -> Callable[..., Tensor]:
    """Random audio, (seconds x 16 000,)."""

    def make_noise(seconds: float, seed: int = 0) -> Tensor:
        return white_noise(round(seconds * 16_000), seed)

    return make_noise
