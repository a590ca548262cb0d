"""A comparison has the weights of one network in memory at a time."""

import gc
import weakref

from torch import nn

from zoo.config import compose
from zoo.evaluation.loaded import LoadedSystems


def test_equal_networks_are_shared_and_others_are_freed() -> None:
    loaded = LoadedSystems(seed=0)
    first = loaded.load(compose("evaluate", ["system=streamatt"]))
    network = first.backbone
    assert loaded.load(compose("evaluate", ["system=streamatt"])) is first

    second = loaded.load(compose("evaluate", ["system=wait_k"]))
    assert second is not first
    assert second.backbone is network

    parameter = weakref.ref(next(iter(network.parameters())))
    del first, second, network
    other = loaded.load(compose("evaluate", []))
    gc.collect()
    assert parameter() is None
    assert isinstance(other.backbone, nn.Module)
    assert sum(weight.numel() for weight in other.backbone.parameters()) > 0
