"""Tiny checkpoints in the published layouts: train two steps, export, evaluate the export.

Weights are in several files with an index, in half precision. Phi-4-Multimodal has Microsoft's
names, its adapters inside and longrope; the configuration of Qwen2.5-Omni has the older names of
its rope. Whisper, Canary, Voxtral-Realtime and SeamlessM4T v2 have no training here and are
evaluated.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.backbones.phi4_multimodal.tiny import ALPHA, RANK, original
from tests.fixtures.streams import white_noise
from tests.fixtures.tiny_checkpoints import KINDS
from zoo.apps.evaluate import main as evaluate
from zoo.apps.train import main as train
from zoo.base.audio import files as audio
from zoo.base.languages import language
from zoo.base.machine import launch
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data import manifest
from zoo.formats.logs import read_log
from zoo.runs.rows.store import StreamStore

SHARDS = 3
STAGES = "training.curriculum.stages"
SAMPLING = "training.objectives.chain_of_thought.sampling"
SHORT = ["logger=csv", "threads=1", "device=cpu"]
FINE_TUNING = [  # the recipe of the paper, at another size
    "strategy=auto",
    f"{STAGES}.chains_of_thought.steps=2",
    f"{STAGES}.chains_of_thought.passes=null",
    f"{STAGES}.chains_of_thought.learning_rate=0.01",
    f"{STAGES}.chains_of_thought.examples=2",
    *(f"{SAMPLING}.hours.{kind}=null" for kind in ("streaming", "non_streaming")),
    f"backbone.lora.rank={RANK}",
    f"backbone.lora.alpha={ALPHA}",
]
DIALOGUES = [  # the recipe of learned <wait>, at another size
    "strategy=auto",
    f"{STAGES}.dialogues.steps=2",
    f"{STAGES}.dialogues.passes=null",
    f"{STAGES}.dialogues.learning_rate=0.01",
    f"{STAGES}.dialogues.step_seconds=12",
    f"{STAGES}.dialogues.chunks=[4,6]",
]
RECOGNITION = [  # the recipe of a recogniser, at another size
    "experiment=recogniser_finetune",
    "strategy=auto",
    f"{STAGES}.recognition.steps=2",
    f"{STAGES}.recognition.passes=null",
    f"{STAGES}.recognition.learning_rate=0.01",
    f"{STAGES}.recognition.step_seconds=4",
]
TALKATIVE = "backbone.emission.wait_bias=-100"  # random weights would wait or end
STREAMUNI = ["system=streamuni", "evaluation.knob_values=[3]"]


def float32(*given: str) -> list[str]:
    """Overrides with float32 weights, in which a model and its export have the same words."""
    return [*given, "backbone.dtype=float32"]


@dataclass(frozen=True)
class Layout:
    """A family whose published layout is tested.

    Attributes:
        kind: tiny checkpoint.
        backbone: choice in ``conf/backbone``.
        dtype: type of the published weights.
        training: overrides of a training; none: the family is only evaluated.
        trained: part of the names of weights that the training changes.
        frozen: part of the names of weights that it does not change.
        evaluation: overrides of an evaluation.
    """

    kind: str
    backbone: str
    dtype: torch.dtype = torch.bfloat16
    training: list[str] = field(default_factory=list)
    trained: str = ""
    frozen: str = ""
    evaluation: list[str] = field(default_factory=list)
    short: tuple[str, ...] = ("backbone.max_tokens=6",)  # ends answers early


LAYOUTS = {
    "phi4": Layout(
        "phi4_multimodal",
        "phi4_multimodal",
        training=float32("experiment=streamuni_phi4", *FINE_TUNING, "backbone.alignment.layer=3"),
        trained="audio_embed.encoder.embed",
        frozen="embed_tokens.weight",
        evaluation=float32(*STREAMUNI, "backbone.alignment.layer=3"),
    ),
    "qwen": Layout(
        "qwen2_5_omni",
        "qwen2_5_omni",
        training=float32("experiment=streamuni_qwen", *FINE_TUNING, "backbone.alignment.layer=3"),
        trained="self_attn.q_proj",
        frozen="embed_tokens.weight",
        evaluation=float32(*STREAMUNI, "backbone.alignment.layer=3"),
    ),
    "qwen3": Layout(
        "qwen3_omni",
        "qwen3_omni",
        training=float32(
            "experiment=streamuni_qwen",
            "backbone=qwen3_omni",
            "backbone.direct=false",
            *FINE_TUNING,
            "backbone.alignment.layer=3",
        ),
        trained="self_attn.q_proj",
        frozen="embed_tokens.weight",
        evaluation=float32(*STREAMUNI, "backbone.direct=false", "backbone.alignment.layer=3"),
    ),
    **{
        kind: Layout(
            model,
            kind,
            training=float32(
                "experiment=learned_wait_qwen", f"backbone={kind}", TALKATIVE, *DIALOGUES
            ),
            trained="self_attn.q_proj",
            frozen="embed_tokens.weight",
            evaluation=float32("system=learned_wait", TALKATIVE, "evaluation.knob_values=[2]"),
            short=("backbone.emission.max_tokens=6", "backbone.emission.final_tokens=6"),
        )
        for kind, model in (
            ("learned_wait_qwen2_5_omni", "qwen2_5_omni"),
            ("learned_wait_qwen3_omni", "qwen3_omni"),
        )
    },
    "qwen3_asr": Layout(
        "qwen3_asr",
        "qwen3_asr",
        training=float32(*RECOGNITION, "policy.frames=2"),
        trained="self_attn.q_proj",
        frozen="embed_tokens.weight",
        evaluation=float32("system=streamatt", "target_language=en", "evaluation.knob_values=[2]"),
    ),
    "seamless_m4t": Layout(
        "seamless_m4t_speech",
        "seamless_m4t_speech",
        torch.float16,
        training=[
            "experiment=teacher_forcing",
            "backbone=seamless_m4t_speech",
            "policy.frames=2",
            f"{STAGES}.translation.steps=2",
            f"{STAGES}.translation.batch_seconds=6",
            f"{STAGES}.translation.trains=[adaptor,decoder]",
        ],
        trained="text_decoder.layers",
        frozen="vocoder",
        evaluation=["system=alignatt", "synthesizer=none", "evaluation.knob_values=[2]"],
    ),
    "seamless_m4t_v2": Layout(
        "seamless_m4t_v2",
        "seamless_m4t_v2",
        evaluation=["system=alignatt", "evaluation.knob_values=[2]"],
    ),
    "whisper": Layout(
        "whisper",
        "whisper",
        torch.float16,
        evaluation=["system=alignatt", "target_language=en", "evaluation.knob_values=[25]"],
    ),
    "voxtral_realtime": Layout(
        "voxtral_realtime",
        "voxtral_realtime",
        evaluation=float32("system=streamatt", "target_language=en", "evaluation.knob_values=[2]"),
        short=(),  # a token per frame
    ),
    "canary": Layout(
        "canary", "canary", evaluation=["system=alignatt", "evaluation.knob_values=[2]"]
    ),
}
# Classes that older versions of Transformers lack, by tiny checkpoint.
NEWER = {
    "canary": "CanaryConfig",
    "qwen3_asr": "Qwen3ASRConfig",
    "voxtral_realtime": "VoxtralRealtimeConfig",
}
CASES = [
    pytest.param(
        layout,
        id=name,
        marks=pytest.mark.skipif(
            layout.kind in NEWER and not hasattr(transformers, NEWER[layout.kind]),
            reason="this version of Transformers has no such model",
        ),
    )
    for name, layout in LAYOUTS.items()
]
TRAINED = [case for case in CASES if case.values[0].training]


def tensors(folder: Path) -> dict[str, Tensor]:
    """All weights of a folder."""
    return {
        name: weight
        for file in folder.glob("*.safetensors")
        for name, weight in load_file(file).items()
    }


def publish(layout: Layout, folder: Path) -> Path:
    """Write the tiny checkpoint in the published layout."""
    place = whole(layout, folder)
    if layout.kind == "phi4_multimodal":
        original(place, folder / "published")
        place = folder / "published"
    weights = {name: weight.to(layout.dtype) for name, weight in tensors(place).items()}
    for file in place.glob("model*.safetensors"):
        file.unlink()

    names: dict[str, str] = {}
    for part in range(SHARDS):
        shard = f"model-{part + 1:05}-of-{SHARDS:05}.safetensors"
        own = {name: weights[name] for name in list(weights)[part::SHARDS]}
        save_file(own, place / shard, metadata={"format": "pt"})
        names |= dict.fromkeys(own, shard)
    index = {"metadata": {}, "weight_map": names}
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    describe(place / "config.json", layout.dtype)
    return place


def whole(layout: Layout, folder: Path) -> Path:
    """Write the tiny checkpoint as Transformers saves it, with numbers of the published type."""
    place = folder / "transformers"
    KINDS[layout.kind](place)
    weights = {name: weight.to(layout.dtype).float() for name, weight in tensors(place).items()}
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    return place


def describe(file: Path, dtype: torch.dtype) -> None:
    """Write the type of the weights and the older names of a rope, as published files have them."""
    config: dict[str, Any] = json.loads(file.read_text())
    config.pop("dtype", None)
    config["torch_dtype"] = str(dtype).removeprefix("torch.")
    text = config.get("thinker_config", {}).get("text_config")
    if text is not None:
        rope = text.pop("rope_parameters")
        text["rope_theta"] = rope["rope_theta"]
        section = rope["mrope_section"]
        text["rope_scaling"] = {"mrope_section": section, "rope_type": "default", "type": "default"}
    file.write_text(json.dumps(config))


@pytest.fixture
def corpus(tmp_path: Path) -> list[str]:
    """A manifest per split with one talk of noise; overrides that select them."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    audio.write(folder / "talk.wav", white_noise(6 * 16_000, scale=0.1))
    segments = []
    for start, texts in ((0.5, ("one two.", "eins zwei.")), (3.5, ("three four.", "drei vier."))):
        source, german = texts
        words = tuple(
            Word(word, start + place, start + place + 0.8)
            for place, word in enumerate(source.split())
        )
        targets = {
            code: Target(text, tuple(text.split()), ((0,), (1,)))
            for code, text in (("de", german), ("en", source))
        }
        segments.append(Segment(start, 2.0, source, words, targets))
    talk = Talk("talk", folder / "talk.wav", 6.0, "en", tuple(segments))
    for split in ("train", "dev", "tst"):
        manifest.write(folder / f"{split}.jsonl", [talk])
    return ["data=aligned", f"data.folder={folder}"]


