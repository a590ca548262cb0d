"""Estimates of a training: memory per device, tokens, arithmetic; from shapes, without weights."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from zoo.backbones.base import is_restored, without_weights
from zoo.backbones.objective import Objective
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.base.types import Seconds
from zoo.data.sampling import Example
from zoo.data.views import usable_parts
from zoo.systems.base import StreamingSystem
from zoo.systems.lightning.trainer import count_ranks
from zoo.training.batches import schedules
from zoo.training.curriculum import Stage
from zoo.training.fsdp2 import repeated_layers
from zoo.training.muon import mark_tables
from zoo.training.optimizer import ADAMW, OptimizerFactory, create_optimizer
from zoo.training.precision import widen
from zoo.training.preparation import make_samplers
from zoo.training.schedule import Schedule
from zoo.training.settings import TrainingSettings
from zoo.training.shapes import META, AsOnGPU, ShapesOnly, backward, by_shape

SEARCHED = 200  # number of first steps in which the largest batch is searched
COUNTED = 8  # number of steps whose tokens are counted
MASTER = 4  # bytes of a float32 copy of a trained number
HALF = 2  # bytes of a number in bfloat16
UNDIVIDED = ("single", "ddp")  # methods with which each device has all gradients
BUCKETS = 2 * 10**8  # numbers in each of the two buckets of ZeRO-2, as in Lightning's strategy


@dataclass(frozen=True, slots=True)
class Distribution:
    """How a training is distributed over devices.

    Attributes:
        devices: Number of devices, over all nodes.
        accumulated: Number of batches per device and step.
        precision: Lightning's name of the precision, such as ``bf16-mixed``.
        method: ``single``, ``ddp``, ``fsdp2`` or ``zero2``.
        offload: Whether optimizer states, and sharded weights, are in main memory.
        nodes: Number of machines.
    """

    devices: int = 1
    accumulated: int = 1
    precision: str = "32-true"
    method: str = "single"
    offload: bool = False
    nodes: int = 1

    @property
    def batches_per_step(self) -> int:
        """Number of batches per step."""
        return self.devices * self.accumulated


@dataclass(frozen=True, slots=True)
class MemoryParts:
    """Memory of one device in bytes, and the main memory that one device occupies.

    Attributes:
        weights: Weights.
        gradients: Gradients at the end of a step.
        optimizer: States of the optimizer, such as the two moments of AdamW, and the float32
            copies of the weights under ZeRO.
        other: What the peak has besides these: activations, gathered weights, buffers.
        main: Main memory of what is offloaded.
    """

    weights: int
    gradients: int
    optimizer: int
    other: int
    main: int = 0

    @property
    def total(self) -> int:
        """Peak of the memory of the device."""
        return self.weights + self.gradients + self.optimizer + self.other


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Main memory of the first machine in bytes, without programs and audio, and size on disk.

    Attributes:
        loading: Peak while its ranks load the weights, before they are moved or sharded.
        steps: What its ranks keep during the steps: all that is offloaded.
        saving: Peak while a checkpoint is written: ``steps`` and the whole checkpoint.
        checkpoint: Size of the file of a checkpoint.
    """

    loading: int
    steps: int
    saving: int
    checkpoint: int


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """Estimate of one stage.

    Attributes:
        stage: Name of the stage.
        steps: Number of optimizer steps.
        tokens: Mean number of tokens with a loss in a step, over all devices.
        seconds: Mean duration of the audio of a step, over all devices.
        operations: Mean number of floating-point operations of a step, over all devices.
        memory: Memory of one device at the step with the largest batch.
        host: Main memory of a machine.
    """

    stage: str
    steps: int
    tokens: float
    seconds: Seconds
    operations: float
    memory: MemoryParts
    host: HostMemory


