"""Sources of a thinker: the hub's form with a talker, its own folder, or random initialisation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.fixtures.tiny_checkpoints import qwen2_5_omni
from zoo.backbones.qwen2_5_omni.qwen2_5_omni import Qwen25Omni
from zoo.errors import ZooError

WEIGHTS = "model.safetensors"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
CONVOLUTION = "thinker.audio_tower.conv1.weight"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As on the hub: the thinker's weights below ``thinker.``, and a talker's."""
    folder = tmp_path_factory.mktemp("omni")
    qwen2_5_omni(folder)
    save_file(
        {**load_file(folder / WEIGHTS), "talker.codec_head.weight": torch.ones(2, 2)},
        folder / WEIGHTS,
    )
    return folder


def loaded(name: Path, **options: Any) -> Qwen25Omni:
    backbone = Qwen25Omni(name=str(name), **{"dtype": "float64", **options})
    backbone.load()
    return backbone


def test_the_thinker_is_loaded_from_a_whole_omni(published: Path) -> None:
    there = load_file(published / WEIGHTS)
    assert {name.split(".")[0] for name in there} == {"thinker", "talker"}
    model = loaded(published).model
    for name, parameter in model.named_parameters():
        theirs = name.removeprefix("model.").replace("language_model.", "model.")
        assert torch.equal(parameter, there[f"thinker.{theirs}"].double()), name
    assert not [
        name for name, _ in model.named_parameters() if name.startswith("model.visual.blocks")
    ]


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_an_export_loads_as_a_thinker_of_transformers(
    published: Path, tmp_path: Path, dtype: torch.dtype | None
) -> None:
    backbone = loaded(published)
    backbone.save(tmp_path, dtype)
    again = loaded(tmp_path)
    for (name, parameter), other in zip(
        backbone.model.named_parameters(), again.model.parameters(), strict=True
    ):
        assert torch.equal(
            parameter.to(dtype or parameter.dtype), other.to(dtype or parameter.dtype)
        ), name
    assert again.tokenizer.get_vocab() == backbone.tokenizer.get_vocab()
    assert (
        json.loads((tmp_path / "config.json").read_text())["model_type"] == "qwen2_5_omni_thinker"
    )


def test_a_small_backbone_is_exported_whole(
    tiny: Callable[..., Qwen25Omni], tmp_path: Path
) -> None:
    backbone = tiny()
    backbone.save(tmp_path)
    again = loaded(tmp_path)
    assert again.model.lm_head.weight is again.model.get_input_embeddings().weight
    for (name, parameter), other in zip(
        backbone.model.named_parameters(), again.model.parameters(), strict=True
    ):
        assert torch.equal(parameter, other), name


def test_angles_stay_precise(published: Path, tiny: Callable[..., Qwen25Omni]) -> None:
    for backbone in (loaded(published, dtype="bfloat16"), tiny(dtype="bfloat16")):
        assert {parameter.dtype for parameter in backbone.model.parameters()} == {torch.bfloat16}
        assert backbone.model.model.language_model.rotary_emb.inv_freq.dtype == torch.float32


def test_random_weights_have_the_configured_spread(tiny: Callable[..., Qwen25Omni]) -> None:
    spread = float(tiny(embedding_std=2.0).model.get_input_embeddings().weight.detach().std())
    assert 1.8 < spread < 2.2


def broken(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / WEIGHTS)
    change(weights)
    save_file(weights, folder / WEIGHTS)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda folder: (folder / WEIGHTS).unlink(), "weights of .* cannot be loaded"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b"123"), "weights of .* cannot be loaded"),
        (lambda folder: (folder / "config.json").unlink(), "config.json"),
        (
            lambda folder: (folder / "config.json").write_text('{"model_type": "bert"}'),
            "is a 'bert' .* must be a",
        ),
        (
            lambda folder: [(folder / name).unlink() for name in TOKENIZER],
            "The tokenizer in .* is not its",
        ),
        (
            lambda folder: broken(folder, lambda held: held.pop("thinker.lm_head.weight")),
            "lacks weights .* lm_head",
        ),
        (
            lambda folder: broken(folder, lambda held: held.pop(CONVOLUTION)),
            "lacks weights .*conv1.weight",
        ),
        (
            lambda folder: broken(folder, lambda held: held.update({CONVOLUTION: torch.ones(1)})),
            "cannot be loaded",
        ),
    ],
)
def test_a_broken_model_is_an_error_of_one_sentence(
    tmp_path: Path, harm: Callable[[Path], object], message: str
) -> None:
    qwen2_5_omni(tmp_path)
    harm(tmp_path)
    with pytest.raises(ZooError, match=message):
        loaded(tmp_path)


def test_a_tokenizer_of_another_model_is_refused(published: Path, tokenizer_folder: Path) -> None:
    with pytest.raises(ZooError, match=r"The tokenizer in .* is not its network's"):
        loaded(published, tokenizer=str(tokenizer_folder))


@pytest.mark.parametrize(
    "config", [{"text_config": {"hidden_size": "wide"}}, {"audio_config": {"d_model": 13}}]
)
def test_fields_that_make_no_network_are_named(
    tiny: Callable[..., Qwen25Omni], config: dict[str, Any]
) -> None:
    with pytest.raises(ZooError, match=r"backbone\.config makes no"):
        tiny(config=config)


@pytest.mark.parametrize(
    "config", [{"size": 3}, {"text_config": {"width": 3}}, {"audio_config": {"channels": 2}}]
)
def test_unknown_fields_are_refused(
    tiny: Callable[..., Qwen25Omni], config: dict[str, Any]
) -> None:
    with pytest.raises(
        ZooError, match=r"Unknown field of backbone\.config.*'(size|width|channels)'"
    ):
        tiny(config=config)


@pytest.mark.parametrize("options", [{}, {"config": {}}, {"tokenizer": "somewhere"}])
def test_it_needs_a_name_or_a_config_and_a_tokenizer(options: dict[str, Any]) -> None:
    with pytest.raises(
        ZooError, match=r"needs backbone\.name, or backbone\.config and backbone\.tokenizer"
    ):
        Qwen25Omni(**options)
