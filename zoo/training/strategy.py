"""ZeRO by DeepSpeed, on GPUs and, for tests, on CPU processes. Imports DeepSpeed only when one is made.

Knows no model: parameters keep the dtype they have, each process keeps a share of float32 copies and of the optimizer.
"""

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.pytorch.strategies import DeepSpeedStrategy

from zoo.errors import ZooError

STATES = "*_optim_states.pt"  # files of a checkpoint, one per process


class ZeRO(DeepSpeedStrategy):
    """ZeRO stage 1 (optimizer states are shared out) or 2 (gradients, too).

    offload: the float32 copies and the optimizer live in main memory. Mixed precision is autocast, as without ZeRO.
    Raises ZooError where DeepSpeed is not installed.
    """

    def __init__(self, *, stage: Literal[1, 2] = 2, offload: bool = False) -> None:
        if find_spec("deepspeed") is None:
            raise ZooError("strategy=deepspeed_... needs DeepSpeed: pip install -e .[deepspeed].")
        super().__init__(stage=stage, offload_optimizer=offload, logging_batch_size_per_gpu=1)
        assert isinstance(self.config, dict)
        self.config["zero_force_ds_cpu_optimizer"] = (
            False  # ours is PyTorch's, also when it is offloaded
        )

    @property
    def root_device(self) -> torch.device:
        """With an index even on CPU: DeepSpeed asks for one."""
        device = super().root_device
        return torch.device("cpu", 0) if device.type == "cpu" else device

    def setup_environment(self) -> None:
        """Join the other processes. Raises ZooError where DeepSpeed has chosen another device than this training."""
        import deepspeed.ops
        from deepspeed.accelerator import get_accelerator

        if (chosen := get_accelerator().device_name()) != self.root_device.type:
            raise ZooError(
                f"DeepSpeed works on {chosen} here, not on {self.root_device.type}; "
                f"set DS_ACCELERATOR={self.root_device.type} in the environment."
            )
        if self.root_device.type == "cpu":
            assert self.parallel_devices is not None
            deepspeed.ops.__compatible_ops__ = {}  # gloo does without what would be compiled for a minute
            self.parallel_devices = [
                torch.device("cpu", index) for index in range(len(self.parallel_devices))
            ]
            super(
                DeepSpeedStrategy, self
            ).setup_environment()  # Lightning's refuses whatever is not CUDA
        else:
            super().setup_environment()

    def _format_config(self) -> None:
        """Autocast instead of weights in half precision; gradients are summed as they are."""
        assert isinstance(self.config, dict)
        if self.precision_plugin.precision == "bf16-mixed":
            self.config["torch_autocast"] = {
                "enabled": True,
                "dtype": "bfloat16",
                "lower_precision_safe_modules": [],
            }
            self.config["bf16"] = {"enabled": False}
        super()._format_config()

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: str | Path, storage_options: Any = None
    ) -> None:
        """Write a folder, which takes the place of an earlier one only when all of it is there."""
        path = Path(self.broadcast(filepath))
        new, old = path.with_name(f"{path.name}.new"), path.with_name(f"{path.name}.old")
        if self.is_global_zero:
            shutil.rmtree(new, ignore_errors=True)
        self.barrier()
        super().save_checkpoint(checkpoint, new, storage_options)
        if self.is_global_zero:
            shutil.rmtree(old, ignore_errors=True)
            if path.exists():
                path.rename(old)
            new.rename(path)
            shutil.rmtree(old, ignore_errors=True)
        self.barrier()

    def load_checkpoint(
        self, checkpoint_path: str | Path, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """What ``save_checkpoint`` wrote. Raises ZooError where it was written by another number of processes."""
        found = len(list(Path(checkpoint_path).rglob(STATES)))
        if found != self.world_size:
            raise ZooError(
                f"{checkpoint_path} was written by {found} processes; resume it with as many, not {self.world_size}."
            )
        self.deepspeed_engine.checkpoint_engine.load = read
        return super().load_checkpoint(checkpoint_path, weights_only)


def read(path: str | Path, map_location: Any = "cpu") -> Any:
    """One file of a checkpoint. DeepSpeed would run whatever code is in it; this refuses all but its plain values.

    Raises pickle.UnpicklingError, RuntimeError, EOFError or OSError for a damaged one.
    """
    from deepspeed.runtime.fp16.loss_scaler import LossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    with torch.serialization.safe_globals([LossScaler, ZeroStageEnum, fragment_address]):
        return torch.load(path, map_location=map_location, weights_only=True, mmap=True)


def check_resumable(checkpoint: Path, strategy: object) -> None:
    """Raise ZooError where ``checkpoint`` was written under a strategy unlike the one a Trainer is given."""
    sharded = checkpoint.is_dir()
    if sharded != isinstance(strategy, ZeRO):
        before = (
            "strategy=deepspeed_..." if sharded else "another strategy than strategy=deepspeed_..."
        )
        raise ZooError(f"{checkpoint} was written with {before}; resume it with the same.")
