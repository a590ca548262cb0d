"""A tiny file in the layout of the authors' "Offline" checkpoints, converted, equals their network.

Their network is written out in tests/backbones/infinisst/test_convert.py.
"""

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig

from zoo.backbones.lst.convert import convert, main
from zoo.backbones.lst.lst import LST
from zoo.base.types import Capability, Request
from zoo.streaming.session import Session

PROMPT = (
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
    "Cutting Knowledge Date: December 2023\n"
    "Today Date: 26 Jul 2024\n\nTranslate the following speech from English to German.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
)


@pytest.fixture(scope="module")
def theirs() -> ModuleType:
    path = Path(__file__).parents[1] / "infinisst" / "test_convert.py"
    spec = importlib.util.spec_from_file_location("released_layout", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.WINDOW = 10**6  # frames: all
    return module


@pytest.fixture(scope="module")
def weights(theirs: ModuleType) -> dict[str, Tensor]:
    return theirs.released_weights(264 + 3 + 1)


@pytest.fixture(scope="module")
def folder(
    theirs: ModuleType,
    weights: dict[str, Tensor],
    tokenizer_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    place = tmp_path_factory.mktemp("offline")
    shutil.copytree(tokenizer_folder, place / "base")
    LlamaConfig(
        vocab_size=300,
        hidden_size=theirs.WIDTH,
        intermediate_size=theirs.LLM_FF,
        num_hidden_layers=theirs.LLM_LAYERS,
        num_attention_heads=theirs.LLM_HEADS,
        num_key_value_heads=theirs.LLM_SHARED,
        rms_norm_eps=1e-6,
    ).save_pretrained(place / "base")
    torch.save(weights, place / "pytorch_model.bin")
    convert(place / "pytorch_model.bin", place / "converted", llm=str(place / "base"))
    return place


@torch.inference_mode()
def test_a_hypothesis_equals_the_released_networks(
    theirs: ModuleType, weights: dict[str, Tensor], folder: Path, live: Callable[..., Session]
) -> None:
    """Next-token log-probabilities in the middle of an embedding."""
    backbone = LST(
        name=str(folder / "converted"), dtype="float64", alignment={"layer": 1}, max_tokens=3
    )
    backbone.load()
    session = live(backbone, seconds=1.75, prefix=[90, 91])
    network = theirs.Network(weights, torch.bfloat16)
    network.samples_so_far = torch.zeros(0, dtype=torch.float64)
    speech = network.speech(session.audio, 10**6)
    assert len(speech) == (28_000 - 80) // 320 // 4
    torch.testing.assert_close(
        backbone.encode_audio([session], [session.audio])[0], speech, rtol=0, atol=1e-10
    )

    text = PROMPT.format("<sp_patch>" * len(speech))
    ids = torch.tensor([*backbone.tokenizer(text, add_special_tokens=False)["input_ids"], 90, 91])
    assert ids.tolist() == [*backbone._text(session, len(speech)).opening, 90, 91]
    embeddings = network.weights["model.embed_tokens.weight"][ids]
    embeddings[ids == 264] = speech
    expected = network.logits(embeddings)[-1]
    expected[264] = -torch.inf
    backbone.search = backbone.search.__class__(beams=1, no_repeat_ngram=0, repetition_penalty=1.0)
    hypothesis = backbone.decode([session], [Request()], frozenset({Capability.ALIGNMENT}))[0]
    assert int(hypothesis.token_ids[0]) == int(expected.argmax())
    assert hypothesis.num_frames == len(speech)


def test_the_folder_has_the_settings_of_the_released_scripts(folder: Path) -> None:
    backbone = LST(name=str(folder / "converted"), alignment={"layer": 1})
    backbone.load()
    encoder = backbone.encoder_config
    assert (encoder.left_pad, encoder.window_unit, encoder.rope_angles) == (0, "chunks", "bfloat16")
    assert (backbone.block_chunks, backbone.adapter_norm, backbone.alignment.query) == (
        0,
        True,
        "predicting",
    )
    assert "latency" not in backbone.template.instruction


def test_the_command_prints_its_usage(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    given = [
        str(folder / "pytorch_model.bin"),
        str(tmp_path / "new"),
        "--llm",
        str(folder / "base"),
    ]
    main(given)
    assert (
        f"backbone=lst backbone.search.repetition=prompt backbone.name={tmp_path}/new"
        in capsys.readouterr().out
    )
    with pytest.raises(SystemExit, match="2"):
        main(given)
    assert "is there already and not empty" in capsys.readouterr().err
