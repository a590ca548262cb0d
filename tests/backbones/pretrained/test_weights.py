"""One file of weights, and weights that checkpoints share."""

import json
import weakref
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from zoo.backbones.base import is_restored
from zoo.backbones.pretrained import share, weights
from zoo.base.errors import ZooError
from zoo.config import build, compose


class Net(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.encoder = nn.Linear(3, 4)
        self.decoder = nn.Linear(4, 2)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Net, Path, Path]:
    """A second network on the first one's encoder, both written, that encoder shared."""
    first, second = Net(0), Net(1)
    second.encoder.load_state_dict(first.encoder.state_dict())
    weights.save_weights(first, tmp_path / "first")
    weights.save_weights(second, tmp_path / "second")
    share.share(tmp_path / "second", "encoder", tmp_path / "first")
    return second, tmp_path / "first", tmp_path / "second"


def test_a_shared_part_is_not_written_twice_and_read_all_the_same(
    pair: tuple[Net, Path, Path],
) -> None:
    net, first, second = pair
    assert (second / weights.WEIGHTS).stat().st_size < (first / weights.WEIGHTS).stat().st_size
    read = Net(2)
    weights.load_weights(read, second)
    assert all(is_restored(parameter) for parameter in read.parameters())
    for name, tensor in net.state_dict().items():
        assert torch.equal(read.state_dict()[name], tensor), name


def test_both_folders_may_move_together(pair: tuple[Net, Path, Path], tmp_path: Path) -> None:
    net, first, second = pair
    (tmp_path / "moved").mkdir()
    for folder in (first, second):
        folder.rename(tmp_path / "moved" / folder.name)
    read = Net(2)
    weights.load_weights(read, tmp_path / "moved" / "second")
    assert torch.equal(read.encoder.weight, net.encoder.weight)


def test_only_what_is_equal_can_be_shared(pair: tuple[Net, Path, Path], tmp_path: Path) -> None:
    _, first, _ = pair
    weights.save_weights(Net(5), tmp_path / "other")
    before = (tmp_path / "other" / weights.WEIGHTS).read_bytes()
    for part in ("encoder", "ear"):
        with pytest.raises(ZooError, match=f"do not have the same '{part}'"):
            share.share(tmp_path / "other", part, first)
    assert (tmp_path / "other" / weights.WEIGHTS).read_bytes() == before


def test_one_tensor_is_read_at_a_time(
    pair: tuple[Net, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    net, _, second = pair
    read_tensor, alive = weights.read_tensor, weakref.WeakSet[Tensor]()

    def read_and_count(path: Path, name: str) -> Tensor:
        assert len(alive) <= 1  # the tensor before
        tensor = read_tensor(path, name)
        alive.add(tensor)
        return tensor

    monkeypatch.setattr(weights, "read_tensor", read_and_count)
    read = Net(2).double()
    before = [parameter.data_ptr() for parameter in read.parameters()]
    weights.load_weights(read, second)
    assert [parameter.data_ptr() for parameter in read.parameters()] == before
    assert torch.equal(read.decoder.weight, net.decoder.weight.double())


def test_networks_without_initial_values_draw_no_random_numbers(
    pair: tuple[Net, Path, Path],
) -> None:
    net, _, second = pair
    torch.manual_seed(2)
    before = torch.get_rng_state()
    with weights.without_initial_values():
        read = nn.ModuleDict({"encoder": nn.Linear(3, 4), "decoder": nn.Linear(4, 2)})
    assert torch.equal(torch.get_rng_state(), before)
    weights.load_weights(read, second)
    assert torch.equal(read["decoder"].weight, net.decoder.weight)
    with weights.without_initial_values(skipped=False):
        nn.Linear(3, 4)
    assert not torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("backbone", "system"),
    [
        ("offline_minitalks", "streamatt"),
        ("infinisst_minitalks", "infinisst"),
        ("lst_minitalks", "streamatt"),
    ],
)
def test_a_trained_network_is_created_without_initial_values(backbone: str, system: str) -> None:
    trained = build(compose("evaluate", [f"system={system}", f"backbone={backbone}"]).backbone)
    before = torch.get_rng_state()
    trained.load()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(tensor.isfinite().all() for tensor in trained.state_dict().values())


def test_a_weight_of_another_shape_is_an_error(pair: tuple[Net, Path, Path]) -> None:
    net = Net(2)
    net.decoder = nn.Linear(4, 3)
    with pytest.raises(ZooError, match=r"decoder\.bias has shape \[2\], the network needs \[3\]"):
        weights.load_weights(net, pair[1])


def test_a_removed_folder_is_an_error(pair: tuple[Net, Path, Path]) -> None:
    _, first, second = pair
    (first / weights.WEIGHTS).unlink()
    with pytest.raises(
        ZooError, match=r"first/model\.safetensors is missing, damaged or no safetensors file"
    ):
        weights.load_weights(Net(2), second)


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"encoder": 1})])
def test_a_damaged_list_is_refused(pair: tuple[Net, Path, Path], text: str) -> None:
    _, _, second = pair
    (second / weights.SHARED).write_text(text)
    with pytest.raises(ZooError, match="must name a folder per part"):
        weights.load_weights(Net(2), second)
