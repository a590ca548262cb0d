"""Lightning strategy for DDP that searches for unused parameters only where there may be some."""

import gc
from collections.abc import Callable
from typing import Any

from lightning.pytorch.strategies import DDPStrategy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from zoo.systems.base import StreamingSystem


class DDP(DDPStrategy):
    """Data parallelism in which each rank has all weights.

    A stage may leave trainable parameters without gradients, and the ranks then search the graph of
    every step for them. If all stages train the same parameters by the same objective, and the
    first step has a gradient for each of them, the ranks stop to search.
    """

    def __init__(self) -> None:
        super().__init__(find_unused_parameters=True)
        self._is_undecided = True  # whether no step has been taken

    def optimizer_step(
        self, optimizer: Optimizer, closure: Callable[[], Any], model: Any = None, **kwargs: Any
    ) -> Any:
        """Update the weights; after the first step, stop to search if nothing is unused."""
        result = super().optimizer_step(optimizer, closure, model, **kwargs)
        if self._ddp_kwargs["find_unused_parameters"] and self._is_undecided:
            self._is_undecided = False
            if self._uses_all(optimizer):
                self._wrap_again()
        return result

    def _uses_all(self, optimizer: Optimizer) -> bool:
        """Return whether all trainable parameters have gradients in this and all further steps."""
        system = self.lightning_module
        assert isinstance(system, StreamingSystem)
        assert system.training_plan is not None
        return system.training_plan.is_uniform and all(
            parameter.grad is not None
            for group in optimizer.param_groups
            for parameter in group["params"]
        )

    def _wrap_again(self) -> None:
        """Replace the wrapper of the system by one that does not search."""
        assert isinstance(self.model, DistributedDataParallel)
        self._ddp_kwargs["find_unused_parameters"] = False
        self.model = self.model.module
        # Free the old wrapper, which refers to itself and has buckets of the size of the weights.
        gc.collect()
        self.configure_ddp()
