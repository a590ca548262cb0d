"""Linear layers with weights of 8 bits."""

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from zoo.base.errors import ZooError
from zoo.base.machine import int8
from zoo.base.machine.int8 import FEW_ROWS, Int8Linear, Int8Weight, quantise
from zoo.base.machine.weight_layout import arrange_linear, join_linear

ROUNDING = 2.0**-6  # twice that of a number in bfloat16, which both forms of a product round to
KEY = "backbone.decoder_weights"


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def both(*layers: nn.Linear) -> tuple[list[nn.Linear], list[nn.Linear]]:
    """The layers, and copies of them with int8 weights."""
    others = copy.deepcopy(list(layers))
    quantise(others)
    return list(layers), others


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def test_weights_are_the_nearest_of_255_multiples_of_a_scale() -> None:
    weight = torch.randn(7, 32)
    weight[3] = 0
    rounded = Int8Weight.from_float(weight)
    scales = rounded.scales.float()[:, None]
    assert rounded.rows.dtype == torch.int8
    assert rounded.rows.abs().max() == 127
    assert not rounded.rows[3].any()
    # the largest value of a row may lie beyond 127 scales, because scales are rounded, too
    assert bool(((rounded.rows * scales - weight).abs() <= 1.1 * scales / 2 + 1e-9).all())


def test_blocks_of_a_weight_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, inputs = torch.randn(7, 32), torch.randn(FEW_ROWS + 1, 32)
    whole = Int8Weight.from_float(weight)
    expected = whole.product(inputs, None)
    monkeypatch.setattr(int8, "BLOCK_ELEMENTS", 3 * 32)
    blocks = Int8Weight.from_float(weight)
    assert torch.equal(blocks.rows, whole.rows)
    assert torch.equal(blocks.scales, whole.scales)
    torch.testing.assert_close(blocks.product(inputs, None), expected, rtol=ROUNDING, atol=0.05)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1,), (4,), (2, 3), (2, 30), (3, 0)])
def test_products_are_close_to_those_of_the_weight(
    shape: tuple[int, ...], bias: bool, dtype: torch.dtype
) -> None:
    (layer,), (quantised,) = both(nn.Linear(64, 10, bias=bias, dtype=dtype))
    inputs = torch.randn(*shape, 64, dtype=dtype)
    found = quantised(inputs)
    assert found.dtype == dtype
    assert found.shape == (*shape, 10)
    if inputs.numel():
        error = relative_error(found.double(), layer(inputs).double())
        assert 0 < error < 0.05
    columns = torch.randn(64, 6, dtype=dtype).T  # not contiguous
    assert relative_error(quantised(columns).double(), layer(columns).double()) < 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_few_and_many_rows_agree(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """On CPUs with and without arithmetic in bfloat16."""
    monkeypatch.setattr(int8, "_dtype_of_products", lambda: dtype)
    _, (layer,) = both(nn.Linear(128, 48))
    inputs = torch.randn(3 * FEW_ROWS, 128)
    many = layer(inputs)
    for few in (1, 3, FEW_ROWS):
        torch.testing.assert_close(
            layer(inputs[:few]), many[:few], rtol=ROUNDING, atol=ROUNDING / 4
        )


def test_a_row_does_not_depend_on_the_others() -> None:
    """A stream decodes the same tokens in a batch as alone."""
    _, (layer,) = both(nn.Linear(128, 48))
    inputs = torch.randn(FEW_ROWS, 128)
    together = layer(inputs)
    for row in range(FEW_ROWS):
        assert torch.equal(layer(inputs[row : row + 1])[0], together[row])


@pytest.mark.parametrize("rows", [1, FEW_ROWS + 1])
def test_layers_are_joined(rows: int) -> None:
    """The integers are moved, and there is no second copy."""
    _, layers = both(nn.Linear(32, 16), nn.Linear(32, 8, bias=False), nn.Linear(32, 16))
    inputs = torch.randn(rows, 32)
    expected = torch.cat([layer(inputs) for layer in layers], dim=-1)
    for _ in range(2):
        product = join_linear(layers)
        torch.testing.assert_close(product(inputs), expected, rtol=ROUNDING, atol=0.02)
        apart = torch.cat([layer(inputs) for layer in layers], dim=-1)
        assert torch.equal(apart, expected)
    assert len({layer.weight.untyped_storage().data_ptr() for layer in layers}) == 1


def test_other_layers_keep_their_weights() -> None:
    """Rows that PyTorch's product would read beyond their end, other modules, tied tables."""
    narrow, table, head = nn.Linear(24, 8), nn.Embedding(8, 32), nn.Linear(32, 8, bias=False)
    head.weight = table.weight
    before = table.weight.clone()
    quantise([narrow, table, head, head])
    arrange_linear(nn.ModuleList([narrow, table, head]))
    assert type(narrow) is nn.Linear
    assert type(head) is Int8Linear
    assert torch.equal(table.weight, before)


def test_integers_are_parameters_that_no_training_updates() -> None:
    """Sizes count them; a conversion of the network keeps them."""
    _, (layer,) = both(nn.Linear(32, 16))
    assert {str(one.dtype) for one in layer.parameters()} == {"torch.int8", "torch.float32"}
    assert not layer.weight.requires_grad
    assert layer.bfloat16().weight.dtype == torch.int8


def test_integers_are_not_saved() -> None:
    _, layers = both(nn.Linear(32, 16))
    with pytest.raises(ZooError, match=rf"^The weights of 0.weight .* load .*{KEY}=dtype"):
        nn.ModuleList(layers).state_dict()


def test_other_devices_are_refused() -> None:
    with pytest.raises(ZooError, match=rf"^{KEY}=int8 is for a CPU, not for meta; set device=cpu"):
        quantise([nn.Linear(32, 16, device="meta")])


def test_a_pytorch_without_the_product_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "_weight_int8pack_mm")
    with pytest.raises(ZooError, match=rf"^{KEY}=int8: PyTorch .* has no product .* set {KEY}=dt"):
        quantise([nn.Linear(32, 16)])
