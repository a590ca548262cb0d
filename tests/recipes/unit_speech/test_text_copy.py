"""Training the text encoder of a tiny random SeamlessM4T while its decoder stays frozen."""

import pytest
import torch

from recipes.unit_speech.text_copy import TextCopy
from tests.fixtures.descent import assert_descends, scores_of, trainable
from zoo.backbones.architectures.speech_llm.prompt import LEAN
from zoo.backbones.encoders.wav2vec2.encoder import EncoderConfig
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.base.errors import ZooError
from zoo.data.clips import Clip


def test_encoder_and_decoder_are_fed_the_same_text(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    objective = TextCopy()
    objective.prepare([], speaking)
    batch = objective.batch(clips[:1])
    german, end = speaking.tokenizer.convert_tokens_to_ids("__deu__"), speaking.end
    text = speaking.tokenizer.encode("Das Haus fiel.", add_special_tokens=False)
    assert batch.encoder_ids[0].tolist() == [german, *text, end]
    assert batch.inputs[0].tolist() == [speaking.languages.start, german, *text]
    assert batch.labels[0].tolist() == [-100, *text, end]


def test_the_loss_falls_along_the_gradient_of_the_text_encoder(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    objective = TextCopy()
    objective.prepare([], speaking)
    speaking.trainable(["reader"])
    speaking.train()
    parameters = trainable(speaking)
    assert all(name.startswith("reader.") and "embed" not in name for name in parameters)
    batch = objective.batch(clips)
    moved = assert_descends(lambda: objective.losses(speaking, batch), "loss", parameters)
    assert moved == set(parameters)


def test_the_loss_is_the_cross_entropy_of_the_labels(
    speaking: SeamlessM4TSpeech, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = TextCopy()
    objective.prepare([], speaking)
    batch = objective.batch(clips)
    head, labels = speaking.decoder.head, batch.labels[batch.labels != -100]
    for shift, loss, accuracy in ((0, 0.0, 1.0), (1, 20.0, 0.0)):
        scores = scores_of((labels + shift) % head.out_features, head.out_features)
        monkeypatch.setattr(head, "forward", lambda states, scores=scores: scores)
        losses = objective.losses(speaking, batch)
        assert losses["loss"].item() == pytest.approx(loss, abs=1e-5)
        assert losses["token_accuracy"].item() == accuracy


def test_the_loss_of_a_padded_batch_is_the_mean_of_its_rows(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    objective = TextCopy()
    objective.prepare([], speaking)
    speaking.eval()
    sizes, costs = [], []
    with torch.no_grad():
        for clip in clips:
            batch = objective.batch([clip])
            sizes.append(int((batch.labels >= 0).sum()))
            costs.append(float(objective.losses(speaking, batch)["loss"]) * sizes[-1])
        together = float(objective.losses(speaking, objective.batch(clips))["loss"])
    assert together == pytest.approx(sum(costs) / sum(sizes), rel=1e-4)


def test_a_backbone_without_a_text_encoder_is_refused() -> None:
    backbone = InfiniSST(encoder=EncoderConfig(), decoder={}, template=LEAN, tokenizer="none")
    with pytest.raises(ZooError, match=r"with its text encoder .*, not this InfiniSST"):
        TextCopy().prepare([], backbone)
