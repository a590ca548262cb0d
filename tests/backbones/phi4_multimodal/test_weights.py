"""Folders in both layouts against the class with what peft loads, in float64."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import Phi4MultimodalConfig, Phi4MultimodalForCausalLM, PreTrainedTokenizerFast

from tests.backbones.phi4_multimodal.tiny import ALPHA, CONFIG, RANK, original
from zoo.backbones.base import is_restored
from zoo.backbones.phi4_multimodal.network import TARGETS
from zoo.backbones.phi4_multimodal.phi4_multimodal import Phi4Multimodal
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.base.errors import ZooError
from zoo.base.languages import language

LORA = LoraConfig(rank=RANK, alpha=ALPHA, dropout=0.0)


@pytest.fixture(scope="module")
def microsoft(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The original layout."""
    released_folder: Path = tmp_path_factory.mktemp("microsoft") / "phi4"
    original(folder, released_folder)
    return released_folder


@pytest.fixture(scope="module")
def expected(folder: Path, microsoft: Path) -> Phi4MultimodalForCausalLM:
    """The class with the positions of the published config and the published adapter in peft."""
    config = Phi4MultimodalConfig.from_pretrained(folder)
    config.rope_parameters = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.75,
        "long_factor": [2.0] * 3,
        "short_factor": [1.5] * 3,
        "original_max_position_embeddings": 4096,
    }
    network = Phi4MultimodalForCausalLM.from_pretrained(folder, config=config, dtype=torch.float64)
    lora = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=TARGETS)
    peft.inject_adapter_in_model(lora, network, adapter_name="speech")
    published: dict[str, Tensor] = {}
    for shard in microsoft.glob("*.safetensors"):
        published |= load_file(shard)
    own = dict(network.named_parameters())
    adapter = {name: tensor for name, tensor in published.items() if ".speech.weight" in name}
    assert len(adapter) == 2 * 4 * 4  # A and B of four layers' four projections
    with torch.no_grad():
        for name, tensor in adapter.items():
            own[name].copy_(tensor)
    return network.eval()


@torch.no_grad()
def scores(backbone: Phi4Multimodal, wave: Tensor) -> Tensor:
    """Of a prompt with speech, by our hooks."""
    features = backbone.spectrogram.compute(backbone.spectrogram.open(), wave, 0).to(backbone.dtype)
    ids = torch.tensor(
        [backbone.prompt.opening(backbone.embeddings(len(features)), language("de"))]
    )
    [hidden], _ = backbone.encode([features])
    inputs = backbone.decoder.get_input_embeddings()(ids)
    inputs[ids == backbone.prompt.audio] = backbone.project(hidden)
    states = backbone.decoder.model(inputs_embeds=inputs).last_hidden_state
    return torch.as_tensor(backbone.decoder.get_output_embeddings()(states))


