"""Losses and gradients of the unit vocoder, durations, and its codebook."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from recipes.unit_speech.unit_vocoder import UnitVocoder, distances, duration_error, magnitudes
from tests.fixtures.descent import assert_descends, trainable
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.backbones.seamless_m4t.units import Codebook
from zoo.base.errors import ZooError
from zoo.data.clips import Clip


def buzz(seconds: float, hertz: float = 100.0) -> Tensor:
    """Ten harmonics."""
    time = torch.arange(round(16_000 * seconds)) / 16_000
    return sum(
        (0.1 * torch.sin(2 * math.pi * hertz * k * time) for k in range(1, 11)),
        torch.zeros(len(time)),
    )


def test_a_batch_has_the_units_of_whole_clips(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    objective = UnitVocoder()
    objective.prepare([], speaking)
    batch = objective.batch(clips)
    assert speaking.codebook is not None
    assert batch.frames.tolist() == [38, 13]  # 12 000 and 4 000 samples
    assert batch.units[1, :13].tolist() == speaking.codebook.encode(clips[1].samples).tolist()
    assert batch.samples.shape == (2, 38 * 320)
    assert torch.equal(batch.samples[1, :4000], clips[1].samples)
    assert batch.languages.tolist() == [0, 0]


def test_each_loss_falls_along_its_gradient_and_trains_its_part(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    objective = UnitVocoder(pieces=2, frames=12)
    objective.prepare([], speaking)
    batch = objective.batch(clips)

    def losses() -> dict[str, Tensor]:
        torch.manual_seed(0)  # the same pieces each time
        return objective.losses(speaking, batch)

    parameters = trainable(speaking.speaker.vocoder)
    durations = {name for name in parameters if name.startswith("dur_predictor.")}
    assert assert_descends(losses, "duration", parameters) == durations
    for name in ("spectrum", "mel"):
        assert assert_descends(losses, name, parameters) == set(parameters) - durations
    assert assert_descends(losses, "loss", parameters) == set(parameters)
    values = losses()
    torch.testing.assert_close(
        values["loss"], values["spectrum"] + 2 * values["mel"] + values["duration"]
    )


def test_units_of_silence_become_quieter_and_units_of_sound_louder(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    """The vocoder is a gain per unit; the clip is silent in its first half, then a buzz."""
    vocoder = speaking.speaker.vocoder
    with torch.no_grad():
        vocoder.unit_embedding.weight.fill_(0.5)
    carrier = buzz(0.48)

    class Gains(torch.nn.Module):
        def forward(self, given: Tensor) -> Tensor:
            return given[:, 2].repeat_interleave(320, dim=-1) * carrier.repeat(2)

    vocoder.hifi_gan = Gains()
    objective = UnitVocoder(pieces=1, frames=48)
    objective.prepare([], speaking)
    batch = objective.batch([clips[0]])
    batch.units = torch.tensor([[0] * 24 + [1] * 24])
    batch.frames = torch.tensor([48])
    batch.samples = torch.cat([torch.zeros(7680), carrier])[None]
    for name in ("spectrum", "mel"):
        vocoder.unit_embedding.weight.grad = None
        objective.losses(speaking, batch)[name].backward()
        silent, sounding, *others = vocoder.unit_embedding.weight.grad[:, 0].tolist()
        assert silent > 0 > sounding
        assert others == [0.0] * 6


def test_a_checkpoint_has_the_fitted_codebook(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    objective = UnitVocoder(pieces=1, frames=48)
    objective.prepare([], speaking)
    assert speaking.codebook is not None
    fitted = speaking.codebook.centroids.clone()
    state = {name: value.clone() for name, value in speaking.state_dict().items()}
    speaking.codebook.centroids.zero_()  # as if fitted to other clips
    speaking.load_state_dict(state)
    assert objective._codebook is not None
    assert torch.equal(objective._codebook.centroids, fitted)


def test_pieces_line_up_with_the_target_speech(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    """A vocoder that outputs each unit's number has no loss on samples of the same numbers."""

    ramp = torch.arange(8.0)
    vocoder = speaking.speaker.vocoder
    with torch.no_grad():
        vocoder.unit_embedding.weight.copy_(ramp[:, None].expand(-1, 4) / 16)
        vocoder.language_embedding.weight.fill_(0)
    inputs: list[Tensor] = []

    class Numbers(torch.nn.Module):
        def forward(self, given: Tensor) -> Tensor:
            inputs.append(given)
            return given[:, 2].repeat_interleave(320, dim=-1)  # after the language's two

    vocoder.hifi_gan = Numbers()
    units = torch.tensor([0, 3, 3, 5, 1, 7, 7, 7, 2, 6])
    objective = UnitVocoder(pieces=3, frames=4)
    objective.prepare([], speaking)
    batch = objective.batch([replace(clips[0], samples=torch.randn(3200))])
    batch.units = units[None]
    batch.samples = (units / 16).repeat_interleave(320)[None]
    losses = objective.losses(speaking, batch)
    assert losses["spectrum"].item() == losses["mel"].item() == 0.0
    assert inputs[0].shape == (3, 8, 4)


