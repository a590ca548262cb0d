"""Layout of linear weights."""

import copy
import pickle
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from zoo.base.machine import weight_layout as layout
from zoo.base.machine.devices import fast_bfloat16
from zoo.base.machine.weight_layout import (
    PackedLinear,
    PackedWeight,
    arrange_linear,
    join_linear,
    side_by_side,
)

packing = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="PyTorch was built without oneDNN"
)


@pytest.fixture
def _small_weights(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Weights of every size are packed."""
    monkeypatch.setattr(layout, "LEAST_ELEMENTS", 1)
    with torch.no_grad():
        yield


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
    """Only float32 and bfloat16 were measured."""
    layer = nn.Linear(8, 5, dtype=torch.float64)
    arrange_linear(layer)
    assert layer.weight.is_contiguous()
    assert type(layer) is nn.Linear


@packing
@pytest.mark.usefixtures("_small_weights")
@pytest.mark.skipif(not fast_bfloat16("cpu"), reason="this CPU has no products of bfloat16")
@pytest.mark.parametrize("shape", [(1,), (4,), (2, 3), (1, 1)])
def test_bfloat16_weights_are_packed_for_any_number_of_frames(shape: tuple[int, ...]) -> None:
    layer = nn.Linear(64, 32, dtype=torch.bfloat16)
    inputs = torch.randn(*shape, 64, dtype=torch.bfloat16)
    exact = inputs.double() @ layer.weight.double().T + layer.bias.double()
    arrange_linear(nn.Sequential(layer))
    assert isinstance(layer, PackedLinear)
    assert layer.packed.applies(inputs)
    assert not layer.packed.applies(inputs.float())
    outputs = layer(inputs)
    assert outputs.dtype == torch.bfloat16
    torch.testing.assert_close(outputs.double(), exact, rtol=0.01, atol=0.01)
    if len(shape) == 1:
        hidden = torch.randn(*shape, 32, dtype=torch.bfloat16)
        total = hidden.double() + exact - layer.bias.double()
        found = layer.packed.added(hidden, inputs).double()
        torch.testing.assert_close(found, total, rtol=0.01, atol=0.02)


@pytest.mark.usefixtures("_small_weights")
def test_bfloat16_is_not_packed_on_a_cpu_without_its_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layout, "fast_bfloat16", lambda device: False)
    layer = nn.Linear(64, 32, dtype=torch.bfloat16)
    arrange_linear(layer)
    assert type(layer) is nn.Linear


def packed_layer(*, bias: bool = True) -> tuple[PackedLinear, Tensor, Tensor]:
    """A packed layer, copies of its weight and its bias."""
    layer = nn.Linear(8, 5, bias=bias)
    arrange_linear(nn.Sequential(layer))
    assert isinstance(layer, PackedLinear)
    offset = layer.bias.detach().clone() if bias else torch.zeros(5)
    return layer, layer.weight.detach().clone(), offset


@packing
@pytest.mark.usefixtures("_small_weights")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1,), (4,), (2, 3), (3, 0), (1, 1)])
def test_packed_products_are_those_of_the_weight(shape: tuple[int, ...], bias: bool) -> None:
    layer, weight, offset = packed_layer(bias=bias)
    inputs = torch.randn(*shape, 8)
    torch.testing.assert_close(layer(inputs), inputs @ weight.T + offset)
    columns = torch.randn(8, 6).T  # not contiguous
    torch.testing.assert_close(layer(columns), columns @ weight.T + offset)


@packing
@pytest.mark.usefixtures("_small_weights")
@pytest.mark.parametrize("rows", [1, 4])
def test_a_sum_is_part_of_the_product_and_changes_nothing_else(rows: int) -> None:
    layer, weight, _ = packed_layer(bias=False)
    inputs, hidden = torch.randn(rows, 8), torch.randn(rows, 5)
    before = hidden.clone()
    torch.testing.assert_close(layer.packed.added(hidden, inputs), before + inputs @ weight.T)
    assert torch.equal(hidden, before)


@packing
@pytest.mark.usefixtures("_small_weights")
def test_a_weight_that_changes_is_used_as_it_is() -> None:
    inputs = torch.randn(4, 8)
    layer, weight, offset = packed_layer()
    layer.weight.mul_(2)
    torch.testing.assert_close(layer(inputs), inputs @ (2 * weight).T + offset)
    layer.weight.data = weight
    torch.testing.assert_close(layer(inputs), inputs @ weight.T + offset)
    assert layer.double()(inputs.double()).dtype == torch.float64


@packing
@pytest.mark.usefixtures("_small_weights")
def test_gradients_and_autocast_use_the_weight() -> None:
    layer, _, _ = packed_layer()
    inputs = torch.randn(4, 8)
    with torch.enable_grad():
        layer(inputs).sum().backward()
    assert layer.weight.grad is not None
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(inputs).dtype == torch.bfloat16


@packing
@pytest.mark.usefixtures("_small_weights")
def test_tied_layers_share_a_copy_and_a_layer_is_packed_once() -> None:
    first, second = nn.Linear(8, 5), nn.Linear(8, 5)
    second.weight = first.weight
    both = nn.ModuleList([first, second])
    arrange_linear(both)
    packed = first.packed
    assert isinstance(packed, PackedWeight)
    assert second.packed is packed
    arrange_linear(both)
    assert first.packed is packed


@packing
@pytest.mark.usefixtures("_small_weights")
def test_copies_and_pickles_have_weights_of_their_own() -> None:
    layer, weight, offset = packed_layer()
    inputs = torch.randn(4, 8)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        other.weight.mul_(3)
        torch.testing.assert_close(other(inputs), inputs @ (3 * weight).T + offset)
    torch.testing.assert_close(layer(inputs), inputs @ weight.T + offset)


@packing
@pytest.mark.usefixtures("_small_weights")
def test_layers_that_were_made_in_inference_mode_stay_as_they_are() -> None:
    """PyTorch does not let their data be exchanged."""
    with torch.inference_mode():
        layer, inputs = nn.Linear(8, 5), torch.randn(4, 8)
        expected = layer(inputs)
        arrange_linear(layer)
        assert torch.equal(layer(inputs), expected)


@packing
@pytest.mark.usefixtures("_small_weights")
def test_a_large_network_gets_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their memory is limited."""
    layers = nn.Sequential(nn.Linear(8, 5, bias=False), nn.Linear(5, 8, bias=False))
    monkeypatch.setattr(layout, "MOST_BYTES", 2 * 8 * 5 * 4 - 1)
    arrange_linear(layers)
    assert {type(layer) for layer in layers} == {nn.Linear}
    monkeypatch.setattr(layout, "MOST_BYTES", 2 * 8 * 5 * 4)
    arrange_linear(layers)
    assert {type(layer) for layer in layers} == {PackedLinear}


def test_parts_of_a_larger_block_are_not_moved() -> None:
    """As DeepSpeed and FSDP keep weights."""
    block = torch.zeros(3 * 4 * 5)
    weights = [nn.Parameter(part.view(4, 5)) for part in block.split(20)]
    swapped = [weights[1], weights[0]]
    places = [weight.data_ptr() for weight in swapped]
    assert side_by_side(weights)
    assert not side_by_side(swapped)
    assert [weight.data_ptr() for weight in swapped] == places


def test_weights_by_column_are_joined() -> None:
    linears = [nn.Linear(5, 4, bias=False), nn.Linear(5, 3, bias=False)]
    values = [linear.weight.detach().clone() for linear in linears]
    for linear in linears:
        arrange_linear(linear)
    inputs = torch.randn(2, 5)
    product = join_linear(linears)
    assert side_by_side([linear.weight for linear in linears])
    assert len({linear.weight.untyped_storage().data_ptr() for linear in linears}) == 1
    assert linears[0].weight.stride() == linears[1].weight.stride() == (1, 7)
    assert all(torch.equal(one.weight, value) for one, value in zip(linears, values, strict=True))
    torch.testing.assert_close(
        product(inputs), torch.cat([linear(inputs) for linear in linears], dim=1)
    )


@pytest.mark.parametrize("biased", [(True, False, True), (False, False, False)])
def test_joined_layers_may_lack_a_bias(biased: tuple[bool, ...]) -> None:
    """Whisper's keys have none."""
    linears = [nn.Linear(5, 4, bias=bias) for bias in biased]
    inputs = torch.randn(2, 3, 5)
    expected = torch.cat([linear(inputs) for linear in linears], dim=-1)
    torch.testing.assert_close(join_linear(linears)(inputs), expected)
