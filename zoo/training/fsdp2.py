"""Lightning strategy for FSDP2: weights, gradients and optimizer states are sharded over ranks.

Each layer is gathered when it runs and freed after it. Frozen weights are sharded as well. A
checkpoint is one file, as in a training on one device, so it resumes on any number of devices and
with DDP.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.strategies import ModelParallelStrategy, ParallelStrategy
from torch import Tensor, nn
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from zoo.base.errors import ZooError
from zoo.systems.base import StreamingSystem
from zoo.training.precision import widen
from zoo.training.sharding import Gathered, ShardedStrategy
from zoo.training.writing import BackgroundWriter, read_file

GATHERED = ("state_dict", "optimizer_states")  # entries of a checkpoint that are copies already
OFFLOADED = "cpu:gloo,cuda:nccl"  # gradients in main memory are summed by gloo


class FSDP2(ModelParallelStrategy, ShardedStrategy):
    """Fully sharded data parallelism of PyTorch (``fully_shard``), on GPUs and on CPU processes.

    Args:
        offload: Whether weights, gradients and optimizer states are stored in main memory.
    """

    def __init__(self, *, offload: bool = False) -> None:
        super().__init__(save_distributed_checkpoint=False)
        self.offload = offload
        self._units: list[FSDPModule] = []  # modules whose parameters are gathered together
        self._trained: list[bool] | None = None  # which parameters the last batch trained

    def check(self, trainer: Trainer) -> None:
        """Raise ZooError if ``fully_shard`` does not support the device."""
        device = self.root_device.type
        if device not in ("cuda", "cpu"):
            raise ZooError(
                f"strategy=fsdp2 works with device=cuda and device=cpu, not with {device}; "
                "choose strategy=auto for one device."
            )

    def setup_environment(self) -> None:
        """Initialise the communication; all ranks of the training share the weights."""
        assert self.accelerator is not None
        self._data_parallel_size = self.num_nodes * self.num_processes
        self._tensor_parallel_size = 1
        if self.offload and self.root_device.type == "cuda":
            self._process_group_backend = OFFLOADED
        super().setup_environment()

    def setup(self, trainer: Trainer) -> None:
        """Shard the system before the optimizer is created.

        Raises:
            ZooError: A layer has trained weights of several data types.
        """
        system = self.model
        assert isinstance(system, StreamingSystem)
        self.gathered = Gathered(system.backbone)
        self._shard(system)
        system.configure_model()  # the training plan collects the sharded parameters
        super().setup(trainer)

    def _shard(self, system: StreamingSystem) -> None:
        """Shard the layers one by one, then all other parameters together.

        The latter are gathered once for a step, so their modules may run any number of times.
        Trained weights become float32 layer by layer, so that no rank has all of them in float32.
        """
        options: dict[str, Any] = {
            "mesh": self.device_mesh["data_parallel"],
            "offload_policy": self._offload_policy(),
        }
        half = MixedPrecisionPolicy()
        if self.precision_plugin.precision == "bf16-mixed":
            # Autocast would keep a bfloat16 copy of each gathered weight until the backward pass.
            half = MixedPrecisionPolicy(
                param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
            )
        groups = system.backbone.parts()
        uneven = {parameter for name in system.backbone.uneven_parts for parameter in groups[name]}
        for layer in repeated_layers(system):
            if not uneven.isdisjoint(layer.parameters()):
                continue
            check_dtypes(layer)
            widen(trained_parameters(layer))
            self._units.append(fully_shard(layer, **options, mp_policy=half))
        check_dtypes(system)
        widen(trained_parameters(system))
        self._units.append(fully_shard(system, **options))

    def _offload_policy(self) -> OffloadPolicy:
        if not self.offload:
            return OffloadPolicy()
        return CPUOffloadPolicy(pin_memory=self.root_device.type == "cuda")

    def model_to_device(self) -> None:
        """Leave all parameters where ``fully_shard`` has put them."""

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """Run the step as the forward pass of the sharded system, which gathers the weights."""
        assert self.model is not None
        assert self.lightning_module is not None
        self._update_gradient_types()
        with self.precision_plugin.train_step_context():
            return self._forward_redirection(
                self.model, self.lightning_module, "training_step", *args, **kwargs
            )

    def _update_gradient_types(self) -> None:
        """Let each unit read the data type of its gradients again after parameters were unfrozen.

        A unit reads it from its trained parameters, when it is gathered outside of a step. One
        whose parameters were frozen at the first step has none, and would leave gradients of
        float32 weights in the bfloat16 of the step.
        """
        assert self.model is not None
        trained = [parameter.requires_grad for parameter in self.model.parameters()]
        if self._trained is not None and trained != self._trained:
            for unit in self._units:
                unit.unshard()
                unit.reshard()
        self._trained = trained

    def gather(self, parameter: Tensor) -> Tensor:
        """Return the whole of a sharded tensor. All ranks call this method together.

        It is on the device of the rank also if the shard is in main memory.
        """
        moved = parameter.detach().to(self.root_device)
        assert isinstance(moved, DTensor)
        whole: Tensor = moved.full_tensor()
        return whole

    @contextmanager
    def whole(self, module: nn.Module) -> Iterator[None]:
        """Gather the unit of all parameters outside the layers, which has those of ``module``."""
        assert isinstance(self.model, FSDPModule)
        self.model.unshard()
        yield
        self.model.reshard()

    @property
    def lightning_restore_optimizer(self) -> bool:
        """Whether Lightning passes the optimizer states of a checkpoint to this strategy."""
        return True

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """Gather all weights; rank 0 returns them, all other ranks return an empty dict."""
        assert self.lightning_module is not None
        state = self.lightning_module.state_dict()
        return self._gather_all(state)

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        """Copy this rank's part of the weights of a checkpoint into the system."""
        assert self.lightning_module is not None
        current = self.lightning_module.state_dict()
        state = {
            name: shard_like(value, current[name]) if name in current else value
            for name, value in checkpoint["state_dict"].items()
        }
        self.lightning_module.load_state_dict(state, strict=strict)

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """Gather the optimizer states; rank 0 returns them, all other ranks an empty dict."""
        if isinstance(optimizer, LightningOptimizer):
            optimizer = optimizer.optimizer
        state = optimizer.state_dict()
        gathered = {number: self._gather_all(values) for number, values in state["state"].items()}
        return {**state, "state": gathered} if self.is_global_zero else {}

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Load this rank's part of the optimizer states of a checkpoint."""
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            parameters = [
                parameter for group in optimizer.param_groups for parameter in group["params"]
            ]
            shards = {
                number: {
                    name: shard_like(value, parameters[number]) for name, value in values.items()
                }
                for number, values in state["state"].items()
            }
            optimizer.load_state_dict({**state, "state": shards})

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: str | Path, storage_options: Any = None
    ) -> None:
        """Write the checkpoint of rank 0 to one file; what was gathered is not copied again."""
        if isinstance(self.checkpoint_io, BackgroundWriter):
            storage_options = GATHERED
        ParallelStrategy.save_checkpoint(self, checkpoint, filepath, storage_options)

    def load_checkpoint(
        self, checkpoint_path: str | Path, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Map a checkpoint file into memory; all ranks of a machine share its pages."""
        return read_file(Path(checkpoint_path), mmap=True)

    def _gather_all(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Gather all sharded tensors of a state into the main memory of rank 0, as copies."""
        gathered = {}
        for name, value in values.items():
            if isinstance(value, DTensor):
                value = self.gather(value)
            if self.is_global_zero:
                is_tensor = isinstance(value, Tensor)
                gathered[name] = value.to("cpu", copy=True) if is_tensor else value
        return gathered


def repeated_layers(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the elements of the outermost ``ModuleList`` of a network that have parameters."""
    for child in module.children():
        if isinstance(child, nn.ModuleList):
            yield from (layer for layer in child if any(True for _ in layer.parameters()))
        else:
            yield from repeated_layers(child)


def trained_parameters(module: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the parameters of a module that are trained and not sharded yet."""
    for parameter in module.parameters():
        if parameter.requires_grad and not isinstance(parameter, DTensor):
            yield parameter


def check_dtypes(module: nn.Module) -> None:
    """Check that all trained parameters of a group have the same data type.

    Raises:
        ZooError: They have several data types.
    """
    dtypes = sorted(
        {str(parameter.dtype).removeprefix("torch.") for parameter in trained_parameters(module)}
    )
    if len(dtypes) > 1:
        raise ZooError(
            f"strategy=fsdp2 needs one data type of the trained parameters of each layer, but "
            f"{type(module).__name__} has {' and '.join(dtypes)}; choose "
            "strategy=auto, or set backbone.dtype=float32."
        )


def shard_like(value: Any, parameter: Any) -> Any:
    """Return this rank's part of a whole tensor, sharded as ``parameter`` is.

    A value that is no tensor of the shape of ``parameter`` is returned unchanged.
    """
    if not isinstance(parameter, DTensor) or not isinstance(value, Tensor):
        return value
    if value.shape != parameter.shape:
        return value
    return distribute_tensor(
        value.to(parameter.device),
        parameter.device_mesh,
        parameter.placements,
        src_data_rank=None,  # every rank reads the checkpoint itself
    )
