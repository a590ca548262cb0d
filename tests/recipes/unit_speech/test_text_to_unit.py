"""Training text-to-unit of a tiny random SeamlessM4T on two hand-made clips with a guide."""

import math
import operator
from typing import Literal

import pytest
import torch
from torch import Tensor

from recipes.unit_speech.attention_guide import guide_loss
from recipes.unit_speech.text_to_unit import TextToUnit, unit_words
from tests.fixtures.descent import assert_descends, scores_of, trainable
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.base.errors import ZooError
from zoo.base.talks import Word
from zoo.data.clips import Clip


def test_units_belong_to_the_last_word_that_has_begun() -> None:
    words = [Word("a", 0.05, 0.1), Word("b", 0.1, 0.2), Word("c", 0.2, 0.3)]
    frames = torch.tensor([2, 4, 1, 8])  # of 20 ms: their middles are 0.02, 0.08, 0.13 and 0.22 s
    assert unit_words(words, frames, 320).tolist() == [0, 0, 1, 2]


def test_the_guide_is_the_mass_on_the_spoken_word() -> None:
    attention = torch.tensor([[[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.2, 0.2, 0.6]]])
    spoken = torch.tensor([[[False, True, True], [False, False, False], [True, False, False]]])
    assert guide_loss(attention, spoken).item() == pytest.approx(
        -(math.log(0.5) + math.log(0.2)) / 2
    )


@pytest.mark.parametrize("state", [0, -1])
def test_each_unit_is_spoken_by_all_tokens_of_its_word(
    speaking: SeamlessM4TSpeech, clips: list[Clip], state: Literal[0, -1]
) -> None:
    objective = TextToUnit(speech=0.0, open=1.0, noise=0.0, state=state)
    objective.prepare([], speaking)
    batch = objective.batch(clips[:1])
    tokenizer, codebook = speaking.tokenizer, speaking.codebook
    assert codebook is not None
    tokens = [
        len(tokenizer.encode(word, add_special_tokens=False)) for word in ("Das", " Haus", " fiel.")
    ]
    assert (
        batch.text.shape[1]
        == 2 + sum(tokens)
        == 2 + len(tokenizer.encode("Das Haus fiel.", add_special_tokens=False))
    )
    frames = codebook.encode(clips[0].samples)
    units, counts = torch.unique_consecutive(frames, return_counts=True)
    assert batch.inputs[0].tolist() == [2, 4 + 8, *(units + 4).tolist()]
    assert batch.labels[0].tolist() == [-100, *(units + 4).tolist(), 2]
    assert not batch.word_mask[0, 0].any()
    middles = (counts.cumsum(0) - counts / 2) * 0.02
    for query, middle in enumerate(middles.tolist(), start=1):
        word = min(int(middle / 0.25), 2)
        first = 2 + state + sum(tokens[:word])
        assert batch.word_mask[0, query].nonzero().flatten().tolist() == list(
            range(first, first + tokens[word])
        )


def test_a_token_has_two_states() -> None:
    with pytest.raises(ZooError, match=r"^Unknown text_to_unit\.state"):
        TextToUnit(state=1)  # type: ignore[arg-type]


