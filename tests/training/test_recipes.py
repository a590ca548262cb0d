"""The paper's recipe of InfiniSST: its numbers, its memory, and both stages one after the other."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import zoo
from tests.fixtures import processes
from tests.fixtures.llama import write_llama_8b
from tests.fixtures.shapes import INFINISST
from tests.fixtures.streams import white_noise
from tests.rehearsal import hub
from zoo.config import build, compose, plain
from zoo.streaming.simulate import Source, simulate
from zoo.training.estimate import distribution, estimate
from zoo.training.schedule import Limits
from zoo.training.settings import TrainingSettings

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "checkpoints" / "infinisst_minitalks_en-de"
SIZES = ("minitalks", "llama8b")
PARTS = {1: ["encoder", "adapter"], 2: ["decoder"]}
BATCHES = 8 * 4  # of an update: GPUs and parts
CHUNK, SEGMENT = (
    22,
    39,
)  # tokens that the released code counts for a chunk, and beside chunks and text
CHUNKS, CHUNK_SECONDS = 30, 0.96
MEMORY = (48 - 2) * 1e9  # bytes of an L40S, less a reserve
MAIN_MEMORY = (256 - 16) * 1e9  # bytes of a machine with eight of them, less programs and audio


def experiment(stage: int, size: str) -> list[str]:
    return [f"experiment=infinisst_paper_stage{stage}", f"size={size}"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stage", [1, 2])
def test_both_sizes_have_the_method_of_the_paper(stage: int, size: str) -> None:
    cfg = compose("train", experiment(stage, size))
    settings: TrainingSettings = build(cfg.training)
    (only,) = settings.curriculum.stages
    assert only.trains == PARTS[stage]
    assert list(only.chunks) == [30]
    assert list(only.multipliers) == list(range(1, 13))
    assert (only.schedule, only.hold) == ("cosine", 0.0)
    assert (cfg.optimizer._target_, list(cfg.optimizer.betas)) == ("torch.optim.Adam", [0.9, 0.999])
    assert cfg.trainer.gradient_clip_val == 1.0

    folder = f"outputs/infinisst_paper/{cfg.size.infinisst}_en-de"
    assert cfg.backbone.checkpoint == (None if stage == 1 else f"{folder}/stage1/export")
    given = distribution(plain(cfg)["trainer"], precision="bf16-mixed")
    assert (given.method, given.offload) == (("single", False) if stage == 1 else ("fsdp2", True))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stage", [1, 2])
def test_the_baseline_has_the_same_stages_on_whole_sentences(stage: int, size: str) -> None:
    baseline = compose("train", [f"experiment=lst_paper_stage{stage}", f"size={size}"])
    own = compose("train", experiment(stage, size))
    (expected,) = build(own.training).curriculum.stages
    (only,) = build(baseline.training).curriculum.stages
    same = ("trains", "passes", "learning_rate", "warmup_steps", "schedule", "step_seconds")
    assert all(getattr(only, name) == getattr(expected, name) for name in same)
    adapters = [cfg.backbone.adapter_norm for cfg in (baseline, own)]
    if stage == 1:  # the second has that of its weights
        assert adapters == [size == "llama8b"] * 2
    sampling = baseline.training.objectives.offline.sampling
    assert (sampling.cut_starts, sampling.cut_ends, sampling.margin) == (0, 0, 0)
    folder = f"outputs/lst_paper/{baseline.size.lst}_en-de"
    assert baseline.backbone.name == (None if stage == 1 else f"{folder}/stage1/export")
    published = compose("evaluate", ["experiment=infinisst_main", "size=published"])
    assert (f"{folder}/stage2/export" == published["size"].weights.lst) == (size == "llama8b")


@pytest.mark.parametrize(
    ("stage", "tokens", "rate", "warmup", "epochs"),
    [(1, 57_600, 2e-4, 1000, 6), (2, 76_800, 7e-6, 100, 1)],
)
def test_the_large_size_has_the_numbers_of_the_paper(
    stage: int, tokens: int, rate: float, warmup: int, epochs: int
) -> None:
    cfg = compose("train", experiment(stage, "llama8b"))
    (only,) = build(cfg.training).curriculum.stages
    segments = tokens // BATCHES // (CHUNK * CHUNKS + SEGMENT)  # text lowers it no further
    limits = Limits(only.step_seconds / BATCHES)
    assert limits.count(CHUNKS * CHUNK_SECONDS) == segments == {1: 2, 2: 3}[stage]
    assert only.factor(warmup - 1) == 1.0
    assert (only.learning_rate, only.warmup_steps, only.passes) == (rate, warmup, epochs)
    assert cfg.backbone.decoder == "meta-llama/Llama-3.1-8B-Instruct"
    assert cfg.backbone.gradient_checkpointing
    assert cfg.backbone.dtype == "bfloat16"  # of the frozen parts


@pytest.mark.parametrize("stage", [1, 2])
def test_eight_gpus_of_48_gb_are_enough(stage: int, tmp_path: Path) -> None:
    write_llama_8b(tmp_path)
    hub.llama(tmp_path / "tokenizer")  # nearly one token per letter: more than Llama's has
    cfg = compose(
        "train",
        [
            *experiment(stage, "llama8b"),
            "trainer.devices=8",
            f"backbone.decoder={tmp_path}",
            f"backbone.tokenizer={tmp_path / 'tokenizer'}",
            "backbone.encoder_weights=null",
            "backbone.checkpoint=null",
        ],
    )
    some = build(cfg.data).talks("train", limit=20)
    talks = [replace(talk, name=f"{talk.name} {copy}") for talk in some for copy in range(10)]
    given = distribution(plain(cfg)["trainer"], precision="bf16-mixed")
    (found,) = estimate(build(cfg.system), talks, build(cfg.training), given)
    frozen = 2 * 8.03e9  # bytes of the language model in bfloat16
    lowest = frozen if stage == 1 else 2 * 2e9  # of stage 2 at least embeddings and outputs
    assert lowest < found.memory.total < MEMORY
    trained = 315e6 if stage == 1 else 8.03e9
    assert found.host.checkpoint == pytest.approx(3 * 4 * trained, rel=0.01)  # with two moments
    assert 8 * frozen < found.host.loading < MAIN_MEMORY
    assert found.host.saving == found.host.steps + found.host.checkpoint < MAIN_MEMORY


TINY = (
    "logger=csv",
    "threads=1",
    "device=cpu",
    "export_dtype=float32",
    "training.log_every_steps=1",
    "training.train_talks=3",
    "training.dev_talks=1",
    "training.evaluate_last=false",
    "training.data_workers=0",
    "trainer.accumulate_grad_batches=2",
    "backbone.gradient_checkpointing=true",
    *INFINISST,
    "backbone.search.tokens_per_chunk=2",
)


def train(folder: Path, stage: int, name: str) -> Path:
    """Take two steps of a stage in ``folder``, and return the export."""
    only = f"training.curriculum.stages.{name}"
    given = [f"{only}.passes=null", f"{only}.steps=2", f"{only}.step_seconds=60"]
    overrides = [*experiment(stage, "minitalks"), *TINY, *given]
    done = processes.run(ROOT / "train.py", *overrides, folder=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / f"outputs/infinisst_paper/infinisst_minitalks_en-de/stage{stage}/export"


def test_the_second_stage_starts_from_the_first_and_its_export_streams(tmp_path: Path) -> None:
    exports = [train(tmp_path, 1, "speech"), train(tmp_path, 2, "translation")]
    first, second = (load_file(export / "model.safetensors") for export in exports)
    changed = {name.split(".")[0] for name in first if not second[name].equal(first[name])}
    assert first.keys() == second.keys()
    assert changed == {"decoder"}

    system = zoo.load(exports[1])
    system.load()
    talk = Source("talk", white_noise(4 * 16_000, 0).split(system.chunk_samples))
    with torch.inference_mode():
        (streamed,) = simulate(system, [talk])
    assert streamed.source_length == 4.0
    assert [chunk.arrival for chunk in streamed.chunks] == [1.92, 3.84, 4.0]  # m = 2