Job = Callable[..., str]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Job:
    """``job(train, "key=value", ...)``: a command in this process; what it prints."""
    for name in list(os.environ):
        if name.startswith(("WANDB_", "SIMULZOO_RUN", "SIMULZOO_LAUNCH")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.chdir(tmp_path)

    def run(command: Callable[[], None], *overrides: str) -> str:
        launch.launch_name.cache_clear()
        monkeypatch.setattr(sys, "argv", ["job", *SHORT, *overrides])
        try:
            command()
        except SystemExit as left:
            pytest.fail(f"exit code {left.code}: {capsys.readouterr().err}")
        return capsys.readouterr().out

    return run


def words(job: Job, layout: Layout, weights: Path, corpus: list[str], folder: Path) -> str:
    """The text of an evaluation of the talk."""
    chosen = [f"backbone={layout.backbone}", f"backbone.name={weights}", *layout.evaluation]
    chosen += [*layout.short, f"hydra.run.dir={folder}", "evaluation.oracle_k=[]"]
    job(evaluate, *chosen, *corpus)
    row = json.loads((folder / "results.json").read_text())[0]
    (instance,) = read_log(folder / row["instances"], language=language(row["target_language"]))
    return instance.text


@pytest.mark.parametrize("layout", CASES)
def test_a_published_layout_is_evaluated(
    layout: Layout, job: Job, corpus: list[str], tmp_path: Path
) -> None:
    """The words are those of the same numbers in one file; Phi-4's adapter makes other words."""
    published = publish(layout, tmp_path / "model")
    found = words(job, layout, published, corpus, tmp_path / "run")
    assert found
    plain = whole(layout, tmp_path / "plain")
    expected = words(job, layout, plain, corpus, tmp_path / "plain_run")
    assert (found == expected) == (layout.kind != "phi4_multimodal")


@pytest.mark.parametrize("layout", TRAINED)
def test_a_published_layout_is_trained_exported_and_evaluated(
    layout: Layout, job: Job, corpus: list[str], tmp_path: Path
) -> None:
    place = publish(layout, tmp_path / "model")
    run = tmp_path / "run"
    options = ["training.data_workers=0", "export_dtype=float32", f"backbone.name={place}"]
    options += [*layout.short, f"hydra.run.dir={run}"]
    job(train, *layout.training, *options, *corpus)

    before, after = tensors(place), tensors(run / "export")
    changed = {
        name: not torch.equal(after[name].float(), weight.float())
        for name, weight in before.items()
        if name in after and after[name].shape == weight.shape
    }
    assert any(changed[name] for name in changed if layout.trained in name)
    assert not any(changed[name] for name in changed if layout.frozen in name)

    if layout.kind == "phi4_multimodal":
        assert 0.0 < change_of_adapter(before, after) < 0.5
    streamed = StreamStore(run / "development" / "step000002").read()
    exported = words(job, layout, run / "export", [*corpus, "evaluation.split=dev"], tmp_path / "e")
    assert exported == streamed[0].text


def change_of_adapter(before: dict[str, Tensor], after: dict[str, Tensor]) -> float:
    """The relative change of the published update of a layer, which an export has merged."""
    layer = "model.layers.0.self_attn.qkv_proj"
    base, first, second = (
        before[f"{layer}.{part}.weight"].float()
        for part in ("base_layer", "lora_A.speech", "lora_B.speech")
    )
    published = ALPHA / RANK * second @ first
    change = after[f"{layer}.weight"] - base - published
    return float(change.norm() / published.norm())
