"""Trained weights are float32, or the strategy updates float32 copies of them."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.training import tiny
from zoo.base.errors import ZooError
from zoo.training import strategy
from zoo.training.precision import widen
from zoo.training.trainer import make_trainer

needs_deepspeed = pytest.mark.skipif(
    find_spec("deepspeed") is None, reason="needs pip install -e .[deepspeed]"
)


class Half(tiny.Tiny):
    """The tiny backbone in bfloat16, as published language models are."""

    def load(self) -> None:
        super().load()
        self.to(torch.bfloat16)

    def forward(self, rows: Tensor) -> Tensor:
        bridged = self.bridge(self.encoder(rows.bfloat16()))
        result: Tensor = self.head(bridged.to(self.part_dtype("head")))
        return result.float()


def test_updates_below_the_resolution_of_bfloat16_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tiny, "Tiny", Half)
    tiny.pretrained(tmp_path / "pretrained")
    backbone = tiny.train(tmp_path, steps=2).backbone
    dtypes = {name: backbone.part_dtype(name) for name in ("encoder", "bridge", "head")}
    assert dtypes == {"encoder": torch.bfloat16, "bridge": torch.bfloat16, "head": torch.float32}
    assert isinstance(backbone, tiny.Tiny)
    weight = backbone.head[1].weight
    assert not torch.equal(weight, weight.bfloat16().float())

    resumed = tiny.train(tmp_path, steps=4, resume=True).backbone
    assert resumed.part_dtype("head") == torch.float32


def test_wider_types_are_kept() -> None:
    whole, double = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2).double())
    half = nn.Parameter(torch.ones(2).half())
    widen([whole, double, half])
    assert [parameter.dtype for parameter in (whole, double, half)] == [
        torch.float32,
        torch.float64,
        torch.float32,
    ]


@pytest.mark.parametrize("precision", ["bf16", "16"])
def test_a_precision_that_rounds_trained_weights_is_refused(precision: str) -> None:
    sentence = (
        f"trainer.precision={precision}-true rounds all weights to 16 bits, .*; choose "
        f"trainer.precision={precision}-mixed, or strategy=deepspeed_stage_2"
    )
    with pytest.raises(ZooError, match=sentence):
        make_trainer({"accelerator": "cpu", "precision": f"{precision}-true"})


@needs_deepspeed
def test_zero_may_round_weights_because_it_updates_float32_copies() -> None:
    make_trainer({"accelerator": "cpu", "precision": "bf16-true", "strategy": strategy.ZeRO()})