def estimate(
    system: StreamingSystem,
    talks: Sequence[Talk],
    settings: TrainingSettings,
    distribution: Distribution,
    *,
    optimizer: OptimizerFactory = ADAMW,
    seed: int = 0,
) -> Iterator[StageEstimate]:
    """Estimate the stages of a training one after the other.

    The system has no weights afterwards. Talks are not encoded before a stage with encoded audio:
    its estimate has the encoder, without gradients.

    Args:
        system: System to train, not loaded.
        talks: Training talks.
        settings: Settings of the training.
        distribution: Devices and strategy.
        optimizer: Creates the optimizer.
        seed: Seed of the examples.

    Raises:
        ZooError: The talks or the backbone lack data or parts that a stage needs, or a step of a
            stage needs the values of its activations, as a CTC loss does.
    """
    talks = usable_parts(talks)
    samplers = make_samplers(system, talks, settings)
    settings = settings.counted(samplers, batches=distribution.batches_per_step, seed=seed)
    by_stage = schedules(
        samplers, settings.curriculum, seed=seed, batches=distribution.batches_per_step
    )
    shapes = ShapesOnly()
    with shapes:
        with without_weights():
            system.load()
        loaded = _bytes(system.backbone.parameters())
        system.to(META)
        if distribution.precision == "bf16-true":
            system.to(torch.bfloat16)
        trained = set(_trained(system, settings))
        if distribution.method != "zero2":
            widen(trained)
        system.train()
    run = _Run(system, distribution, shapes, optimizer, loaded=loaded, trained=trained)
    mark_tables(system)
    for stage in settings.stages():
        objective = settings.objectives[stage.objective]
        try:
            with shapes, without_weights():
                objective.prepare(talks, system.backbone, [samplers[stage.name]])
            stage_estimate = run.stage(stage, objective, by_stage[stage.name])
        except (NotImplementedError, RuntimeError) as error:
            reason = str(error).splitlines()[0].split(". ")[0].rstrip(".")
            raise ZooError(
                f"Stage {stage.name!r} cannot be estimated, because a step needs the values of its "
                f"activations ({reason}); estimate=true serves stages of language models that "
                "receive speech."
            ) from error
        yield stage_estimate


def _trained(system: StreamingSystem, settings: TrainingSettings) -> Iterator[nn.Parameter]:
    """Yield the parameters of the backbone that the stages train."""
    for stage in settings.stages():
        system.backbone.trainable(stage.trains)
        yield from (p for p in system.backbone.parameters() if p.requires_grad)


