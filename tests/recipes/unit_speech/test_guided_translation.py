"""Spoken words as memory frames, the attention guide, and errors."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import soundfile
import torch
from torch import Tensor

from recipes.unit_speech.guided_translation import GuidedTranslation, span_loss
from tests.fixtures.descent import assert_descends, scores_of, trainable
from zoo.backbones.architectures.speech_llm.prompt import LEAN
from zoo.backbones.encoders.wav2vec2.encoder import EncoderConfig
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Talk
from zoo.data.excerpts import Excerpt

GERMAN = language("de")


@pytest.fixture
def excerpts(tmp_path: Path) -> list[Excerpt]:
    generator = torch.Generator().manual_seed(0)
    soundfile.write(
        tmp_path / "talk.wav", 0.1 * torch.randn(48_000, generator=generator).numpy(), 16_000
    )
    talk = Talk("talk", tmp_path / "talk.wav", 3.0, "en", ())
    return [
        Excerpt(
            talk,
            0.5,
            2.5,
            (),
            ("Das", "Haus", "fiel."),
            GERMAN,
            spans=((1.0, 1.5), None, (1.7, 2.0)),
        ),
        Excerpt(talk, 0.5, 1.5, (), ("Oh",), GERMAN),
    ]


def test_positions_have_the_frames_of_the_word_they_predict(
    speaking: SeamlessM4TSpeech, excerpts: list[Excerpt]
) -> None:
    objective = GuidedTranslation(layer=0, own=0.0)
    objective.prepare([], speaking)
    batch = objective.batch([excerpts[0]])
    pieces = speaking.tokenizer.convert_ids_to_tokens(batch.speech.inputs[0].tolist())
    starts = [place for place, piece in enumerate(pieces) if piece.startswith("▁")]
    das, haus, fiel = starts
    expected = torch.full((len(pieces),), -1)
    expected[das - 1 : haus - 1] = int(0.5 / 0.16)  # from 0.5 s of the excerpt, of 160 ms
    expected[fiel - 1 : len(pieces) - 1] = int(1.2 / 0.16)
    assert batch.first[0].tolist() == expected.tolist()
    assert int(batch.last[0, das - 1]) == int(1.0 / 0.16)
    assert batch.first[0, -1] == -1  # the end has no frame


def test_the_guide_is_the_mass_on_the_word_where_there_is_one() -> None:
    attention = torch.tensor([[[0.1, 0.2, 0.7], [0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]])
    first, last = torch.tensor([[1, -1, 2]]), torch.tensor([[2, -1, 2]])
    expected = -(torch.tensor([0.9, 1e-4]).log().mean())
    torch.testing.assert_close(span_loss(attention, first, last), expected)
    assert span_loss(attention, torch.full((1, 3), -1), last) == 0


def test_each_loss_falls_along_its_gradient(
    speaking: SeamlessM4TSpeech, excerpts: list[Excerpt]
) -> None:
    objective = GuidedTranslation(layer=0, guide=1.0, own=0.0)
    objective.prepare([], speaking)
    speaking.trainable(["encoder", "adaptor", "decoder"])
    parameters = trainable(speaking)
    batch = objective.batch(excerpts[:1])

    def losses() -> dict[str, Tensor]:
        return objective.losses(speaking, batch)

    assert assert_descends(losses, "loss", parameters) == set(parameters)
    guided = assert_descends(losses, "guide", parameters)
    attention = "decoder.module.layers.0.cross_attention."
    assert attention + "q_proj.weight" in guided
    assert attention + "v_proj.weight" not in guided
    values = losses()
    torch.testing.assert_close(values["loss"], values["translation"] + values["guide"])


def test_the_translation_loss_is_the_cross_entropy_of_the_labels(
    speaking: SeamlessM4TSpeech, excerpts: list[Excerpt], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = GuidedTranslation(layer=0, own=0.0)
    objective.prepare([], speaking)
    batch = objective.batch(excerpts)
    head, labels = speaking.decoder.head, batch.speech.labels[batch.speech.labels != -100]
    for shift, loss, accuracy in ((0, 0.0, 1.0), (1, 20.0, 0.0)):
        scores = scores_of((labels + shift) % head.out_features, head.out_features)
        monkeypatch.setattr(head, "forward", lambda states, scores=scores: scores)
        losses = objective.losses(speaking, batch)
        assert losses["translation"].item() == pytest.approx(loss, abs=1e-5)
        assert losses["token_accuracy"].item() == accuracy


def test_the_layer_below_is_guided_to_the_word_that_is_fed(
    speaking: SeamlessM4TSpeech, excerpts: list[Excerpt], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = GuidedTranslation(layer=1, guide=0.5, own=2.0)
    speaking.decoder.depth = 2
    objective.prepare([], speaking)
    batch = objective.batch(excerpts[:1])
    frames = int(batch.last.max()) + 2
    fed = torch.nn.functional.one_hot(batch.first.roll(1, dims=1).clamp_min(0), frames).float()
    guide_weights = torch.nn.functional.one_hot(batch.first.clamp_min(0), frames).float()
    states = torch.zeros(*batch.first.shape, speaking.decoder.width)
    outputs = SimpleNamespace(
        last_hidden_state=states, cross_attentions=(fed[:, None], guide_weights[:, None])
    )
    monkeypatch.setattr(speaking.decoder.module, "forward", lambda **given: outputs)
    with torch.no_grad():
        losses = objective.losses(speaking, batch)
    torch.testing.assert_close(losses["guide"], torch.tensor(0.0))
    torch.testing.assert_close(losses["own"], torch.tensor(0.0))
    swapped = SimpleNamespace(
        last_hidden_state=states, cross_attentions=(guide_weights[:, None], guide_weights[:, None])
    )
    monkeypatch.setattr(speaking.decoder.module, "forward", lambda **given: swapped)
    with torch.no_grad():
        wrong = objective.losses(speaking, batch)
    assert wrong["own"] > 1
    torch.testing.assert_close(wrong["loss"], wrong["translation"] + 2.0 * wrong["own"])


def test_without_spans_there_is_no_guide(
    speaking: SeamlessM4TSpeech, excerpts: list[Excerpt]
) -> None:
    objective = GuidedTranslation(layer=0, own=0.0)
    objective.prepare([], speaking)
    with torch.no_grad():
        losses = objective.losses(speaking, objective.batch(excerpts[1:]))
    assert losses["guide"] == 0
    assert losses["loss"] == losses["translation"]


def test_other_backbones_are_refused(speaking: SeamlessM4TSpeech) -> None:
    backbone = InfiniSST(encoder=EncoderConfig(), decoder={}, template=LEAN, tokenizer="none")
    with pytest.raises(ZooError, match="trains a SeamlessM4T that speaks, not InfiniSST"):
        GuidedTranslation().prepare([], backbone)
    with pytest.raises(ZooError, match="names layer 5"):
        GuidedTranslation(layer=5).prepare([], speaking)
    with pytest.raises(ZooError, match="at least 0"):
        GuidedTranslation(guide=-1.0)
    with pytest.raises(ZooError, match="no layer below layer 0"):
        GuidedTranslation(layer=0)
