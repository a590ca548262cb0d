"""Lightning strategy for DeepSpeed ZeRO (Rajbhandari et al., 2020), on GPUs and on CPU processes.

CPU processes are meant for tests. DeepSpeed is imported only when a strategy is used. Parameters
keep their data type. Each process stores one part of the float32 copies and of the optimizer
states. Stage 3, which also divides the weights, is not offered: ``zoo.training.fsdp2`` does that.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.strategies import DeepSpeedStrategy, ParallelStrategy
from lightning.pytorch.utilities.enums import GradClipAlgorithmType

from zoo.base.disk.files import replace_folder
from zoo.base.errors import ZooError
from zoo.training.contents import RESTORED

STATES = "*_optim_states.pt"  # optimizer state files of a checkpoint; each process writes one file
FROZEN = "frozen_param_fragments"  # entry of a model file: parameters that have no optimizer state


class ZeRO(DeepSpeedStrategy):
    """DeepSpeed strategy for ZeRO stage 2 with resumable checkpoints.

    Optimizer states and gradients are partitioned among the processes. Mixed precision uses
    autocast, as in a training without ZeRO.

    Args:
        offload: Whether the float32 copies and the optimizer states are stored in main memory.

    Raises:
        ZooError: DeepSpeed is not installed.
    """

    def __init__(self, *, offload: bool = False) -> None:
        if find_spec("deepspeed") is None:
            raise ZooError("strategy=deepspeed_... needs DeepSpeed: pip install -e .[deepspeed].")
        super().__init__(stage=2, offload_optimizer=offload, logging_batch_size_per_gpu=1)
        assert isinstance(self.config, dict)
        # with offload DeepSpeed would require its own optimizer; the training uses PyTorch's AdamW
        self.config["zero_force_ds_cpu_optimizer"] = False

    @property
    def root_device(self) -> torch.device:
        """Device of this process, with an index also on CPU, as DeepSpeed requires."""
        device = super().root_device
        return torch.device("cpu", 0) if device.type == "cpu" else device

    def check(self, trainer: Trainer) -> None:
        """Check the device and the clipping of gradients.

        Raises:
            ZooError: DeepSpeed has selected another accelerator than the training, or gradients are
                clipped by value.
        """
        from deepspeed.accelerator import get_accelerator

        accelerator = get_accelerator().device_name()
        if accelerator != self.root_device.type:
            raise ZooError(
                f"strategy=deepspeed_...: DeepSpeed works on {accelerator} here, not on "
                f"{self.root_device.type}; set DS_ACCELERATOR={self.root_device.type} in the "
                "environment, or choose strategy=fsdp2."
            )
        if trainer.gradient_clip_algorithm == GradClipAlgorithmType.VALUE:
            raise ZooError(
                "strategy=deepspeed_... clips gradients by norm only; set "
                "trainer.gradient_clip_algorithm=norm, or choose strategy=fsdp2."
            )

    def setup_environment(self) -> None:
        """Initialise the communication between processes."""
        import deepspeed.ops

        if self.root_device.type == "cpu":
            assert self.parallel_devices is not None
            # compiling DeepSpeed's operations takes a minute, and gloo needs no such operation
            deepspeed.ops.__compatible_ops__ = {}
            self.parallel_devices = [
                torch.device("cpu", index) for index in range(len(self.parallel_devices))
            ]
            # DeepSpeedStrategy.setup_environment refuses all devices except CUDA devices
            super(DeepSpeedStrategy, self).setup_environment()
        else:
            super().setup_environment()

    @contextmanager
    def model_sharded_context(self) -> Iterator[None]:
        """Create modules without ``deepspeed.zero.Init``, which stage 3 alone needs."""
        yield

    def _format_config(self) -> None:
        """Replace half-precision weights of ``bf16-mixed`` by autocast to bfloat16."""
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
        """Write a checkpoint folder, or one file if the checkpoint has no optimizer states.

        A folder of the same name is replaced only after the new folder is complete.
        """
        if "optimizer_states" not in checkpoint:
            ParallelStrategy.save_checkpoint(self, checkpoint, filepath, storage_options)
            return
        path = Path(self.broadcast(filepath))
        new = path.with_name(f"{path.name}.new")
        if self.is_global_zero:
            shutil.rmtree(new, ignore_errors=True)
        self.barrier()
        engine, left_out = self.deepspeed_engine, checkpoint[RESTORED]
        # DeepSpeed saves these beside the state dict.
        frozen = engine._get_zero_frozen_param_attributes
        engine._get_zero_frozen_param_attributes = lambda attribute_of: {
            name: value for name, value in frozen(attribute_of).items() if name not in left_out
        }
        super().save_checkpoint(checkpoint, new, storage_options)
        engine._get_zero_frozen_param_attributes = frozen
        if self.is_global_zero:
            replace_folder(new, path)
        self.barrier()

    def load_checkpoint(
        self, checkpoint_path: str | Path, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Load a checkpoint folder of ``save_checkpoint``.

        Raises ZooError if the number of processes that wrote the checkpoint is not the world size.
        """
        num_writers = len(list(Path(checkpoint_path).rglob(STATES)))
        if num_writers != self.world_size:
            raise ZooError(
                f"{checkpoint_path} was written by {num_writers} processes; "
                f"resume it with {num_writers} processes, not {self.world_size}."
            )
        engine = self.deepspeed_engine

        def read_completed(path: str | Path, map_location: Any = "cpu") -> Any:
            content = read(path, map_location)
            if content.get(FROZEN) is not None:
                left_out = engine._get_zero_frozen_param_attributes(engine._get_param_fragment_func)
                content[FROZEN] = {**left_out, **content[FROZEN]}
            return content

        engine.checkpoint_engine.load = read_completed
        return super().load_checkpoint(checkpoint_path, weights_only)


def read(path: str | Path, map_location: Any = "cpu") -> Any:
    """Read one file of a DeepSpeed checkpoint without running code from the file.

    DeepSpeed's own reader unpickles arbitrary objects. This function accepts tensors, plain values
    and three classes of DeepSpeed.

    Args:
        path: File to read.
        map_location: Device of the tensors.

    Raises:
        pickle.UnpicklingError: The file is damaged or contains another class.
        RuntimeError: The file is damaged.
        EOFError: The file is incomplete.
        OSError: The file cannot be read.
    """
    from deepspeed.runtime.fp16.loss_scaler import LossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    with torch.serialization.safe_globals([LossScaler, ZeroStageEnum, fragment_address]):
        return torch.load(path, map_location=map_location, weights_only=True, mmap=True)


def check_resumable(checkpoint: Path, strategy: object) -> None:
    """Check that a checkpoint and the Trainer's strategy have the same format.

    Args:
        checkpoint: Folder (written with ``ZeRO``) or file (written with any other strategy).
        strategy: Strategy of the Trainer that resumes the checkpoint.

    Raises:
        ZooError: The checkpoint is a folder and the strategy is not ``ZeRO``, or the reverse.
    """
    if checkpoint.is_dir() != isinstance(strategy, ZeRO):
        writer = "strategy=deepspeed_stage_2"
        if not checkpoint.is_dir():
            writer = "another strategy than strategy=deepspeed_..."
        raise ZooError(f"{checkpoint} was written with {writer}; resume it with the same strategy.")
