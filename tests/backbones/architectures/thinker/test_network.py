"""Sources of a thinker: the hub's form with a talker, its own folder, or random initialisation."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.fixtures.thinkers import FAMILIES, Family
from zoo.backbones.architectures.thinker.network import text_part
from zoo.base.errors import ZooError

WEIGHTS = "model.safetensors"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
UNUSED = ("talker.codec_head.weight", "code2wav.decoder.weight")
EXPERTS = "mlp.experts"  # one tensor in the network, and one per expert in the files

Maker = Callable[..., Any]


@pytest.fixture(scope="module")
def published(family: Family, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As on the hub: the thinker's weights below ``thinker.``, and those that generate speech."""
    folder = tmp_path_factory.mktemp("omni")
    family.write(folder)
    unused = {name: torch.ones(2, 2) for name in UNUSED}
    save_file({**load_file(folder / WEIGHTS), **unused}, folder / WEIGHTS)
    return folder


def loaded(family: Family, name: Path, **options: Any) -> Any:
    backbone = family.backbone(name=str(name), **{"dtype": "float64", **options})
    backbone.load()
    return backbone


def test_the_thinker_is_loaded_from_a_whole_omni(family: Family, published: Path) -> None:
    there = load_file(published / WEIGHTS)
    assert {name.split(".")[0] for name in there} == {"thinker", "talker", "code2wav"}
    model = loaded(family, published).model
    for name, parameter in model.named_parameters():
        theirs = name.removeprefix("model.").replace("language_model.", "model.")
        expected = of_experts(there, theirs) if EXPERTS in name else there[f"thinker.{theirs}"]
        assert torch.equal(parameter, expected.double()), name
    assert not [
        name for name, _ in model.named_parameters() if name.startswith("model.visual.blocks")
    ]


def of_experts(there: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    """The weight of all experts of a layer, from the tensors of each expert."""
    layer, _, product = name.partition(f"{EXPERTS}.")
    halves = ("gate_proj", "up_proj") if product == "gate_up_proj" else (product,)
    count = len([key for key in there if f"{layer}{EXPERTS}." in key and "down_proj" in key])
    return torch.stack(
        [
            torch.cat([there[f"thinker.{layer}{EXPERTS}.{index}.{half}.weight"] for half in halves])
            for index in range(count)
        ]
    )


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_an_export_loads_as_a_thinker_of_transformers(
    family: Family, published: Path, tmp_path: Path, dtype: torch.dtype | None
) -> None:
    backbone = loaded(family, published)
    backbone.save(tmp_path, dtype)
    again = loaded(family, tmp_path)
    for (name, parameter), other in zip(
        backbone.model.named_parameters(), again.model.parameters(), strict=True
    ):
        assert torch.equal(
            parameter.to(dtype or parameter.dtype), other.to(dtype or parameter.dtype)
        ), name
    assert again.tokenizer.get_vocab() == backbone.tokenizer.get_vocab()
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"] == family.model_type


def test_a_small_backbone_is_exported_whole(family: Family, tiny: Maker, tmp_path: Path) -> None:
    backbone = tiny()
    backbone.save(tmp_path)
    again = loaded(family, tmp_path)
    assert again.model.lm_head.weight is again.model.get_input_embeddings().weight
    for (name, parameter), other in zip(
        backbone.model.named_parameters(), again.model.parameters(), strict=True
    ):
        assert torch.equal(parameter, other), name


def test_angles_stay_precise(family: Family, published: Path, tiny: Maker) -> None:
    for backbone in (loaded(family, published, dtype="bfloat16"), tiny(dtype="bfloat16")):
        assert {parameter.dtype for parameter in backbone.model.parameters()} == {torch.bfloat16}
        assert text_part(backbone.model).rotary_emb.inv_freq.dtype == torch.float32


def test_random_weights_have_the_configured_spread(tiny: Maker) -> None:
    spread = float(tiny(embedding_std=2.0).model.get_input_embeddings().weight.detach().std())
    assert 1.8 < spread < 2.2


def convolution(held: Mapping[str, torch.Tensor]) -> str:
    """The name of the weight of the first convolution."""
    return next(name for name in held if name.endswith(("tower.conv1.weight", "conv2d1.weight")))


def broken(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / WEIGHTS)
    change(weights)
    save_file(weights, folder / WEIGHTS)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda folder: (folder / WEIGHTS).unlink(), "weights of .* cannot be loaded"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b"123"), "damaged or no safetensors file"),
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
            lambda folder: broken(folder, lambda held: held.pop(convolution(held))),
            "lacks weights .*conv(2d)?1.weight",
        ),
        (
            lambda folder: broken(
                folder, lambda held: held.update({convolution(held): torch.ones(1)})
            ),
            "has shape",
        ),
    ],
)
def test_a_broken_model_is_an_error_of_one_sentence(
    family: Family, tmp_path: Path, harm: Callable[[Path], object], message: str
) -> None:
    family.write(tmp_path)
    harm(tmp_path)
    with pytest.raises(ZooError, match=message):
        loaded(family, tmp_path)


def test_a_folder_of_another_family_is_refused(family: Family, tmp_path: Path) -> None:
    other = next(one for one in FAMILIES.values() if one is not family)
    other.write(tmp_path)
    with pytest.raises(ZooError, match=rf"as {family.backbone.noun} it must be a"):
        loaded(family, tmp_path)


def test_a_tokenizer_of_another_model_is_refused(
    family: Family, published: Path, tokenizer_folder: Path
) -> None:
    with pytest.raises(ZooError, match=r"The tokenizer in .* is not its network's"):
        loaded(family, published, tokenizer=str(tokenizer_folder))


@pytest.mark.parametrize(
    "config", [{"text_config": {"hidden_size": "wide"}}, {"audio_config": {"d_model": 13}}]
)
def test_fields_that_make_no_network_are_named(tiny: Maker, config: dict[str, Any]) -> None:
    with pytest.raises(ZooError, match=r"backbone\.config makes no"):
        tiny(config=config)


@pytest.mark.parametrize(
    "config", [{"size": 3}, {"text_config": {"width": 3}}, {"audio_config": {"channels": 2}}]
)
def test_unknown_fields_are_refused(tiny: Maker, config: dict[str, Any]) -> None:
    with pytest.raises(
        ZooError, match=r"Unknown field of backbone\.config.*'(size|width|channels)'"
    ):
        tiny(config=config)


@pytest.mark.parametrize("options", [{}, {"config": {}}, {"tokenizer": "somewhere"}])
def test_it_needs_a_name_or_a_config_and_a_tokenizer(
    family: Family, options: dict[str, Any]
) -> None:
    with pytest.raises(
        ZooError, match=r"needs backbone\.name, or backbone\.config and backbone\.tokenizer"
    ):
        family.backbone(**options)
