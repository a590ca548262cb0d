"""Ours against the class's own forward, in float64; from configuration, without weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, Phi4MultimodalForCausalLM

from tests.backbones.phi4_multimodal.tiny import CONFIG
from zoo.backbones.architectures.chain_of_thought.data import ThoughtBatch
from zoo.backbones.base import FrameEncoder
from zoo.backbones.phi4_multimodal.network import audio_part
from zoo.backbones.phi4_multimodal.phi4_multimodal import Phi4Multimodal
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.base.errors import ZooError
from zoo.base.languages import language


@pytest.fixture(scope="module")
def backbone(folder: Path) -> Phi4Multimodal:
    torch.manual_seed(0)
    loaded_backbone = Phi4Multimodal(
        config=CONFIG, tokenizer=str(folder), embedding_std=0.5, dtype="float64"
    )
    loaded_backbone.load()
    return loaded_backbone


@torch.no_grad()
def test_text_after_speech_has_the_scores_of_the_class(
    backbone: Phi4Multimodal, wave: Tensor
) -> None:
    features = backbone.spectrogram.compute(backbone.spectrogram.open(), wave, 0)
    embeddings = backbone.embeddings(len(features))
    ids = torch.tensor([backbone.prompt.opening(embeddings, language("de"))])
    given = features.double()[None]
    expected = backbone.model(
        input_ids=ids, audio_input_features=given, audio_embed_sizes=torch.tensor([embeddings])
    ).logits
    [hidden], _ = backbone.encode([given[0]])
    inputs = backbone.decoder.get_input_embeddings()(ids)
    inputs[ids == backbone.prompt.audio] = backbone.project(hidden)
    states = backbone.decoder.model(inputs_embeds=inputs).last_hidden_state
    torch.testing.assert_close(
        backbone.decoder.get_output_embeddings()(states), expected, rtol=1e-9, atol=1e-9
    )


def test_every_parameter_is_in_one_part(backbone: Phi4Multimodal) -> None:
    parts = {
        name: {id(parameter) for parameter in parameters}
        for name, parameters in backbone.parts().items()
    }
    assert set(parts) == {"encoder", "projector", "decoder"}
    everything = [number for numbers in parts.values() for number in numbers]
    assert sorted(everything) == sorted(id(parameter) for parameter in backbone.parameters())
    backbone.trainable(["projector"])
    assert {id(p) for p in backbone.parameters() if p.requires_grad} == parts["projector"]
    backbone.trainable(list(parts))


def test_ids_of_tokens_are_the_tokenizers(backbone: Phi4Multimodal, folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = backbone.model.config
    assert config.vocab_size == len(tokenizer)
    assert config.audio_config.audio_token_id == tokenizer.convert_tokens_to_ids("<|endoftext11|>")
    assert config.eos_token_id == [tokenizer.convert_tokens_to_ids("<|end|>")]
    assert backbone.model.lm_head.weight is backbone.model.model.embed_tokens.weight


def test_encodes_one_token_per_80_ms_and_trains_the_encoder(backbone: Phi4Multimodal) -> None:
    assert isinstance(backbone, FrameEncoder)
    samples = torch.randn(2, 20 * 1280)
    hidden, middle = backbone.encode_training(samples, 1)
    assert hidden.shape == middle.shape == (2, 20, 16)
    (hidden.sum() + middle.sum()).backward()
    assert audio_part(backbone.model).encoder.embed.out.weight.grad is not None
    backbone.zero_grad()


def test_feature_statistics_are_fitted_to_the_training_audio(folder: Path) -> None:
    backbone = Phi4Multimodal(config=CONFIG, tokenizer=str(folder), dtype="float64")
    backbone.load()
    waves = [torch.randn(8000) * scale for scale in (0.01, 0.1, 1.0)]
    backbone.fit_features(waves)
    frames = torch.cat(
        [backbone.spectrogram.compute(backbone.spectrogram.open(), wave, 0) for wave in waves]
    ).double()
    normal = audio_part(backbone.model).encoder.encoder_embedding(frames)
    torch.testing.assert_close(normal.mean(0), torch.zeros(80).double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(
        normal.std(0, correction=0), torch.ones(80).double(), rtol=0, atol=1e-6
    )
    with pytest.raises(ZooError, match="no audio"):
        backbone.fit_features([])


def test_saves_what_transformers_reads(
    backbone: Phi4Multimodal, tmp_path: Path, wave: Tensor
) -> None:
    backbone.save(tmp_path)
    read, loading_info = Phi4MultimodalForCausalLM.from_pretrained(
        tmp_path, output_loading_info=True, dtype=torch.float64
    )
    assert all(
        "image_embed" in key or "vision_speech" in key for key in loading_info["missing_keys"]
    )
    assert not loading_info["unexpected_keys"]
    saved = backbone.model.state_dict()
    torch.testing.assert_close(
        {name: read.state_dict()[name] for name in saved}, dict(saved), rtol=0, atol=0
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "backbone.name, or backbone.config and backbone.tokenizer"),
        ({"config": {**CONFIG, "num_attention_heads": "many"}}, "makes no Phi-4-Multimodal"),
        ({"config": {**CONFIG, "hiden_size": 3}}, "hiden_size.*hidden_size"),
        ({"config": {"audio_config": {"blocks": 3}}}, "blocks.*num_blocks"),
        ({"config": None}, "backbone.name, or backbone.config and backbone.tokenizer"),
    ],
)
def test_errors_are_one_sentence(folder: Path, options: dict[str, Any], message: str) -> None:
    tokenizer: dict[str, Any] = {"tokenizer": str(folder)} if options else {}
    with pytest.raises(ZooError, match=message):
        Phi4Multimodal(**tokenizer, **options).load()


def test_checkpointing_recomputes_both_parts_and_changes_no_gradient(
    folder: Path, wave: Tensor
) -> None:
    gradients, passes = [], []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        backbone = Phi4Multimodal(
            config=CONFIG,
            tokenizer=str(folder),
            dtype="float64",
            lora=LoraConfig(rank=2, alpha=4, dropout=0.0),
            gradient_checkpointing=checkpointing,
        )
        backbone.load()
        backbone.train()
        backbone.trainable(["lora", "encoder", "projector"])
        with (
            torch.no_grad()
        ):  # a new adapter adds nothing and would let no gradient through to its first half
            for parameter in backbone.parts()["lora"]:
                parameter.normal_(0, 0.1)
        counted: list[nn.Module] = []
        for layer in (
            backbone.model.model.layers[0].mlp,
            audio_part(backbone.model).encoder.encoders[0].conv,
        ):
            layer.register_forward_pre_hook(
                lambda layer, given, counted=counted: counted.append(layer)
            )
        frames = backbone.spectrogram.compute(backbone.spectrogram.open(), wave, 0)[None].expand(
            2, -1, -1
        )
        ids = torch.tensor([[*backbone.prompt.opening(31, language("de")), 9, 10, 11]] * 2)
        labels = torch.full_like(ids, -100)
        labels[:, -3:] = ids[:, -3:]
        backbone(ThoughtBatch(frames.double(), ids, labels, labels == 9))["loss"].backward()
        gradients.append(
            {name: p.grad for name, p in backbone.named_parameters() if p.requires_grad}
        )
        passes.append(len(counted))
    assert passes == [2, 4]
    assert all(
        gradient is not None and bool(gradient.any())
        for name, gradient in gradients[0].items()
        if "lora" in name
    )
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-12)