@torch.no_grad()
def scores_of_the_class(
    network: Phi4MultimodalForCausalLM, backbone: Phi4Multimodal, wave: Tensor
) -> Tensor:
    """Of the same prompt, by its own forward."""
    features = backbone.spectrogram.compute(backbone.spectrogram.open(), wave, 0).double()[None]
    lengths = torch.tensor([-(-features.shape[1] // 8)])
    ids = torch.tensor([backbone.prompt.opening(int(lengths), language("de"))])
    return torch.as_tensor(
        network(
            input_ids=ids, audio_input_features=features, audio_embed_sizes=lengths, use_cache=False
        ).logits
    )


def loaded(name: Path, **options: Any) -> Phi4Multimodal:
    loaded_backbone = Phi4Multimodal(name=str(name), **{"dtype": "float64", **options})
    loaded_backbone.load()
    return loaded_backbone


def test_transformers_layout(folder: Path, wave: Tensor) -> None:
    backbone = loaded(folder)
    network = Phi4MultimodalForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    torch.testing.assert_close(
        scores(backbone, wave), scores_of_the_class(network, backbone, wave), rtol=1e-9, atol=1e-9
    )
    assert len(backbone.tokenizer("a <sep> b")["input_ids"]) > 3  # plain text


@pytest.mark.parametrize("lora", [None, LORA])
def test_original_layout_with_its_speech_adapter(
    microsoft: Path, expected: Phi4MultimodalForCausalLM, lora: LoraConfig | None, wave: Tensor
) -> None:
    backbone = loaded(microsoft, lora=lora)
    torch.testing.assert_close(
        scores(backbone, wave), scores_of_the_class(expected, backbone, wave), rtol=1e-6, atol=1e-6
    )
    assert set(backbone.parts()) == {"encoder", "projector", "decoder"} | (
        {"lora"} if lora else set()
    )
    assert not any("vision" in name for name, _ in backbone.named_parameters())
    fresh = {name for name, weight in backbone.named_parameters() if not is_restored(weight)}
    assert fresh == {name for name, _ in backbone.named_parameters() if "lora" in name}
    assert backbone.model.config.sliding_window is None


def test_the_tokenizer_is_taken_as_it_is(microsoft: Path, folder: Path) -> None:
    """The class that its configuration names, or code in its folder, does not run."""
    text = "<|user|>Der Zug fährt 3000 m, we go <sep> 天气<|end|>"
    ids = loaded(microsoft).tokenizer(text, add_special_tokens=False)["input_ids"]
    assert ids == PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json")).encode(
        text
    )
    assert loaded(microsoft).text(ids) == "Der Zug fährt 3000 m, we go <sep> 天气"


def test_end_tokens_are_those_of_the_generation_config(microsoft: Path, tmp_path: Path) -> None:
    """The original config.json has at most one of the two; without the file, it decides."""
    backbone = loaded(microsoft)
    end, padding = backbone.tokenizer.convert_tokens_to_ids(["<|end|>", "<|endoftext|>"])
    assert backbone.ends == [end, padding]
    folder_without = tmp_path / "phi4"
    shutil.copytree(microsoft, folder_without)
    (folder_without / "generation_config.json").unlink()
    assert padding not in loaded(folder_without).ends


def test_an_adapter_beside_the_weights(
    microsoft: Path, folder: Path, tmp_path: Path, wave: Tensor
) -> None:
    """Transformers' layout, whose adapter peft saves."""
    folder_with_adapter = tmp_path / "phi4"
    shutil.copytree(folder, folder_with_adapter)
    network = Phi4MultimodalForCausalLM.from_pretrained(folder, dtype=torch.float64)
    wrapped = peft.get_peft_model(
        network, peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=TARGETS), "speech"
    )
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if ".lora_" in name:
                parameter.normal_()
    wrapped.save_pretrained(str(tmp_path))
    (tmp_path / "speech").rename(folder_with_adapter / "speech-lora")
    backbones = [loaded(folder_with_adapter), loaded(folder_with_adapter, lora=LORA)]
    expected = scores_of_the_class(network.eval(), backbones[0], wave)
    for backbone in backbones:
        torch.testing.assert_close(scores(backbone, wave), expected, rtol=1e-6, atol=1e-6)
    assert (scores(loaded(folder), wave) - expected).abs().max() > 0.1


@pytest.mark.parametrize("save", ["merged", "adapter"])
def test_round_trip_with_an_adapter(
    microsoft: Path, folder: Path, tmp_path: Path, save: Any, wave: Tensor
) -> None:
    backbone = loaded(microsoft, lora=LoraConfig(rank=RANK, alpha=ALPHA, save=save))
    backbone.trainable(["lora", "projector"])
    before = scores(backbone, wave)
    backbone.save(tmp_path)
    again = loaded(tmp_path)
    torch.testing.assert_close(scores(again, wave), before, rtol=1e-6, atol=1e-6)
    assert (tmp_path / "speech-lora").is_dir() is (save == "adapter")
    if save == "adapter":
        config = Phi4MultimodalConfig.from_pretrained(tmp_path)
        # a tiny one
        config.vision_config = Phi4MultimodalConfig.from_pretrained(folder).vision_config
        network = Phi4MultimodalForCausalLM.from_pretrained(
            tmp_path, config=config, dtype=torch.float64
        )
        network.load_adapter(str(tmp_path / "speech-lora"))
        torch.testing.assert_close(
            scores_of_the_class(network.eval(), backbone, wave), before, rtol=1e-6, atol=1e-6
        )


def test_a_new_adapter_adds_nothing_and_trains_alone(folder: Path, wave: Tensor) -> None:
    backbone = loaded(folder, lora=LoraConfig(rank=2, alpha=4))
    torch.testing.assert_close(
        scores(backbone, wave), scores(loaded(folder), wave), rtol=1e-9, atol=1e-9
    )
    parts = {name: list(parameters) for name, parameters in backbone.parts().items()}
    assert len(parts["lora"]) == 2 * 4 * 4  # none in the audio encoder
    assert sum(map(len, parts.values())) == len(list(backbone.parameters()))
    backbone.trainable(["lora"])
    assert {id(p) for p in backbone.parameters() if p.requires_grad} == {
        id(p) for p in parts["lora"]
    }


def test_bfloat16_keeps_rotary_angles_precise(folder: Path) -> None:
    network = loaded(folder, dtype="bfloat16").model
    assert {parameter.dtype for parameter in network.parameters()} == {torch.bfloat16}
    assert network.model.rotary_emb.inv_freq.dtype == torch.float32


def test_saves_tied_embeddings_once_in_another_type(folder: Path, tmp_path: Path) -> None:
    loaded(folder).save(tmp_path, torch.bfloat16)
    saved = load_file(tmp_path / "model.safetensors")
    assert "lm_head.weight" not in saved
    precise = {name for name, tensor in saved.items() if tensor.dtype != torch.bfloat16}
    # buffers
    assert {name.rpartition(".")[2] for name in precise} == {"global_mean", "global_invstd"}
    loaded(tmp_path)


def _drop(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _reshape(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"] = weights["model.norm.weight"][:3].clone()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _rename(folder: Path) -> None:
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "model_type": "whisper"}))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_drop, r"lacks weights of a Phi-4-Multimodal: model.norm.weight\."),
        (_reshape, r"model.norm.weight of .* has shape \[3\], not \[16\]"),
        (_pickle, "pickled weights are never opened"),
        (_rename, "is a 'whisper' by its config.json"),
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x"), "damaged"),
        (lambda folder: (folder / "speech-lora").mkdir(), "adapter_config.json"),
    ],
)
def test_errors_are_one_sentence(
    folder: Path, tmp_path: Path, spoil: Callable[[Path], object], message: str
) -> None:
    stored = tmp_path / "phi4"
    shutil.copytree(folder, stored)
    spoil(stored)
    with pytest.raises(ZooError, match=message):
        loaded(stored)


def test_another_adapter_than_the_published_is_refused(microsoft: Path) -> None:
    with pytest.raises(ZooError, match=r"rank 3 and alpha 6, but backbone.lora has 320 and 640"):
        loaded(microsoft, lora=LoraConfig())
    with pytest.raises(ZooError, match="rank of at least 1"):
        LoraConfig(rank=0)


def test_a_configured_network_takes_an_adapter(folder: Path) -> None:
    backbone = Phi4Multimodal(
        config=CONFIG, tokenizer=str(folder), lora=LoraConfig(rank=2, alpha=2)
    )
    backbone.load()
    assert len(list(backbone.parts()["lora"])) == 2 * 4 * 2