def test_distances_are_those_of_spectra() -> None:
    torch.manual_seed(0)
    one, other = torch.randn(2, 6400), torch.randn(2, 6400)
    same, mel = distances(one, one)
    assert float(same) == float(mel) == 0.0
    louder, louder_mel = distances(2 * one, one)
    # in the logarithm; relative to it
    assert louder.item() == pytest.approx(math.log(2) + 1, rel=1e-3)
    assert float(louder_mel) == pytest.approx(math.log(2), rel=1e-3)
    assert distances(other, one)[0] > 0.5
    assert magnitudes(buzz(0.4)[None], 1024, 960, 240)[0, :, 10].argmax() in (
        6,
        13,
        19,
        26,
        32,
        38,
        45,
        51,
        58,
        64,
    )


def test_the_loss_of_durations_is_squared_in_the_logarithm(speaking: SeamlessM4TSpeech) -> None:
    vocoder = speaking.speaker.vocoder
    with torch.no_grad():
        vocoder.dur_predictor.proj.weight.zero_()
        vocoder.dur_predictor.proj.bias.fill_(math.log(3))  # two frames each
    units = torch.tensor([4, 4, 1, 1, 1, 1])
    wanted = (math.log(5) - math.log(3)) ** 2 / 2
    assert duration_error(vocoder, units).item() == pytest.approx(wanted, rel=1e-5)


def test_only_a_backbone_with_units_of_its_own_is_trained(speaking: SeamlessM4TSpeech) -> None:
    speaking.codebook = None
    with pytest.raises(ZooError, match="cannot train SeamlessM4TSpeech: it has no codebook"):
        UnitVocoder().prepare([], speaking)
    speaking.codebook = Codebook(torch.randn(8, 16), penalty=0.0)
    speaking.speaker.unit_samples = 640
    with pytest.raises(ZooError, match="have 320 samples each; the units of this vocoder have 640"):
        UnitVocoder().prepare([], speaking)
    with pytest.raises(ZooError, match="pieces of at least 1, not 0"):
        UnitVocoder(pieces=0)
    with pytest.raises(ZooError, match="mel of at least 0, not -1"):
        UnitVocoder(mel=-1)


def test_the_codebook_is_saved_with_its_vocoder(
    speaking: SeamlessM4TSpeech, tmp_path: Path
) -> None:
    folder = tmp_path / "saved"
    speaking.save(folder)
    loaded = SeamlessM4TSpeech(name=str(folder), alignment=AlignmentConfig(layer=0))
    joined = SeamlessM4TSpeech(
        config=speaking.config,
        tokenizer=str(folder),
        vocoder=str(folder),
        alignment=AlignmentConfig(layer=0),
    )
    assert speaking.codebook is not None
    for backbone in (loaded, joined):
        backbone.load()
        backbone.fit_units([buzz(1.0)])  # whose units come from elsewhere
        assert backbone.codebook is not None
        assert torch.equal(backbone.codebook.centroids, speaking.codebook.centroids)
        ours, theirs = backbone.speaker.vocoder, speaking.speaker.vocoder
        assert torch.equal(ours.unit_embedding.weight, theirs.unit_embedding.weight)
    before = speaking.codebook.centroids
    speaking.fit_units([buzz(1.0)])
    assert not torch.equal(speaking.codebook.centroids, before)
