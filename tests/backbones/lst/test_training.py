"""Training batches and their loss against a plain computation of each excerpt alone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile
import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.lst.data import dialogue
from zoo.backbones.lst.lst import LST
from zoo.backbones.pretrained.lora import LoraConfig, is_adapter
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Talk
from zoo.data.excerpts import Excerpt, ExcerptConfig
from zoo.training.objectives.teacher_forcing import TeacherForcing

Make = Callable[..., LST]
TEXTS = {1.37: ("Guten", "Tag"), 0.5: (), 2.4: ("Ja",)}  # by seconds


@pytest.fixture
def excerpts(tmp_path: Path, noise: Callable[..., Tensor]) -> list[Excerpt]:
    soundfile.write(tmp_path / "talk.wav", 0.3 * noise(4.0).clamp(-3, 3).numpy(), 16_000)
    talk = Talk("talk", tmp_path / "talk.wav", 4.0, "en", ())
    return [
        Excerpt(talk, 0.25, 0.25 + seconds, (), words, language("de"))
        for seconds, words in TEXTS.items()
    ]


def test_the_dialogue_of_an_excerpt(make: Make) -> None:
    """The loss is on the text and its end alone."""
    tokens = dialogue(
        make().prompt, "Ja.", num_embeddings=3, source=language("en"), target=language("de")
    )
    decode = make().tokenizer.decode
    assert decode(tokens.input_ids) == (
        "<|begin_of_text|> Translate the following speech from English to German.<|eot_id|>"
        "<|user|><|speech|><|speech|><|speech|><|eot_id|><|assistant|> Ja.<|eot_id|>"
    )
    assert decode([label for label in tokens.labels if label != -100]) == " Ja.<|eot_id|>"
    assert [tokens.input_ids[place] for place in tokens.speech_positions] == [
        make().prompt.speech
    ] * 3
    assert tokens.labels[-5:] == tokens.input_ids[-5:]


def test_words_written_before_have_no_label(make: Make, excerpts: list[Excerpt]) -> None:
    batch = make().collator()([replace(excerpts[0], num_forced=1)])
    assert make().tokenizer.decode(batch.labels[0][batch.labels[0] != -100]) == " Tag<|eot_id|>"
    assert make().tokenizer.decode(batch.input_ids[0]).endswith("<|assistant|> Guten Tag<|eot_id|>")


@pytest.mark.parametrize("block_chunks", [0, 1])
def test_the_loss_of_a_batch_is_that_of_its_excerpts_alone(
    make: Make, excerpts: list[Excerpt], block_chunks: int
) -> None:
    backbone = make(block_chunks=block_chunks)
    objective = TeacherForcing(sampling=ExcerptConfig())
    objective.prepare([], backbone)
    losses = objective.losses(backbone, objective.batch(excerpts))
    total, right, labels = torch.zeros((), dtype=torch.float64), 0, 0
    for excerpt in excerpts:
        samples = excerpt.samples()
        samples = F.pad(samples, (0, -samples.numel() % 1280)).double()
        speech = backbone.adapter(backbone.encoder(samples[None], block_chunks or 3).hidden)[0]
        text = (
            backbone.tokenizer(excerpt.text, add_special_tokens=False)["input_ids"]
            if excerpt.target
            else []
        )
        text = [*text, backbone.prompt.end_of_turn]
        before = backbone.tokenizer(
            "<|begin_of_text|>Translate the following speech from English to German.<|eot_id|>"
            "<|user|>",
            add_special_tokens=False,
        )["input_ids"]
        between = backbone.tokenizer("<|eot_id|><|assistant|>", add_special_tokens=False)[
            "input_ids"
        ]
        embed = backbone.decoder.get_input_embeddings()
        parts = [embed(torch.tensor(before)), speech, embed(torch.tensor([*between, *text]))]
        logits = backbone.decoder(inputs_embeds=torch.cat(parts)[None]).logits[
            0, -1 - len(text) : -1
        ]
        total = total + F.cross_entropy(logits, torch.tensor(text), reduction="sum")
        right += int((logits.argmax(-1) == torch.tensor(text)).sum())
        labels += len(text)
    assert labels == len(" Guten Tag") + len(" Ja") + 3
    torch.testing.assert_close(losses["loss"], total / labels, rtol=0, atol=2e-6)
    assert float(losses["token_accuracy"]) == pytest.approx(right / labels)


def test_a_frozen_encoder_has_no_gradient(make: Make, excerpts: list[Excerpt]) -> None:
    backbone = make()
    backbone.trainable(["adapter", "decoder"])
    backbone(backbone.collator()(excerpts))["loss"].backward()
    assert all(parameter.grad is None for parameter in backbone.encoder.parameters())
    assert all(parameter.grad is not None for parameter in backbone.adapter.parameters())


def test_frames_of_an_encoder_that_has_been_run(make: Make, excerpts: list[Excerpt]) -> None:
    """Up to three of them short of whole embeddings."""
    backbone = make()
    frames = [
        backbone.encoder(F.pad(e.samples(), (0, 640)).double()[None], 1).hidden[0, :-2]
        for e in excerpts
    ]
    filled = [F.pad(one, (0, 0, 0, -len(one) % 4)) for one in frames]
    batch = backbone.collator()(
        [replace(e, frames=f) for e, f in zip(excerpts, frames, strict=True)]
    )
    assert [int((row >= 0).sum()) for row in batch.speech_positions] == [
        len(one) // 4 for one in filled
    ]
    alone = [
        backbone(backbone.collator()([replace(e, frames=one)]))["loss"]
        for e, one in zip(excerpts, filled, strict=True)
    ]
    sizes = torch.tensor([len(" Guten Tag") + 1, 1, len(" Ja") + 1])
    torch.testing.assert_close(
        backbone(batch)["loss"], (torch.stack(alone) * sizes).sum() / sizes.sum(), rtol=0, atol=2e-6
    )


def test_an_encoder_without_left_pad_cannot_be_trained(make: Make) -> None:
    """An excerpt's last frames make no embedding, so positions of the dialogue would stay empty."""
    backbone = make()
    backbone.encoder_config = replace(backbone.encoder_config, left_pad=0)
    with pytest.raises(ZooError, match="left_pad=0"):
        backbone.collator()


def test_an_adapter_is_trained_with_recomputed_activations(
    make: Make, excerpts: list[Excerpt], tmp_path: Path
) -> None:
    lora = LoraConfig(rank=2, alpha=4, dropout=0.0)
    backbone = make(lora=lora, gradient_checkpointing=True, layer_drop=0.5).train()
    backbone.trainable(["lora"])
    passes: list[object] = []
    mlp = backbone.decoder.model.layers[0].mlp
    mlp.register_forward_pre_hook(lambda *given: passes.append(given))
    batch = backbone.collator()(excerpts)
    backbone(batch)["loss"].backward()
    assert len(passes) == 2
    trained = {name for name, p in backbone.named_parameters() if p.grad is not None}
    assert trained == {name for name, _ in backbone.named_parameters() if is_adapter(name)}

    with torch.no_grad():
        for parameter in backbone.parts()["lora"]:
            parameter.normal_(0, 0.1)
    backbone.save(tmp_path)
    (tmp_path / "config.yaml").write_text("backbone: {}")  # the rest of an export
    merged = make(name=str(tmp_path), end_scale=1.0).eval()
    expected = backbone.eval()(batch)["loss"]
    torch.testing.assert_close(merged(batch)["loss"], expected)
