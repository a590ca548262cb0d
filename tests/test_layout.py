"""Layout of linear weights."""

import torch
from torch import nn

from zoo.layout import arrange_linear


def test_weights_are_stored_by_column_with_the_same_values() -> None:
    """Also a tied weight, which stays tied."""
    head, table = nn.Linear(8, 5), nn.Embedding(5, 8)
    head.weight = table.weight
    inputs = torch.randn(3, 8)
    values, outputs = head.weight.detach().clone(), head(inputs)
    arrange_linear(nn.ModuleList([head, table]))
    assert head.weight.stride() == (1, 5)
    assert table.weight is head.weight
    torch.testing.assert_close(head.weight.detach(), values, rtol=0, atol=0)
    torch.testing.assert_close(head(inputs), outputs)


def test_arranging_again_changes_nothing() -> None:
    """Systems share backbones; each arranges."""
    layer = nn.Linear(8, 5)
    arrange_linear(layer)
    address = layer.weight.data_ptr()
    arrange_linear(layer)
    assert layer.weight.data_ptr() == address


def test_a_weight_arranged_in_inference_mode_can_be_trained() -> None:
    """A stream may be opened in inference mode."""
    layer = nn.Linear(8, 5)
    with torch.inference_mode():
        arrange_linear(layer)
    layer(torch.randn(3, 8)).sum().backward()
    assert layer.weight.grad is not None


def test_other_types_are_unchanged() -> None:
    """Only float32 was measured."""
    layer = nn.Linear(8, 5, dtype=torch.float64)
    arrange_linear(layer)
    assert layer.weight.is_contiguous()
