"""The objective leaves batches and losses to the backbone."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from zoo.backbones.architectures.speech_llm.prompt import LEAN
from zoo.backbones.base import Backbone
from zoo.backbones.encoders.wav2vec2.encoder import EncoderConfig
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Talk
from zoo.data.chain_of_thought import SpeechChainOfThoughtConfig
from zoo.data.excerpts import Excerpt, ExcerptConfig
from zoo.training.objectives.teacher_forcing import TeacherForcing

TALK = Talk("talk", None, 2.0, "en", ())


class Counting(Backbone):
    """Its batch is the number of target words."""

    trains_on = "ExcerptConfig"

    def collator(self) -> object:
        return lambda excerpts: sum(len(excerpt.target) for excerpt in excerpts)

    def forward(self, batch: int) -> dict[str, Tensor]:
        return {"loss": torch.tensor(2.0 * batch), "token_accuracy": torch.tensor(0.5)}

    def decode(self, *given: object) -> list[object]:  # type: ignore[override]
        raise AssertionError("not in training")

    def text(self, token_ids: list[int]) -> str:
        raise AssertionError("not in training")


def test_batches_and_losses_are_the_backbones() -> None:
    objective, backbone = TeacherForcing(sampling=ExcerptConfig()), Counting()
    objective.prepare([TALK], backbone)
    batch = objective.batch([Excerpt(TALK, 0.0, 1.0, (), ("a", "b"), language("de"))] * 2)
    assert batch == 4
    assert objective.losses(backbone, batch)["loss"] == 8


def test_a_backbone_that_takes_no_such_examples_is_refused() -> None:
    backbone = InfiniSST(encoder=EncoderConfig(), decoder={}, template=LEAN, tokenizer="none")
    with pytest.raises(ZooError, match="cannot train InfiniSST: it has no collator"):
        TeacherForcing(sampling=ExcerptConfig()).prepare([TALK], backbone)
    with pytest.raises(
        ZooError, match="examples of ExcerptConfig, not of SpeechChainOfThoughtConfig"
    ):
        TeacherForcing(sampling=SpeechChainOfThoughtConfig()).prepare([TALK], Counting())


def test_a_batch_has_tokens_or_labels() -> None:
    objective = TeacherForcing(sampling=ExcerptConfig())
    assert objective.tokens(SimpleNamespace(tokens=3)) == 3
    assert objective.tokens(SimpleNamespace(labels=torch.tensor([[-100, 0, 7]]))) == 2
    with pytest.raises(ZooError, match="int needs an attribute tokens"):
        objective.tokens(3)
