"""An adapter in the text part: its place, its trained weights, and saving it without loss."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.fixtures.thinkers import Family
from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.pretrained.lora import LoraConfig, is_adapter
from zoo.base.errors import ZooError
from zoo.base.languages import language

LORA = LoraConfig(rank=3, alpha=6, dropout=0.0)
Maker = Callable[..., ChainOfThought]


def adapted(tiny: Maker, lora: LoraConfig = LORA) -> ChainOfThought:
    """With an adapter that does something."""
    backbone = tiny(lora=lora)
    for parameter in backbone.parts()["lora"]:
        nn.init.normal_(parameter, std=0.3)
    return backbone


def loaded(family: Family, name: Path, lora: LoraConfig | None) -> ChainOfThought:
    backbone = family.backbone(name=str(name), dtype="float64", lora=lora)
    backbone.load()
    return backbone


@torch.no_grad()
def scores(backbone: ChainOfThought) -> Tensor:
    ids = torch.tensor([backbone.prompt.opening(3, language("de"))])
    states = backbone.decoder.model(
        inputs_embeds=backbone.decoder.get_input_embeddings()(ids)
    ).last_hidden_state
    found: Tensor = backbone.decoder.get_output_embeddings()(states)
    return found


def test_it_is_on_the_text_part_alone(family: Family, tiny: Maker) -> None:
    backbone = tiny(lora=LORA)
    layers = {
        name.split(".lora_")[0] for name, _ in backbone.model.named_parameters() if is_adapter(name)
    }
    assert layers == {
        f"model.language_model.layers.{layer}.{kind}_proj"
        for layer in range(2)
        for kind in family.adapted
    }


def test_a_new_one_adds_nothing(tiny: Maker) -> None:
    assert torch.equal(scores(tiny(lora=LORA)), scores(tiny()))


def test_adapter_and_adapted_weights_are_separate_parts(tiny: Maker) -> None:
    backbone = tiny(lora=LORA)
    backbone.trainable(["lora", "encoder", "projector"])
    names = {
        name for name, parameter in backbone.model.named_parameters() if parameter.requires_grad
    }
    assert {name for name in names if name.startswith("model.language_model")} == {
        name for name, _ in backbone.model.named_parameters() if is_adapter(name)
    }
    assert any("audio_tower.proj" in name for name in names)


@pytest.mark.parametrize("save", ["merged", "adapter"])
def test_an_export_decodes_the_same_tokens(
    family: Family, tiny: Maker, tmp_path: Path, save: str
) -> None:
    lora = replace(LORA, save=save)
    backbone = adapted(tiny, lora)
    expected = scores(backbone)
    assert float((expected - scores(tiny())).abs().max()) > 0.1
    backbone.save(tmp_path)
    torch.testing.assert_close(scores(loaded(family, tmp_path, None)), expected, rtol=0, atol=1e-12)
    if save == "adapter":
        again = loaded(family, tmp_path, lora)
        torch.testing.assert_close(scores(again), expected, rtol=0, atol=1e-12)
        for (name, parameter), other in zip(
            backbone.named_parameters(), again.parameters(), strict=True
        ):
            assert torch.equal(parameter, other), name


def test_training_goes_on_where_it_was(family: Family, tiny: Maker, tmp_path: Path) -> None:
    """A merged export has no adapter; a new adapter starts from the merged weights."""
    backbone = adapted(tiny)
    backbone.save(tmp_path)
    torch.testing.assert_close(
        scores(loaded(family, tmp_path, LORA)), scores(backbone), rtol=0, atol=1e-12
    )


def test_another_adapter_is_refused(family: Family, tiny: Maker, tmp_path: Path) -> None:
    adapted(tiny, replace(LORA, save="adapter")).save(tmp_path)
    with pytest.raises(ZooError, match=r"has rank 3 and alpha 6, but backbone\.lora has 4 and 6"):
        loaded(family, tmp_path, replace(LORA, rank=4))
    (tmp_path / "speech-lora" / "adapter_config.json").write_text(json.dumps({"r": 3}))
    with pytest.raises(ZooError, match=r"states no rank and alpha of the adapter"):
        loaded(family, tmp_path, None)
