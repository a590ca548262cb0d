"""Adapters by hand-computed numbers, and against peft's own merging."""

import copy

import pytest
import torch
from torch import Tensor, nn

from zoo.backbones.pretrained.lora import LoraConfig, added, inject, is_adapter, merged, parameters
from zoo.base.errors import ZooError

TARGETS = r"text\.\d+\.proj"


class Network(nn.Module):
    """Two layers of a text part, and an audio part whose layer has the same last name."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.ModuleDict({"proj": nn.Linear(3, 3, bias=bias)}) for bias in (False, True)]
        self.text = nn.ModuleList(layers)
        self.audio = nn.ModuleDict({"proj": nn.Linear(3, 3)})

    def forward(self, hidden: Tensor) -> Tensor:
        for layer in [*self.text, self.audio]:
            hidden = layer["proj"](hidden).tanh()
        return hidden


@pytest.fixture
def adapted() -> Network:
    """With a random adapter."""
    torch.manual_seed(0)
    network = Network().double()
    inject(network, LoraConfig(rank=2, alpha=6, dropout=0.0), TARGETS)
    with torch.no_grad():
        for parameter in parameters(network):
            parameter.normal_()
    return network


def test_product_of_both_halves_is_added_scaled() -> None:
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    first, second = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]])
    assert LoraConfig(rank=2, alpha=1).scaling == 0.5
    assert added(weight, first, second, 0.5).tolist() == [[2.5, 3.0], [2.0, 5.0]]
    half = added(weight.bfloat16(), first.bfloat16(), second.bfloat16(), 0.5)
    assert half.dtype == torch.bfloat16
    assert half.tolist() == [[2.5, 3.0], [2.0, 5.0]]


def test_only_layers_whose_whole_path_matches_are_adapted(adapted: Network) -> None:
    names = [name for name, _ in adapted.named_parameters() if is_adapter(name)]
    assert len(names) == len(list(parameters(adapted))) == 4
    assert all(name.startswith("text.") for name in names)


def test_merged_weights_load_without_an_adapter_and_give_the_same_scores(adapted: Network) -> None:
    hidden = torch.randn(5, 3, dtype=torch.float64)
    plain = Network().double()
    plain.load_state_dict(merged(adapted.state_dict(), 3.0))
    torch.testing.assert_close(plain(hidden), adapted(hidden))
    peft_merged = copy.deepcopy(adapted)
    for layer in peft_merged.text:
        layer["proj"].merge()
    torch.testing.assert_close(
        plain.text[0]["proj"].weight, peft_merged.text[0]["proj"].get_base_layer().weight
    )


def test_without_scaling_the_base_weights_come_back(adapted: Network) -> None:
    assert merged(adapted.state_dict(), 0.0)["text.1.proj.weight"].equal(
        adapted.text[1]["proj"].base_layer.weight
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [({"rank": 0}, "rank"), ({"dropout": 1.0}, "dropout"), ({"save": "both"}, "merged, adapter")],
)
def test_errors_are_one_sentence(options: dict[str, object], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        LoraConfig(**options)  # type: ignore[arg-type]


def test_targets_that_no_layer_has_are_refused() -> None:
    with pytest.raises(ZooError, match="no such layer"):
        inject(Network(), LoraConfig(), r"text\.\d+\.gone")
