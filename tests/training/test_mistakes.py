"""Errors in the configuration of a training are one sentence, before anything is loaded."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from lightning.pytorch.callbacks import LearningRateMonitor, Timer
from lightning.pytorch.loggers import CSVLogger

from tests.fixtures import processes
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.config import build, compose
from zoo.systems.base import StreamingSystem
from zoo.training import module, run
from zoo.training.job import evaluate_from_start
from zoo.training.recipe import build_training
from zoo.training.run import last_checkpoint
from zoo.training.strategy import ZeRO
from zoo.training.tokenizer import needs_tokenizer
from zoo.training.trainer import make_trainer

ROOT = Path(__file__).resolve().parents[2]
STAGES = "training.curriculum.stages"
SAMPLING = "training.objectives.{}.sampling"
OFFLINE = "experiment=offline_minitalks"
SETTINGS = {
    f"{STAGES}.translation.objective=nope": (
        "Unknown objective of stage 'translation' 'nope'; choose one of: frame_l"
    ),
    f"{STAGES}.recognition.chunks=[]": "chunks and multipliers of at least 1",
    f"{STAGES}.recognition.batch_seconds=0": "batch_seconds above 0",
    f"{STAGES}.recognition.learning_rate=0": "A training stage needs learning_rate above 0, not 0.",
    f"{STAGES}.recognition.learning_rate=-1": "A training stage needs learning_rate above 0",
    f"{STAGES}.recognition.hold=1.5": "A training stage needs hold from 0 to 1, not 1.5.",
    f"{STAGES}.recognition.warmup_steps=-1": "needs warmup_steps of at least 0, not -1.",
    "training.evaluate_every_steps=0": "training needs evaluate_every_steps of at least 1, not 0.",
    f"{SAMPLING.format('trajectories')}.encoded=true": (
        "Stage 'translation' samples encoded audio, which needs a frozen encoder; these stages "
        "train it: recognition."
    ),
    f"{SAMPLING.format('trajectories')}.utterances=1.5": (
        "RobustSegmentConfig needs utterances from 0 to 1, not"
    ),
    f"+{STAGES}.recognition.sampling={{_target_:zoo.data.excerpts.ExcerptConfig}}": (
        "Stage 'recognition' has ExcerptConfig as its sampling, but its objective frame_labels "
        "takes RobustSegmentConfig."
    ),
    "training.log_every_steps=0": "training needs log_every_steps of at least 1, not 0.",
    f"{OFFLINE} +{STAGES}.alone.sampling={{_target_:zoo.data.clips.ClipConfig}}": (
        "Stage 'alone' has ClipConfig as its sampling, but its objective offline takes "
        "ExcerptConfig."
    ),
    f"{OFFLINE} {SAMPLING.format('offline')}.single=2": "ExcerptConfig needs single from 0 to 1",
    f"{OFFLINE} {STAGES}.short.trains=[encoder,decoder]": (
        "Stage 'short' samples encoded audio, which needs a frozen encoder"
    ),
}
JOBS = {
    "export_dtype=int3": "Unknown export_dtype 'int3'; choose one of: float32, bfloat16.",
    "-m resume=somewhere": "resume=... continues one run; it cannot be combined with a multirun.",
    "resume=nowhere": "resume must name the folder of a run; there is no folder 'nowhere'.",
    "resume=/": "Nothing to resume in /: it has no checkpoints/last.ckpt.",
    "optimized_metric=BLEU training.keep_best=0": "optimized_metric needs a checkpoint with",
    "experiment=nope": "Unknown experiment 'nope'; choose one of: ",
}


@pytest.mark.parametrize("given", SETTINGS)
def test_settings_are_checked_at_construction(given: str) -> None:
    with pytest.raises(ZooError) as refusal:
        build(compose("train", given.split()).training)
    assert SETTINGS[given] in str(refusal.value)


@pytest.mark.parametrize("rate", ["nan", "inf", "0", "-1"])
def test_the_learning_rate_is_a_number_above_0(rate: str) -> None:
    with pytest.raises(ZooError, match=r"^optimizer\.lr must be a number above 0"):
        build_training(compose("train", [f"optimizer.lr={rate}"]))


def test_no_tokenizer_is_trained_for_published_weights() -> None:
    cfg = compose("train", ["experiment=recogniser_finetune", "training.vocabulary_size=300"])
    with pytest.raises(ZooError, match=r"^training\.vocabulary_size=300 has no effect.* Qwen3Asr"):
        needs_tokenizer(cfg, build(cfg.training))


@pytest.mark.parametrize("alpha", [0, -1])
def test_an_adapter_without_effect_is_refused(alpha: int) -> None:
    cfg = compose("train", ["experiment=recogniser_finetune", f"backbone.lora.alpha={alpha}"])
    with pytest.raises(ZooError, match=f"A LoRA needs alpha of at least 1, not {alpha}"):
        build(cfg.system)


def test_a_training_without_evaluations_has_no_score_to_optimise() -> None:
    given = ["training.evaluate_last=false", "training.evaluate_every_steps=100000"]
    with pytest.raises(ZooError, match=r"training\.evaluate_last=true"):
        build(compose("train", given).training).check_ranked()
    build(compose("train", given[1:]).training).check_ranked()


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ([], []),
        (["training.evaluate_every_steps=20"], [20, 40, 60]),
        (["training.evaluate_every_steps=20", "training.evaluate_from_step=40"], [40, 60]),
    ],
)
def test_a_typed_interval_of_evaluations_holds_from_the_first_step(
    given: list[str], steps: list[int]
) -> None:
    cfg = compose("train", ["training=infinisst_minitalks", *given])
    evaluate_from_start(cfg, given)
    found = build(cfg.training).evaluation_steps
    assert [step for step in range(1, 61) if step in found] == steps


@pytest.mark.parametrize("given", JOBS)
def test_a_job_is_refused_in_one_sentence_and_leaves_nothing(given: str, tmp_path: Path) -> None:
    done = processes.run(ROOT / "train.py", *given.split(), folder=tmp_path)
    assert done.returncode == 2, done.stderr[-2000:]
    assert done.stderr.startswith(f"error: {JOBS[given]}")
    assert done.stderr.count("\n") == 1
    assert not [
        path for path in tmp_path.rglob("*") if path.is_file() and path.name != "multirun.yaml"
    ]


def test_a_folder_with_other_files_is_refused_before_talks_are_read(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    given = ("hydra.run.dir=run", "data=mustc", "data.root=/nowhere")
    done = processes.run(ROOT / "train.py", *given, folder=tmp_path)
    assert done.returncode == 2, done.stderr[-2000:]
    assert done.stderr.startswith("error: ")
    assert "run is not empty and is not a run folder; choose another folder." in done.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["run", "notes.txt"]


def test_an_error_of_lightning_is_one_sentence() -> None:
    with pytest.raises(ZooError, match=r"Lightning refuses the trainer: .*nope"):
        make_trainer({"accelerator": "cpu", "nope": 1})
    with pytest.raises(ZooError, match=r"Lightning refuses the trainer: .*precision"):
        make_trainer({"accelerator": "cpu", "precision": 3})
    with pytest.raises(ZooError, match=r"be resumed; choose strategy=deepspeed_stage_2"):
        make_trainer({"strategy": "deepspeed_stage_3"})  # Lightning's name
    with pytest.raises(ZooError, match=r"trainer\.strategy=fsdp is .* choose strategy=fsdp2"):
        make_trainer({"strategy": "fsdp"})
    with pytest.raises(ZooError, match=r"trainer\.max_steps is set by the training; use training"):
        make_trainer({"accelerator": "cpu", "max_steps": 3}, max_steps=2)


@pytest.mark.parametrize("strategy", ["fsdp2", "deepspeed_stage_2"])
def test_a_sharded_strategy_names_the_devices_that_it_supports(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if strategy != "fsdp2":
        pytest.importorskip("deepspeed", reason="the extra deepspeed is not installed")
    chosen = build(compose("train", [f"strategy={strategy}"]).trainer).keywords["strategy"]
    monkeypatch.setattr(type(chosen), "root_device", torch.device("mps"))
    with pytest.raises(ZooError, match=rf"strategy={strategy[:4]}.* mps; .*choose strategy="):
        make_trainer({"accelerator": "cpu", "strategy": chosen})


def test_zero_refuses_to_clip_gradients_by_value() -> None:
    pytest.importorskip("deepspeed", reason="the extra deepspeed is not installed")
    options = {"accelerator": "cpu", "gradient_clip_algorithm": "value", "strategy": ZeRO()}
    with pytest.raises(ZooError, match=r"by norm only; .* or choose strategy=fsdp2"):
        make_trainer(options)


def test_callbacks_of_the_configuration_are_added() -> None:
    monitor = "trainer.callbacks=[{_target_: lightning.pytorch.callbacks.LearningRateMonitor}]"
    options = build(compose("train", ["device=cpu", monitor]).trainer).keywords
    own = Timer()
    callbacks = make_trainer(options, callbacks=[own], logger=CSVLogger("unused")).callbacks
    assert own in callbacks
    assert any(isinstance(callback, LearningRateMonitor) for callback in callbacks)


def test_talks_and_shares_are_checked_before_weights_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "prepare", lambda *given: pytest.fail("weights are read"))
    chosen = ["experiment=streamuni_phi4", "strategy=auto", "device=cpu"]
    aligned = Segment(
        1.0,
        2.0,
        "One two.",
        (Word("One", 1.0, 2.0), Word("two.", 2.0, 3.0)),
        {"de": Target("Eins zwei.")},
    )
    for segment, parts, message in (
        (replace(aligned, words=()), 2, "Segment 'One two.' lacks word times"),
        (aligned, 3, "The 32 examples of a step of stage 'chains_of_thought' cannot be divided"),
    ):
        cfg = compose("train", [*chosen, f"trainer.accumulate_grad_batches={parts}"])
        with pytest.raises(ZooError) as refusal:
            run.fit(
                system=build(cfg.system),
                talks=[Talk("talk", Path("talk.wav"), 9.0, "en", (segment,) * 3)],
                dev=[],
                settings=build(cfg.training),
                trainer_options=build(cfg.trainer).keywords,
                folder=tmp_path,
                seed=0,
                device=torch.device("cpu"),
            )
        assert str(refusal.value).startswith(message)


def test_a_training_streams_for_words_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Prepared(Exception):
        """Weights would be read now."""

    def prepare(system: StreamingSystem, *given: object) -> None:
        assert system.synthesizer is None
        raise Prepared

    monkeypatch.setattr(module, "prepare", prepare)
    cfg = compose("train", ["synthesizer=espeak", "backbone.tokenizer=unread", "device=cpu"])
    system = build(cfg.system)
    assert system.synthesizer is not None
    talk = Talk("talk", Path("talk.wav"), 9.0, "en", (Segment(1.0, 2.0, "One two."),))
    with pytest.raises(Prepared):
        run.fit(
            system=system,
            talks=[talk],
            dev=[],
            settings=build(cfg.training),
            trainer_options=build(cfg.trainer).keywords,
            folder=tmp_path,
            seed=0,
            device=torch.device("cpu"),
        )


def test_a_training_leaves_out_segments_that_are_not_usable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared: list[Talk] = []
    monkeypatch.setattr(module, "prepare", lambda system, talks, *rest: prepared.extend(talks))
    cfg = compose("train", ["backbone.tokenizer=unread", "device=cpu"])
    spoken, applause = Segment(1.0, 2.0, "One two."), Segment(4.0, 2.0, "(Applause)", usable=False)
    talk = Talk("talk", Path("talk.wav"), 9.0, "en", (spoken, applause))
    plan = module.Training(build(cfg.training))
    plan.setup(build(cfg.system), [talk], torch.device("cpu"))
    assert [(part.offset, part.duration, part.segments) for part in prepared] == [
        (0.0, 4.0, (spoken,))
    ]


@pytest.mark.parametrize("options", [{"strategy": "ddp"}, {}])
def test_several_processes_allow_for_parts_without_gradients(options: dict[str, str]) -> None:
    strategy = make_trainer({"accelerator": "cpu", "devices": 2, **options}).strategy
    assert strategy._ddp_kwargs["find_unused_parameters"] is True  # type: ignore[attr-defined]


def test_the_device_is_the_accelerator() -> None:
    assert build(compose("train", ["device=cpu"]).trainer).keywords["accelerator"] == "cpu"


def test_a_damaged_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(ZooError, match="damaged"):
        last_checkpoint(tmp_path)


def test_callbacks_of_a_training_are_nodes_by_name() -> None:
    given = ["callbacks.progress=null", "training.log_every_steps=7"]
    (throughput,) = [one for one in build(compose("train", given).callbacks).values() if one]
    assert throughput.every_steps == 7
