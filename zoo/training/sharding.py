"""Backbones whose weights are sharded over ranks, and plain copies with all the weights.

A rank with a part of the weights cannot run the network alone. ``Gathered`` is a copy of the
backbone without hooks of a strategy, which receives the gathered weights for an evaluation during
the training and for the export after it.
"""

import copy
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import torch
from lightning.pytorch.strategies import ParallelStrategy, Strategy
from torch import Tensor, nn

from zoo.backbones.base import Backbone
from zoo.systems.base import StreamingSystem

# Free memory that an evaluation needs, in sizes of the weights: the weights, and the caches and
# activations of its streams.
NEEDED = 1.25
GB = 1e9

logger = logging.getLogger(__name__)


class Gathered:
    """A copy of a backbone, without weights until they are gathered.

    Args:
        backbone: The backbone before its weights are sharded.

    Attributes:
        backbone: The copy.
        bytes: Size of the weights in bytes.
    """

    def __init__(self, backbone: Backbone) -> None:
        self.bytes = sum(
            parameter.numel() * parameter.element_size() for parameter in backbone.parameters()
        )
        empty = {
            id(parameter): nn.Parameter(parameter.new_empty(0), requires_grad=False)
            for parameter in backbone.parameters()
        }
        self.backbone: Backbone = copy.deepcopy(backbone, dict(empty))

    def fill(
        self, sharded: Backbone, strategy: "ShardedStrategy", device: torch.device, *, keep: bool
    ) -> None:
        """Gather the weights, one parameter at a time. All ranks call this method together.

        Args:
            sharded: The backbone that is trained.
            strategy: Strategy that has sharded it.
            device: Device of the copy.
            keep: Whether this rank keeps the weights.
        """
        pairs = zip(self.backbone.parameters(), sharded.parameters(), strict=True)
        for parameter, shard in pairs:
            whole = strategy.gather(shard)
            if keep:
                parameter.data = whole.to(device, copy=True)
        if keep:
            for buffer, trained in zip(self.backbone.buffers(), sharded.buffers(), strict=True):
                buffer.data = trained.to(device, copy=True)

    def clear(self) -> None:
        """Free the weights."""
        for parameter in self.backbone.parameters():
            parameter.data = parameter.new_empty(0)


class ShardedStrategy(ParallelStrategy, ABC):
    """Strategy of Lightning that shards the weights.

    Only FSDP2 does. The class is here because ``zoo.training.fsdp2`` imports this module.

    Attributes:
        gathered: Copy of the backbone for gathered weights. None before the weights are sharded.
        warned: Whether a warning has stated that the gathered weights do not fit.
    """

    gathered: Gathered | None = None
    warned = False

    @abstractmethod
    def gather(self, parameter: Tensor) -> Tensor:
        """Return the whole parameter on each rank. All ranks call this method together."""

    @abstractmethod
    def whole(self, module: nn.Module) -> AbstractContextManager[object]:
        """Gather the parameters of a part of the system that is no layer, in place.

        All ranks enter and leave together.
        """


@contextmanager
def whole_backbone(strategy: Strategy, system: StreamingSystem) -> Iterator[bool]:
    """Let every rank use a backbone with all weights. All ranks enter and leave together.

    Memory that the searches of the ``with`` block have left is free afterwards.

    Args:
        strategy: Strategy of the training.
        system: System that is trained.

    Yields:
        Whether the system has all weights. If the strategy shards them and they do not fit into the
        free memory of every rank, the system is unchanged and a warning states the sizes.
    """
    if not isinstance(strategy, ShardedStrategy) or strategy.gathered is None:
        try:
            yield True
        finally:
            system.backbone.release()
        return

    gathered, device, sharded = strategy.gathered, strategy.root_device, system.backbone
    needed, free = NEEDED * gathered.bytes, free_memory(device)
    if device.type == "cpu":
        free /= len(strategy.parallel_devices or ())  # each rank of this machine needs its own copy
    free = float(strategy.reduce(torch.tensor(free, device=device), reduce_op="min"))
    if needed > free:
        if strategy.is_global_zero and not strategy.warned:
            strategy.warned = True
            logger.warning(
                "no evaluation: it needs %.1f GB for all weights on each device, and %.1f GB are "
                "free on one of them; checkpoints are not ranked",
                needed / GB,
                free / GB,
            )
        yield False
        return

    gathered.fill(sharded, strategy, device, keep=True)
    system.backbone = gathered.backbone
    try:
        yield True
    finally:
        gathered.backbone.release()
        gathered.clear()
        system.backbone = sharded


def whole_parameters(strategy: Strategy, module: nn.Module) -> AbstractContextManager[object]:
    """Gather the parameters of an objective in place. All ranks enter and leave together.

    Args:
        strategy: Strategy of the training.
        module: The objective.
    """
    if not isinstance(strategy, ShardedStrategy) or strategy.gathered is None:
        return nullcontext()
    return strategy.whole(module)


def gather_for_export(strategy: Strategy, system: StreamingSystem) -> None:
    """Replace a sharded backbone, after the training, by a copy with all weights in main memory.

    Only rank 0 has the weights. All ranks call this function together.

    Args:
        strategy: Strategy of the training.
        system: System that was trained.
    """
    if isinstance(strategy, ShardedStrategy) and strategy.gathered is not None:
        gathered = strategy.gathered
        gathered.fill(system.backbone, strategy, torch.device("cpu"), keep=strategy.is_global_zero)
        system.backbone = gathered.backbone


def free_memory(device: torch.device) -> float:
    """Return the free memory of a device in bytes, with what PyTorch holds in reserve."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * float(line.split()[1])
    return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