def test_texts_are_open_or_closed_and_come_from_speech_or_text(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    for speech in (0.0, 1.0):
        for open in (0.0, 1.0):
            objective = TextToUnit(speech=speech, open=open)
            objective.prepare([], speaking)
            batch = objective.batch(clips)
            assert len(batch.features) == 2 * speech
            assert len(batch.encoder_ids) == 2 * (1 - speech)
            last = [
                int(row[length - 1])
                for row, length in zip(batch.text, batch.text_lengths, strict=True)
            ]
            assert [token == speaking.end for token in last] == [open == 0.0] * 2


def test_source_audio_extends_beyond_the_words_up_to_the_end_of_the_talk(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    """Excerpts cover 0.2 to 1.5 s of a 2 s talk: 64 features of 20 ms, 89 up to its end."""
    lengths = {}
    for ahead in (0.0, 100.0):
        objective = TextToUnit(speech=1.0, ahead=ahead)
        objective.prepare([], speaking)
        lengths[ahead] = objective.batch(clips).lengths.tolist()
    assert lengths[0.0] == [64, 64]
    assert max(lengths[100.0]) == 89


def test_noise_is_units_among_the_inputs_alone(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    inputs, labels = {}, {}
    for noise in (0.0, 1.0):
        objective = TextToUnit(noise=noise)
        objective.prepare([], speaking)
        batch = objective.batch(clips * 4)
        inputs[noise], labels[noise] = batch.inputs, batch.labels
    assert labels[0.0].equal(labels[1.0])
    assert inputs[0.0][:, :2].equal(inputs[1.0][:, :2])  # the end and the language
    noisy = inputs[1.0][:, 2:]
    assert speaking.codebook is not None
    assert 4 <= int(noisy.min()) < int(noisy.max()) < 4 + len(speaking.codebook.centroids)
    assert (noisy != inputs[0.0][:, 2:]).float().mean() > 0.5


def test_the_same_clips_make_the_same_batch(speaking: SeamlessM4TSpeech, clips: list[Clip]) -> None:
    objective = TextToUnit()
    objective.prepare([], speaking)
    first, second = objective.batch(clips * 4), objective.batch(clips * 4)
    assert first.text.equal(second.text)
    assert first.features.equal(second.features)
    assert first.inputs.equal(second.inputs)


def test_each_loss_falls_along_its_gradient_and_the_rest_is_frozen(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    objective = TextToUnit()
    objective.prepare([], speaking)
    before = {name: value.clone() for name, value in speaking.state_dict().items()}
    speaking.trainable(["t2u"])
    speaking.train()
    parameters = trainable(speaking)
    assert all(name.startswith("speaker.t2u.") for name in parameters)
    batch = objective.batch(clips * 2)

    def losses() -> dict[str, Tensor]:
        return objective.losses(speaking, batch)

    assert assert_descends(losses, "loss", parameters) == set(parameters)
    guided = assert_descends(losses, "guide", parameters)
    attention = "speaker.t2u.model.decoder.layers.1.cross_attention."
    assert attention + "q_proj.weight" in guided
    assert attention + "v_proj.weight" not in guided
    values = losses()
    torch.testing.assert_close(values["loss"], values["units"] + 0.2 * values["guide"])
    assert all(value.equal(before[name]) for name, value in speaking.state_dict().items())


def test_the_loss_of_units_is_the_cross_entropy_of_the_labels(
    speaking: SeamlessM4TSpeech, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = TextToUnit(label_smoothing=0.0)
    objective.prepare([], speaking)
    batch = objective.batch(clips)
    head = speaking.speaker.t2u.lm_head
    for shift, loss, accuracy in ((0, 0.0, 1.0), (1, 20.0, 0.0)):
        classes = (batch.labels.clamp_min(0) + shift) % head.out_features
        scores = scores_of(classes, head.out_features)
        monkeypatch.setattr(head, "forward", lambda states, scores=scores: scores)
        losses = objective.losses(speaking, batch)
        assert losses["units"].item() == pytest.approx(loss, abs=1e-5)
        assert losses["unit_accuracy"].item() == accuracy


def test_the_loss_of_a_padded_batch_is_the_mean_of_its_clips(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    objective = TextToUnit(speech=1.0, ahead=0.0, open=0.0, label_smoothing=0.0, noise=0.0)
    objective.prepare([], speaking)
    speaking.eval()
    both = objective.batch(clips)
    alone = [objective.batch([clip]) for clip in clips]
    sizes = [int((batch.labels >= 0).sum()) for batch in alone]
    with torch.no_grad():
        costs = [float(objective.losses(speaking, batch)["units"]) for batch in alone]
        together = float(objective.losses(speaking, both)["units"])
    assert together == pytest.approx(sum(map(operator.mul, costs, sizes)) / sum(sizes), rel=1e-4)


def test_without_weight_there_is_no_guide(speaking: SeamlessM4TSpeech, clips: list[Clip]) -> None:
    objective = TextToUnit(guide=0.0)
    objective.prepare([], speaking)
    losses = objective.losses(speaking, objective.batch(clips))
    assert "guide" not in losses
    assert losses["loss"] == losses["units"]


def test_what_cannot_be_trained_is_refused(speaking: SeamlessM4TSpeech) -> None:
    with pytest.raises(ZooError, match="open from 0 to 1"):
        TextToUnit(open=1.5)
    with pytest.raises(ZooError, match="noise from 0 to 1"):
        TextToUnit(noise=-0.1)
    with pytest.raises(ZooError, match="guide of at least 0"):
        TextToUnit(guide=-0.1)
    speaking.codebook = None
    with pytest.raises(ZooError, match="has no codebook"):
        TextToUnit().prepare([], speaking)
    speaking.with_reader = False
    with pytest.raises(ZooError, match="with its text encoder"):
        TextToUnit().prepare([], speaking)


def state(backbone: SeamlessM4TSpeech) -> dict[str, Tensor]:
    """Weights, statistics and centroids by name."""
    return {name: value.clone() for name, value in backbone.state_dict().items()}
