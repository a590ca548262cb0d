"""Callback that measures a training: tokens and audio per second, waiting, gradients, memory."""

import logging
import resource
import time
from typing import Any

import lightning
import torch
from lightning.fabric.utilities.throughput import get_available_flops
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from zoo.base.errors import check_numbers
from zoo.base.types import Seconds
from zoo.training.batches import StepLoader, TrainingBatch

GIBIBYTE = 2**30

logger = logging.getLogger(__name__)


class Throughput(Callback):
    """Logs the throughput of a training as ``throughput/<name>``, and prints it at the end.

    - ``tokens_per_second`` and ``audio_seconds_per_second``: over all ranks. Tokens are the
      positions that have a loss.
    - ``step_seconds``: duration of an optimizer step, with waiting and without evaluations and
      checkpoints.
    - ``data_wait_share``: share of the step in which this rank waits for batches, 0 to 1.
    - ``gradient_norm``: Euclidean norm of all gradients before clipping.
    - ``peak_memory_gib``: peak memory of the GPU, or of the process on a CPU.
    - ``mfu``: share of the peak arithmetic of the GPU, 0 to 1, only on GPUs. The operations of one
      batch per stage are counted, those that activation checkpointing repeats included.

    Args:
        every_steps: Number of optimizer steps between two measurements.
        peak_operations: Peak arithmetic of the GPU in floating-point operations per second. None
            takes the value that Lightning knows, if it knows the GPU.
    """

    def __init__(self, every_steps: int = 20, peak_operations: float | None = None) -> None:
        check_numbers("Throughput", least=1, every_steps=every_steps)
        self.every_steps = every_steps
        self.peak_operations = peak_operations
        self.latest: dict[str, float] = {}
        self._gradient_norm: float | None = None
        self._counter: FlopCounterMode | None = None
        self._operations: dict[str, float] = {}  # operations per second of audio, by stage
        self._start: Seconds = 0.0
        self._reset(waited=0.0)

    def _reset(self, *, waited: Seconds) -> None:
        """Begin a measurement. ``waited`` is the waiting time until now."""
        self._waited = waited
        self._busy: Seconds = 0.0
        self._tokens = 0
        self._audio: Seconds = 0.0
        self._steps = 0

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Begin the first measurement."""
        self._reset(waited=_waited(trainer))

    def on_train_batch_start(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Start the clock of a batch, and count the operations of the first batch of a stage."""
        counts = pl_module.device.type == "cuda" and isinstance(batch, TrainingBatch)
        if counts and trainer.global_step and batch.stage not in self._operations:
            self._counter = FlopCounterMode(display=False)
            self._counter.__enter__()
        self._start = time.perf_counter()

    def on_before_optimizer_step(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, optimizer: Any
    ) -> None:
        """Measure the gradients of the steps that are logged."""
        if (trainer.global_step + 1) % self.every_steps == 0:
            self._gradient_norm = gradient_norm(pl_module)

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Add a batch to the measurement, and log the measurement after ``every_steps`` steps."""
        if not isinstance(batch, TrainingBatch):
            return
        ends_step = (batch_idx + 1) % trainer.accumulate_grad_batches == 0
        is_logged = ends_step and trainer.global_step % self.every_steps == 0
        if is_logged and pl_module.device.type == "cuda":
            torch.cuda.synchronize(pl_module.device)
        self._busy += time.perf_counter() - self._start
        if self._counter is not None:
            self._counter.__exit__(None, None, None)
            operations = self._counter.get_total_flops()
            self._operations[batch.stage] = operations / max(batch.seconds, 1e-9)
            self._counter = None
        self._tokens += batch.tokens
        self._audio += batch.seconds
        self._steps += ends_step
        if is_logged:
            self._log(trainer, pl_module, batch.stage)

    def _log(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, stage: str
    ) -> None:
        """Compute and log the measurement of a stage, and begin the next one."""
        waited = _waited(trainer) - self._waited
        duration = self._busy + waited
        rank_sums = torch.tensor([float(self._tokens), self._audio], device=module.device)
        total = trainer.strategy.reduce(rank_sums, reduce_op="sum")
        assert isinstance(total, Tensor)
        tokens, audio = total.tolist()
        values = {
            "tokens_per_second": tokens / duration,
            "audio_seconds_per_second": audio / duration,
            "step_seconds": duration / self._steps,
            "data_wait_share": waited / duration,
            "peak_memory_gib": peak_memory(module.device) / GIBIBYTE,
        }
        if self._gradient_norm is None and hasattr(trainer.strategy, "deepspeed_engine"):
            self._gradient_norm = trainer.strategy.deepspeed_engine.get_global_grad_norm()
        if self._gradient_norm is not None:
            values["gradient_norm"] = self._gradient_norm
        operations = self._operations.get(stage)
        peak = self.peak_operations
        if operations and peak is None:
            peak = available_operations(trainer, module)
        if operations and peak:
            values["mfu"] = operations * self._audio / duration / peak

        self.latest = values
        logged = {f"throughput/{name}": value for name, value in values.items()}
        for experiment_logger in trainer.loggers:
            experiment_logger.log_metrics(logged, step=trainer.global_step)
        module.log("tokens/s", values["tokens_per_second"], prog_bar=True, logger=False)
        self._gradient_norm = None
        self._reset(waited=_waited(trainer))

    def on_train_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Print the last measurement."""
        if self.latest and trainer.is_global_zero:
            logger.info("throughput of the last steps: %s", summary(self.latest))


def summary(values: dict[str, float]) -> str:
    """Return a measurement of ``Throughput`` as one line."""
    texts = [
        f"{values['tokens_per_second']:,.0f} tokens/s",
        f"{values['audio_seconds_per_second']:,.1f} s of audio/s",
        f"{values['step_seconds']:.3f} s per step",
        f"{values['data_wait_share']:.0%} waiting for data",
        f"peak memory {values['peak_memory_gib']:.1f} GiB",
    ]
    if "mfu" in values:
        texts.append(f"MFU {values['mfu']:.1%}")
    return ", ".join(texts)


def gradient_norm(module: torch.nn.Module) -> float | None:
    """Return the Euclidean norm of all gradients. None without gradients, as under ZeRO."""
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    if not gradients:
        return None
    norm = torch.nn.utils.get_total_norm(gradients)
    full = getattr(norm, "full_tensor", None)  # sharded gradients have this method
    return float(full() if full else norm)


def peak_memory(device: torch.device) -> int:
    """Return the peak memory in bytes of a GPU, or of this process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def available_operations(
    trainer: lightning.Trainer, module: lightning.LightningModule
) -> int | None:
    """Return the peak operations per second of the GPU in the precision of the training."""
    is_half = any(name in str(trainer.precision) for name in ("bf16", "16"))
    return get_available_flops(module.device, torch.bfloat16 if is_half else torch.float32)


def _waited(trainer: lightning.Trainer) -> Seconds:
    """Return the seconds in which the training has waited for batches."""
    loader = trainer.train_dataloader
    return loader.waited if isinstance(loader, StepLoader) else 0.0
