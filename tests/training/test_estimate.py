"""Estimates of a training from shapes, against the memory that training steps take."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from tests.fixtures.llama import write_llama_8b
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.config import Config, build, compose, plain
from zoo.training.batches import schedules
from zoo.training.estimate import (
    Distribution,
    HostMemory,
    MemoryParts,
    StageEstimate,
    distribution,
    estimate,
)
from zoo.training.estimate_job import durations
from zoo.training.optimizer import ADAMW
from zoo.training.preparation import make_samplers
from zoo.training.recipe import build_training
from zoo.training.settings import TrainingSettings

SHIPPED = Path(__file__).parents[2] / "checkpoints" / "infinisst_minitalks_en-de"
STAGES = "training.curriculum.stages."
OVERRIDES = (
    "experiment=infinisst_minitalks",
    "training.train_talks=2",
    f"backbone.tokenizer={SHIPPED}",
    f"{STAGES}recognition.steps=4",
    f"{STAGES}translation.steps=0",
    f"{STAGES}long_segments.steps=4",
    f"{STAGES}recognition.batch_seconds=40",
    f"{STAGES}long_segments.batch_seconds=30",
)


def configuration(*overrides: str) -> tuple[Config, Sequence[Talk], TrainingSettings]:
    cfg = compose("train", [*OVERRIDES, *overrides])
    settings: TrainingSettings = build(cfg.training)
    return cfg, build(cfg.data).talks("train", limit=2), settings


@cache
def estimates(
    given: Distribution, *overrides: str
) -> tuple[Sequence[StageEstimate], Sequence[Talk]]:
    cfg, talks, settings = configuration(*overrides)
    return list(estimate(build(cfg.system), talks, settings, given)), talks


def measured(*overrides: str) -> dict[str, float]:
    """Return the bytes at the peak of the second step of each stage, measured by the profiler."""
    cfg, talks, settings = configuration(*overrides)
    system = build(cfg.system)
    system.load()
    system.train()
    backbone = system.backbone
    samplers = make_samplers(system, talks, settings)
    by_stage = schedules(samplers, settings.curriculum, seed=0, batches=1)
    peaks = {}
    before = 0  # states of the optimizer that earlier stages have left
    for stage in settings.stages():
        objective = settings.objectives[stage.objective]
        objective.prepare(talks, backbone, [samplers[stage.name]])
        backbone.trainable(stage.trains)
        examples: Any = max(
            (by_stage[stage.name].examples(step, 0) for step in range(stage.steps)),
            key=lambda given: len(given) * max(one.seconds for one in given),
        )
        batch = objective.batch(examples)
        trained = [p for p in (*backbone.parameters(), *objective.parameters()) if p.requires_grad]
        optimizer = ADAMW(trained)
        objective.losses(backbone, batch)["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            objective.losses(backbone, batch)["loss"].backward()
            optimizer.step()
        size = 4 * sum(p.numel() for p in trained)
        weights = 4 * sum(p.numel() for p in backbone.parameters())
        peaks[stage.name] = peak_of(profiler) + weights + 2 * size + before
        before += 2 * size
    return peaks


def peak_of(profiler: Any) -> int:
    """Return the largest sum of the bytes that a profile allocates and frees."""
    events = [
        event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"
    ]
    now = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


@pytest.mark.parametrize("recomputed", [False, True])
def test_the_estimated_memory_is_that_of_training_steps(recomputed: bool) -> None:
    overrides = ["backbone.gradient_checkpointing=true"] * recomputed
    found, _ = estimates(Distribution(), *overrides)
    peaks = measured(*overrides)
    assert [stage.stage for stage in found] == ["recognition", "long_segments"]
    for stage in found:
        assert stage.memory.total == pytest.approx(peaks[stage.stage], rel=0.15), stage.stage


def test_recomputed_activations_are_not_kept_in_mixed_precision() -> None:
    (kept, _), _ = estimates(Distribution(precision="bf16-mixed"))
    (recomputed, _), _ = estimates(
        Distribution(precision="bf16-mixed"), "backbone.gradient_checkpointing=true"
    )
    assert recomputed.memory.other < 0.7 * kept.memory.other
    assert recomputed.operations > 1.2 * kept.operations


@pytest.mark.parametrize(
    ("override", "states"),
    [("adamw", 2.0), ("sgd", 1.0), ("sgd optimizer.momentum=0", 0.0), ("muon", 1.0)],
)
def test_the_states_are_those_of_the_optimizer(override: str, states: float) -> None:
    cfg, talks, settings = configuration(*f"optimizer={override}".split())
    _, optimizer = build_training(cfg)
    for method in ("single", "fsdp2"):
        given = Distribution(method=method)
        for stage in estimate(build(cfg.system), talks, settings, given, optimizer=optimizer):
            numbers = stage.memory.gradients / 4
            # of Muon, only embeddings and vectors have two moments
            assert stage.memory.optimizer / 4 / numbers == pytest.approx(
                states, rel=0.4 if override == "muon" else 0
            )
            if stage.stage == "recognition":
                break


def test_work_is_counted_over_all_devices() -> None:
    (one, _), _ = estimates(Distribution())
    (four, _), _ = estimates(Distribution(devices=2, accumulated=2))
    assert one.steps == four.steps == 4
    assert one.seconds < four.seconds <= 4 * 40
    assert four.tokens / four.seconds == pytest.approx(one.tokens / one.seconds, rel=0.3)
    # attention is quadratic in the duration of an example
    per_second = one.operations / one.seconds
    assert per_second / 3 < four.operations / four.seconds < 3 * per_second
    assert one.tokens > 10 * one.seconds  # a label per frame


def test_passes_and_seconds_of_a_step_determine_the_steps() -> None:
    stage = f"{STAGES}long_segments."
    overrides = (f"{STAGES}recognition.steps=0", f"{stage}batch_seconds=null", f"{stage}steps=0")
    (one,), talks = estimates(
        Distribution(devices=2), *overrides, f"{stage}passes=2", f"{stage}step_seconds=60"
    )
    duration = sum(talk.duration for talk in talks)
    assert one.seconds <= 60
    assert duration < one.seconds * one.steps < 4 * duration  # two passes, some stretches overlap


def test_a_network_of_eight_billion_weights_needs_no_weights(tmp_path: Path) -> None:
    """The memory of the language model of the paper, from its config.json alone."""
    write_llama_8b(tmp_path)
    overrides = (
        f"backbone.decoder={tmp_path}",
        f"{STAGES}recognition.steps=0",
        f"{STAGES}long_segments.steps=1",
    )
    (whole,), _ = estimates(Distribution(precision="bf16-mixed"), *overrides)
    (shared,), _ = estimates(
        Distribution(devices=8, precision="bf16-mixed", method="fsdp2"), *overrides
    )
    numbers = 8.03e9
    assert whole.memory.weights == pytest.approx(4 * numbers, rel=0.01)
    assert shared.memory.weights == pytest.approx(4 * numbers / 8, rel=0.01)
    assert shared.memory.gradients == pytest.approx(4 * numbers / 8, rel=0.01)
    assert shared.memory.optimizer == pytest.approx(8 * numbers / 8, rel=0.01)
    assert whole.memory.total > 16 * numbers > 8 * shared.memory.weights
    # at least six operations per weight and position, of which 12 are speech in 0.96 s
    assert whole.operations > 6 * 7.5e9 * 12 * whole.seconds / 0.96


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Distribution()),
        ({"devices": 2, "num_nodes": 4}, Distribution(devices=8, method="ddp", nodes=4)),
        ({"devices": [0, 1]}, Distribution(devices=2, method="ddp")),
        (
            {"devices": 8, "strategy": {"_target_": "zoo.training.fsdp2.FSDP2"}},
            Distribution(devices=8, method="fsdp2"),
        ),
        (
            {"strategy": {"_target_": "zoo.training.strategy.ZeRO", "offload": True}},
            Distribution(method="zero2", offload=True),
        ),
        (
            {"accumulate_grad_batches": 3, "strategy": {"_target_": "zoo.training.strategy.ZeRO"}},
            Distribution(accumulated=3, method="zero2"),
        ),
    ],
)
def test_the_distribution_is_that_of_the_trainer(
    options: dict[str, Any], expected: Distribution
) -> None:
    assert distribution(options, precision="32-true") == expected


def test_zero_divides_gradients_and_optimizer_states() -> None:
    half: dict[str, Any] = {"precision": "bf16-mixed", "method": "zero2"}
    one, four, offloaded = (
        estimates(Distribution(**half, **options), f"{STAGES}recognition.steps=0")[0][0].memory
        for options in ({"devices": 1}, {"devices": 4}, {"devices": 4, "offload": True})
    )
    assert four.weights == one.weights
    assert four.gradients == pytest.approx(one.gradients / 4, rel=0.01)
    assert four.optimizer == pytest.approx(one.optimizer / 4, rel=0.01)
    assert (offloaded.optimizer, offloaded.main) == (0, four.optimizer)


def test_the_duration_is_printed_for_gpus() -> None:
    memory = MemoryParts(weights=1, gradients=1, optimizer=1, other=1)
    stage = StageEstimate(
        "all", 3600, 10.0, 10.0, 0.4 * 312e12 * 16, memory, HostMemory(1, 1, 2, 1)
    )
    text = durations([stage], Distribution(devices=8, precision="bf16-mixed"))
    assert "of 8 GPUs" in text
    assert "2.0 h on A100" in text
    assert "4.0 h on A100" in durations([stage], Distribution(devices=8))


def test_plain_configurations_are_enough() -> None:
    cfg = compose("train", ["strategy=fsdp2_offload", "trainer.devices=8"])
    found = distribution(plain(cfg)["trainer"], precision="bf16-mixed")
    assert found == Distribution(8, 1, "bf16-mixed", "fsdp2", offload=True)
    assert not torch.cuda.is_initialized()


def other(experiment: str, tokenizer: str, stage: str, *rest: str) -> list[StageEstimate]:
    """Return the estimate of a stage of another experiment, without the ``rest`` of its stages."""
    cfg = compose(
        "train",
        [
            f"experiment={experiment}",
            f"backbone.tokenizer={SHIPPED.with_name(tokenizer)}",
            *(f"{STAGES}{name}.steps=0" for name in rest),
            f"{STAGES}{stage}.steps=1",
            f"{STAGES}{stage}.batch_seconds=20",
        ],
    )
    talks = build(cfg.data).talks("train", limit=1)
    return list(estimate(build(cfg.system), talks, build(cfg.training), Distribution()))


@pytest.mark.parametrize("family", ["phi4", "qwen"])
def test_features_of_speech_llms_are_computed_by_shape(family: str) -> None:
    experiment = f"streamuni_{family}_minitalks"
    tokenizer = f"{family}_minitalks_en-de"
    (one,) = other(experiment, tokenizer, "segments", "recognition", "sentences")
    assert one.tokens > one.seconds > 0
    assert one.memory.other > 0


def test_a_step_that_needs_values_is_refused() -> None:
    with pytest.raises(ZooError, match=r"Stage 'sentences' cannot .*_ctc_loss") as error:
        other("offline_minitalks", "offline_minitalks_en-de", "sentences", "short", "long", "alone")
    assert "\n" not in str(error.value)
