"""The objective leaves batches and losses to the backbone."""

import pytest
import torch
from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.backbones.common.speech_llm.prompt import LEAN
from zoo.backbones.common.wav2vec2.encoder import EncoderConfig
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.data.excerpts import Excerpt
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.languages import language
from zoo.objectives.offline import Offline

TALK = Talk("talk", None, 2.0, "en", ())


class Counting(Backbone):
    """Its batch is the number of target words."""

    def collator(self) -> object:
        return lambda excerpts: sum(len(excerpt.target) for excerpt in excerpts)

    def forward(self, batch: int) -> dict[str, Tensor]:
        return {"loss": torch.tensor(2.0 * batch), "token_accuracy": torch.tensor(0.5)}

    def decode(self, *given: object) -> list[object]:  # type: ignore[override]
        raise AssertionError("not in training")

    def text(self, token_ids: list[int]) -> str:
        raise AssertionError("not in training")


def test_batches_and_losses_are_the_backbones() -> None:
    objective, backbone = Offline(), Counting()
    objective.prepare([TALK], backbone)
    batch = objective.batch(
        [Excerpt(TALK, 0.0, 1.0, (), ("a", "b"), language("de"))] * 2, multiplier=1
    )
    assert batch == 4
    assert objective.losses(backbone, batch)["loss"] == 8


def test_a_backbone_that_takes_no_excerpts_is_refused() -> None:
    backbone = InfiniSST(encoder=EncoderConfig(), decoder={}, template=LEAN, tokenizer="none")
    with pytest.raises(ZooError, match="cannot train InfiniSST: it takes no excerpts"):
        Offline().prepare([TALK], backbone)
