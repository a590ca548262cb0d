"""A tiny randomly initialised causal LM with a linear audio encoder; a tokenizer of bytes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from tests.fixtures.shapes import text_shape
from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.architectures.chain_of_thought.prompt import Template
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.causal.decoder import ATTENTION
from zoo.backbones.encoders.audio.spectrogram import Filterbank
from zoo.backbones.text.tokenizer import train_tokenizer
from zoo.streaming.session import Session

BINS, STACKED, WIDTH = 8, 8, 16
TEMPLATE = Template(user="<|user|>", audio="<|audio|>", instruction="To {target}.")
ENDS = ("<|pad|>", "<|end|>")  # of the model; the template has the second
SPECIAL = ("<|pad|>", "<|user|>", "<|audio|>", "<|end|>", "<|assistant|>")

Make = Callable[..., ChainOfThought]


class SpeechLlama(LlamaForCausalLM):
    """Eight frames of a filterbank are one embedding."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        self.tower = nn.Linear(STACKED * BINS, 12, dtype=self.dtype)
        self.projection = nn.Linear(12, WIDTH, dtype=self.dtype)


class Tiny(ChainOfThought):
    """The hooks of a concrete class; with ``separated`` the separator is a token of its own."""

    noun = "Tiny"
    frame_samples = 1280

    def __init__(self, *, seed: int, separated: bool, end_scale: float, **options: Any) -> None:
        super().__init__(name="tiny", template=TEMPLATE, dtype="float64", **options)
        self.seed, self.separated, self.end_scale = seed, separated, end_scale

    def build(self) -> None:
        own = ("<sep>",) if self.separated else ()
        self.tokenizer = train_tokenizer([], vocabulary_size=300, special_tokens=[*SPECIAL, *own])
        self.spectrogram = Filterbank(BINS)
        torch.manual_seed(self.seed)
        config = LlamaConfig(
            **text_shape(layers=3, vocab_size=len(self.tokenizer)),
            attn_implementation=ATTENTION,
            eos_token_id=self.tokenizer.convert_tokens_to_ids(list(ENDS)),
        )
        self.model = SpeechLlama(config).to(self.dtype)
        with torch.no_grad():
            self.model.get_input_embeddings().weight.normal_(0, 0.5)
            ends = self.tokenizer.convert_tokens_to_ids(
                ["<|end|>", "<sep>" if self.separated else ">"]
            )
            self.model.lm_head.weight[ends] *= self.end_scale

    @property
    def decoder(self) -> SpeechLlama:
        return self.model

    @staticmethod
    def prepared(frames: Tensor) -> Tensor:
        return (frames - 16) / 4

    @staticmethod
    def embeddings(features: int) -> int:
        return -(-features // STACKED)

    def encode(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        filled = [F.pad(frames, (0, 0, 0, -len(frames) % STACKED)) for frames in features]
        encoded = [self.model.tower(frames.reshape(-1, STACKED * BINS)).tanh() for frames in filled]
        return encoded, [frames / 2 for frames in encoded]

    def project(self, hidden: Tensor) -> Tensor:
        return self.model.projection(hidden)

    def parts(self) -> Mapping[str, Iterable[nn.Parameter]]:
        model = self.model
        text = [*model.model.parameters(), *model.lm_head.parameters()]
        return {
            "encoder": model.tower.parameters(),
            "projector": model.projection.parameters(),
            "decoder": text,
        }


@pytest.fixture(scope="session")
def make() -> Make:
    """Builds a backbone; ``end_scale`` is large enough that hypotheses end early."""

    def build(**options: Any) -> ChainOfThought:
        settings = {"seed": 0, "separated": True, "end_scale": 3.0, "max_tokens": 12}
        backbone = Tiny(**settings | {"alignment": AlignmentConfig(layer=1)} | options)
        backbone.load()
        return backbone

    return build


@pytest.fixture(scope="session")
def live() -> Callable[..., Session]:
    """A session that has received seconds of noise and has written token ids."""

    def receive(
        backbone: ChainOfThought,
        *,
        seconds: float,
        prefix: Sequence[int] = (),
        seed: int = 0,
        target: str = "de",
    ) -> Session:
        audio = noise_of(seconds, seed)
        return new_session(backbone, audio, target=target, prefix=prefix)

    return receive


def noise_of(seconds: float, seed: int = 0) -> Tensor:
    """Random audio, louder and softer by turns, (seconds x 16 000,)."""
    noise = white_noise(round(seconds * 16_000), seed)
    return noise * torch.linspace(0, 9, len(noise)).sin()


@pytest.fixture(scope="session")
def noise() -> Callable[..., Tensor]:
    """See ``noise_of``."""
    return noise_of


@pytest.fixture(scope="session")
def spoken() -> Callable[[ChainOfThought], None]:
    """Restricts a backbone to letters and spaces."""

    def restrict(backbone: ChainOfThought) -> None:
        letters = {token for letter in "abc" for token in backbone.prompt.translation(letter)}
        allowed = {*letters, *backbone.prompt.separator}
        backbone.never = [token for token in range(len(backbone.tokenizer)) if token not in allowed]
        with torch.no_grad():
            backbone.decoder.get_output_embeddings().weight[
                backbone.prompt.translation("a")[0]
            ] *= 4.0

    return restrict
