"""Recognition: frame labels by hand, deterministic batches, gradients of the losses, errors."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.backbones.ctc.conftest import TINY
from tests.fixtures.descent import assert_descends, scores_of, trainable
from zoo.backbones.ctc.augmentation import Augmentation
from zoo.backbones.ctc.ctc import CTC
from zoo.backbones.ctc.objective import IGNORED, PHONEMES, Recognition, frame_phonemes
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Talk, Word
from zoo.base.types import SAMPLE_RATE
from zoo.data.clips import Clip
from zoo.data.excerpts import Excerpt

SHAPE = TINY | {"hidden_size": 32, "intermediate_size": 32, "initializer_range": 0.02}
TONES = {"a": 300.0, "b": 1200.0}  # hertz
CLEAN = Augmentation(share=0.0, gain=0.0)


def clip(words: tuple[str, ...]) -> Clip:
    """Each letter is a tone of 0.1 s, which is its phoneme; 0.05 s of silence before each word."""
    wave: list[Tensor] = []
    phonemes = []
    for word in words:
        wave.append(torch.zeros(800))
        for letter in word.lower().strip("."):
            start = sum(map(len, wave)) / SAMPLE_RATE
            wave.append(
                0.3 * torch.sin(torch.arange(1600) * 2 * torch.pi * TONES[letter] / SAMPLE_RATE)
            )
            phonemes.append(Word(letter, start, start + 0.1))
    talk = Talk("talk", Path("talk.wav"), 10.0, "en", ())
    return Clip(
        Excerpt(talk, 0.0, 1.0, (), words, language("de")),
        torch.cat(wave),
        (),
        tuple(phonemes),
        "de",
    )


CLIPS = [clip(("Ab", "ba.")), clip(("b", "ab", "a")), clip(("Abab.",))]


def prepared(**options: object) -> tuple[Recognition, CTC]:
    torch.manual_seed(0)
    backbone = CTC(name=None, config=SHAPE, letters="ab")
    backbone.load()
    objective = Recognition(**options)  # type: ignore[arg-type]
    objective.prepare([], backbone)
    backbone.train()
    return objective, backbone


def test_the_label_of_a_frame_is_the_phoneme_at_its_middle() -> None:
    """Frames of 400 samples every 320: their middles are 200, 520, 840, ... samples."""
    phonemes = [
        Word("a", 521 / SAMPLE_RATE, 1160 / SAMPLE_RATE),
        Word("b", 1160 / SAMPLE_RATE, 9.0),
    ]
    labels = frame_phonemes(phonemes, 1680, (400, 320))
    assert len(labels) == 5  # the sixth would end at sample 2000
    assert labels[:2].tolist() == [0, 0]
    assert labels[2] > 0
    assert labels[3] == labels[4] > 0
    assert labels[2] != labels[3]
    assert int(labels.max()) < PHONEMES


def test_a_batch_holds_letters_and_phonemes() -> None:
    objective, backbone = prepared(augmentation=CLEAN)
    batch = objective.batch(CLIPS)
    assert backbone.spelling.text(batch.letters.tolist()) == "ab bab ab aabab"
    assert batch.counts.tolist() == [5, 6, 4]
    frames = [(len(one.samples) - 240) // 320 for one in CLIPS]  # of 560 samples each
    assert batch.mask.sum(1).tolist() == frames
    assert batch.phonemes.shape == batch.mask.shape == (3, max(frames))
    assert (batch.phonemes != IGNORED).sum(1).tolist() == frames
    assert batch.values.shape == (3, max(frames), 160)
    row = batch.values[0, : frames[0]].unflatten(-1, (2, 80)).flatten(0, 1)
    assert row.mean(dim=0).abs().max() < 0.05
    assert row.std(dim=0) == pytest.approx(1.0, abs=0.05)


def test_equal_clips_make_equal_batches_and_other_clips_are_augmented_differently() -> None:
    objective, _ = prepared(augmentation=Augmentation(share=1.0))
    first, again = objective.batch(CLIPS), objective.batch(CLIPS)
    assert torch.equal(first.values, again.values)
    swapped = objective.batch(CLIPS[::-1])
    assert not torch.equal(first.values[0], swapped.values[2])


def test_augmentation_by_hand() -> None:
    samples = CLIPS[2].samples
    assert torch.equal(CLEAN(samples, np.random.default_rng(0)), samples)
    louder = Augmentation(share=0.0, gain=6.0)(samples, np.random.default_rng(0))
    factor = float(louder.abs().max() / samples.abs().max())
    assert 0.5 < factor < 2.0
    assert torch.allclose(louder, factor * samples, atol=1e-6)
    noisy = Augmentation(share=1.0, gain=0.0, noise=(20.0, 20.0), notch=0.0, phases=0.0)(
        samples, np.random.default_rng(0)
    )
    rest = (noisy - samples)[400:-400]
    assert 20 * float(torch.log10(samples.std() / rest.std())) == pytest.approx(20.0, abs=0.3)
    turned = Augmentation(share=1.0, gain=0.0, noise=(99.0, 99.0), notch=0.0)(
        samples, np.random.default_rng(0)
    )
    assert len(turned) == len(samples)
    assert 0.1 < float((turned - samples).std() / samples.std()) < 2.0


def test_each_loss_falls_along_its_gradient_and_trains_its_layers() -> None:
    objective, backbone = prepared(augmentation=CLEAN, phoneme_layer=1)
    batch = objective.batch(CLIPS)
    parameters = trainable(backbone, objective)

    def losses() -> dict[str, Tensor]:
        torch.manual_seed(0)
        return objective.losses(backbone, batch)

    head = {"head.weight", "head.bias"}
    assert assert_descends(losses, "letters", parameters) == set(parameters) - head
    above = {name for name in parameters if ".layers.1." in name or "lm_head" in name}
    assert assert_descends(losses, "phonemes", parameters) == set(parameters) - above
    values = losses()
    torch.testing.assert_close(values["loss"], values["letters"] + values["phonemes"])


def test_phonemes_are_scored_by_the_cross_entropy_of_their_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objective, backbone = prepared(augmentation=CLEAN, phoneme_layer=1)
    batch = objective.batch(CLIPS)
    for shift, loss, accuracy in ((0, 0.0, 1.0), (1, 20.0, 0.0)):
        scores = scores_of((batch.phonemes.clamp_min(0) + shift) % PHONEMES, PHONEMES)
        monkeypatch.setattr(objective.head, "forward", lambda hidden, scores=scores: scores)
        losses = objective.losses(backbone, batch)
        assert losses["phonemes"].item() == pytest.approx(loss, abs=1e-5)
        assert losses["phoneme_accuracy"].item() == accuracy


def test_weights_of_the_losses() -> None:
    objective, backbone = prepared(augmentation=CLEAN, letters=0.5, phonemes=2.0)
    with torch.no_grad():
        losses = objective.losses(backbone.eval(), objective.batch(CLIPS))
    assert float(losses["loss"]) == pytest.approx(
        0.5 * float(losses["letters"]) + 2 * float(losses["phonemes"])
    )


def test_errors() -> None:
    with pytest.raises(ZooError, match="phoneme_layer is one of 1 to 2, not 3"):
        prepared(phoneme_layer=3)
    with pytest.raises(ZooError, match="trains CTC recognisers, not Other"):
        Recognition().prepare([], type("Other", (), {})())
