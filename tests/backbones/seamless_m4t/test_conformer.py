"""The faster conformer modules compute what those of Transformers compute."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import SeamlessM4TConfig
from transformers.models.seamless_m4t.modeling_seamless_m4t import SeamlessM4TSpeechEncoder

from zoo.backbones.seamless_m4t.conformer import FastAttention, FastConvolution, speed_up
from zoo.base.machine import weight_layout as layout
from zoo.base.machine.weight_layout import arrange_linear

WIDTH = 16


@pytest.fixture(scope="module")
def theirs() -> Any:
    """A conformer whose parameters and statistics are all random."""
    config = SeamlessM4TConfig(
        hidden_size=WIDTH,
        speech_encoder_layers=2,
        speech_encoder_attention_heads=2,
        speech_encoder_intermediate_size=32,
        conv_depthwise_kernel_size=5,
    )
    torch.manual_seed(0)
    encoder = SeamlessM4TSpeechEncoder(config).double().eval()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    for layer in encoder.encoder.layers:
        layer.conv_module.batch_norm.running_mean.normal_()
        layer.conv_module.batch_norm.running_var.uniform_(0.5, 2)
    return encoder.encoder


@pytest.fixture
def ours(theirs: Any) -> Any:
    """The same conformer with the faster modules."""
    encoder = copy.deepcopy(theirs)
    speed_up(encoder)
    return encoder


def frames(count: int, rows: int = 1) -> Tensor:
    """Random hidden states."""
    generator = torch.Generator().manual_seed(count)
    return torch.randn(rows, count, WIDTH, dtype=torch.float64, generator=generator)


def test_the_modules_are_replaced_and_keep_their_names(theirs: Any, ours: Any) -> None:
    """Checkpoints do not change."""
    assert type(ours.layers[0].self_attn) is FastAttention
    assert type(ours.layers[0].conv_module) is FastConvolution
    assert list(ours.state_dict()) == list(theirs.state_dict())


@torch.inference_mode()
def test_any_length_in_any_order(theirs: Any, ours: Any) -> None:
    """Projected positions of a long call serve shorter calls."""
    for count in (7, 12, 3, 12, 130, 1, 64):
        torch.testing.assert_close(ours(frames(count, rows=2)), theirs(frames(count, rows=2)))


@torch.no_grad()
def test_pointwise_convolutions_are_packed(
    theirs: Any, ours: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "LEAST_ELEMENTS", 1)
    ours.float()
    arrange_linear(ours)
    packed = ours.layers[0].conv_module.pointwise_conv1.packed
    inputs = frames(9).float()
    assert packed.applies(inputs)
    expected = copy.deepcopy(theirs).float()(inputs)
    torch.testing.assert_close(ours(inputs), expected, rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_changed_weights_are_projected_anew(theirs: Any, ours: Any) -> None:
    """A development evaluation sees the weights of its step."""
    ours(frames(6))
    changed = copy.deepcopy(theirs)
    for encoder in (ours, changed):
        for layer in encoder.layers:
            layer.self_attn.linear_pos.weight.mul_(-1)
    torch.testing.assert_close(ours(frames(6)), changed(frames(6)))


def test_padded_batches_and_gradients_are_those_of_transformers(theirs: Any, ours: Any) -> None:
    """They take the path of Transformers."""
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    with torch.inference_mode():
        padded = [encoder(frames(5, rows=2), attention_mask=mask) for encoder in (ours, theirs)]
    torch.testing.assert_close(padded[0], padded[1], rtol=0, atol=0)
    trained = [encoder(frames(5)) for encoder in (ours, theirs)]
    torch.testing.assert_close(trained[0], trained[1], rtol=0, atol=0)
