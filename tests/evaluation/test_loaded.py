"""A comparison has the weights of one network in memory at a time."""

import gc
import weakref

from torch import nn

from zoo.config import build, compose
from zoo.evaluation.loaded import LoadedSystems
from zoo.systems.system import System


def test_equal_networks_are_shared_and_others_are_freed() -> None:
    loaded = LoadedSystems(seed=0)

    def load(*overrides: str) -> System:
        cfg = compose("evaluate", overrides)
        return loaded.load(build(cfg.system), cfg)

    first = load("system=streamatt")
    network = first.backbone
    assert load("system=streamatt") is first

    second = load("system=wait_k")
    assert second is not first
    assert second.backbone is network

    parameter = weakref.ref(next(iter(network.parameters())))
    del first, second, network
    other = load()
    gc.collect()
    assert parameter() is None
    assert isinstance(other.backbone, nn.Module)
    assert sum(weight.numel() for weight in other.backbone.parameters()) > 0