class _Run:
    """Runs the training step of each stage by shape.

    Args:
        system: System without weights.
        distribution: Devices and strategy.
        shapes: The mode that counts the memory.
        optimizer: Creates the optimizer.
        loaded: Bytes of the weights as they are loaded.
        trained: Parameters that any stage trains.
    """

    def __init__(
        self,
        system: StreamingSystem,
        distribution: Distribution,
        shapes: ShapesOnly,
        optimizer: OptimizerFactory,
        *,
        loaded: int,
        trained: Collection[nn.Parameter],
    ) -> None:
        self._system = system
        self._distribution = distribution
        self._shapes = shapes
        self._optimizer = optimizer
        self._loaded = loaded
        self._trained = trained
        self._states: dict[nn.Parameter, int] = {}  # bytes of the optimizer's states so far

    def stage(self, stage: Stage, objective: Objective, schedule: Schedule) -> StageEstimate:
        """Estimate a stage."""
        backbone = self._system.backbone
        backbone.trainable(stage.trains)
        objective.requires_grad_(True)
        trained = [p for p in (*backbone.parameters(), *objective.parameters()) if p.requires_grad]
        self._states |= self._optimizer_states(trained)

        steps = range(min(stage.steps, SEARCHED))
        largest = max((schedule.examples(step, 0) for step in steps), key=_padded_seconds)
        peak, operations = self._measure(objective, largest, trained)
        batches = self._distribution.batches_per_step
        some = steps[:: max(1, len(steps) // COUNTED)]
        counted = [schedule.examples(step, step % batches) for step in some]
        sizes = [
            (objective.tokens(self._batch(objective, examples)), _seconds(examples))
            for examples in counted
        ]
        tokens, seconds = (sum(column) / len(sizes) for column in zip(*sizes, strict=True))
        memory = self._memory(trained, peak)
        return StageEstimate(
            stage=stage.name,
            steps=stage.steps,
            tokens=batches * tokens,
            seconds=batches * seconds,
            operations=batches * operations * seconds / _seconds(largest),
            memory=memory,
            host=self._host(objective, memory),
        )

    def _measure(
        self, objective: Objective, examples: Sequence[Example], trained: Sequence[nn.Parameter]
    ) -> tuple[int, int]:
        """Run a step of one device.

        Returns:
            Bytes above the weights at the peak of a step. Where gradients are divided, no gradient
            is kept and no weight updated: these are the bytes of the activations.
            Floating-point operations of one batch.
        """
        memory = self._shapes.memory
        divided = self._distribution.method not in UNDIVIDED
        batch = self._batch(objective, examples)
        half = self._distribution.precision == "bf16-mixed"
        optimizer = create_optimizer(self._optimizer, [{"params": trained}])
        with self._shapes, AsOnGPU(half=half), META:
            before = memory.now - _batch_bytes(batch)
            dropped = trained if divided else ()
            hooks = [p.register_post_accumulate_grad_hook(_drop_gradient) for p in dropped]
            memory.restart()
            with FlopCounterMode(display=False) as counter:
                backward(objective.losses(self._system.backbone, batch)["loss"])
            for hook in hooks:
                hook.remove()

            if not divided:  # the second step has the optimizer states from its start
                optimizer.step()
                optimizer.zero_grad()
                memory.restart()
                backward(objective.losses(self._system.backbone, batch)["loss"])
                optimizer.step()
            peak = memory.peak - before
            optimizer.zero_grad()
        return peak, counter.get_total_flops()

    def _optimizer_states(self, trained: Sequence[nn.Parameter]) -> dict[nn.Parameter, int]:
        """Return the bytes of the states that the optimizer keeps of each parameter."""
        optimizer = create_optimizer(self._optimizer, [{"params": trained}])
        with self._shapes, AsOnGPU(half=False), META:
            for parameter in trained:
                parameter.grad = torch.empty_like(parameter)
            optimizer.step()
            optimizer.zero_grad()
        return {
            parameter: sum(
                value.nbytes
                for name, value in optimizer.state[parameter].items()
                if isinstance(value, Tensor) and name != "step"  # "step" is a count in main memory
            )
            for parameter in trained
        }

    def _batch(self, objective: Objective, examples: Sequence[Example]) -> Any:
        """Collate examples; features of audio are computed by shape."""
        with self._shapes, AsOnGPU(half=False), META:
            return apply_to_collection(objective.batch(examples), Tensor, by_shape)

    def _memory(self, trained: Sequence[nn.Parameter], peak: int) -> MemoryParts:
        """Return the memory of one device.

        Args:
            trained: Parameters that the stage trains.
            peak: Bytes above the weights at the peak of a step on one device; see ``_measure``.
        """
        method, devices = self._distribution.method, self._distribution.devices
        weights, gradients = _bytes(self._system.backbone.parameters()), _bytes(trained)
        moments = sum(self._states.values())
        if method in UNDIVIDED:
            earlier = moments - sum(self._states[p] for p in trained)
            buckets = gradients if method == "ddp" else 0
            other = peak - gradients - (moments - earlier) + buckets
            return MemoryParts(weights, gradients, moments, max(0, other))

        if method == "fsdp2":
            gathered = self._gathered()
            main = weights + gradients + moments if self._distribution.offload else 0
            return _shared(
                MemoryParts(weights, gradients, moments, peak + gathered),
                devices,
                offloaded=("weights", "gradients", "optimizer") if main else (),
            )
        return self._zero(trained, peak, moments)

    def _host(self, objective: Objective, memory: MemoryParts) -> HostMemory:
        """Return the main memory of the first machine and the size of a checkpoint.

        Args:
            objective: Objective of the stage, whose heads a checkpoint has as well.
            memory: Memory of one device.
        """
        setup = self._distribution
        ranks = setup.devices // setup.nodes
        backbone = self._system.backbone
        saved = [p for p in backbone.parameters() if p in self._trained or not is_restored(p)]
        checkpoint = _bytes(saved) + _bytes(objective.parameters()) + sum(self._states.values())
        if setup.method == "zero2":  # the file has the float32 copies beside the weights
            checkpoint += MASTER * sum(p.numel() for p in self._trained)
        one = self._loaded
        if setup.method == "fsdp2":  # trained weights become float32 layer by layer
            one += max((_bytes(x.parameters()) for x in repeated_layers(self._system)), default=0)
        elif setup.method in UNDIVIDED:
            one = _bytes(backbone.parameters())
        steps = ranks * memory.main
        return HostMemory(ranks * one, steps, steps + checkpoint, checkpoint)

    def _zero(self, trained: Sequence[nn.Parameter], activations: int, moments: int) -> MemoryParts:
        """Return the memory of one device under ZeRO-2, which keeps float32 copies of weights."""
        devices, offload = self._distribution.devices, self._distribution.offload
        parameters = list(self._system.backbone.parameters())
        weights, gradients = _bytes(parameters), _bytes(trained)
        states = moments + MASTER * sum(p.numel() for p in trained)
        share = min(1.0, BUCKETS / sum(p.numel() for p in trained))
        shared = _shared(
            MemoryParts(0, gradients, states, activations + int(2 * share * gradients)),
            devices,
            offloaded=("optimizer",) if offload else (),
        )
        return replace(shared, weights=weights)

    def _gathered(self) -> int:
        """Return the bytes of the weights and gradients that FSDP2 has gathered at the peak.

        These are two layers, because the next one is gathered early, and all weights outside the
        layers, with the gradients of one layer and of the weights outside.
        """
        half = self._distribution.precision == "bf16-mixed"
        layers = list(repeated_layers(self._system))
        inside = {parameter for layer in layers for parameter in layer.parameters()}
        outside = [p for p in self._system.parameters() if p not in inside]
        largest = max((_bytes(layer.parameters(), half=half) for layer in layers), default=0)
        trained = _bytes(p for p in outside if p.requires_grad)
        return 3 * largest + _bytes(outside) + trained


def _shared(memory: MemoryParts, devices: int, *, offloaded: Sequence[str]) -> MemoryParts:
    """Divide weights, gradients and optimizer states among devices; move some to main memory."""
    shares = {
        name: -(-getattr(memory, name) // devices) for name in ("weights", "gradients", "optimizer")
    }
    main = sum(shares[name] for name in offloaded)
    return MemoryParts(**{**shares, **dict.fromkeys(offloaded, 0)}, other=memory.other, main=main)


def _batch_bytes(batch: Any) -> int:
    """Return the size of the tensors of a batch that are on the meta device."""
    sizes: list[int] = []

    def add(one: Tensor) -> Tensor:
        sizes.append(one.nbytes if one.is_meta else 0)
        return one

    apply_to_collection(batch, Tensor, add)
    return sum(sizes)


def _drop_gradient(parameter: Tensor) -> None:
    parameter.grad = None


def _bytes(parameters: Any, *, half: bool = False) -> int:
    """Return the size of parameters, or of their copies in bfloat16."""
    return sum(p.numel() * (HALF if half else p.element_size()) for p in parameters)


def _seconds(examples: Sequence[Example]) -> Seconds:
    return sum(example.seconds for example in examples)


def _padded_seconds(examples: Sequence[Example]) -> Seconds:
    return len(examples) * max(example.seconds for example in examples)


def distribution(options: Mapping[str, Any], *, precision: str) -> Distribution:
    """Return the distribution that arguments of the Trainer describe; no strategy is created.

    Args:
        options: Plain configuration of the Trainer.
        precision: Lightning's name of the precision.
    """
    count = count_ranks(options)
    strategy = options.get("strategy", "auto")
    if isinstance(strategy, Mapping):
        sharded = str(strategy["_target_"]).endswith("FSDP2")
        method = "fsdp2" if sharded else "zero2"
    else:
        method = "single" if count == 1 else "ddp"
    return Distribution(
        devices=count,
        nodes=int(options.get("num_nodes", 1)),
        accumulated=int(options.get("accumulate_grad_batches", 1)),
        precision=precision,
        method=method,
        offload=isinstance(strategy, Mapping) and bool(strategy.get("offload", False)),
    )
