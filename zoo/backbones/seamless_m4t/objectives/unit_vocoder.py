"""From units to a waveform: trains a unit vocoder without an adversary.

This is enough for one voice of constant pitch; the published vocoders were trained against
discriminators.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.base import Backbone
from zoo.backbones.common.teacher_forcing import TensorBatch
from zoo.backbones.seamless_m4t.languages import SpokenLanguages
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.data.clips import Clip, ClipConfig, Clips
from zoo.data.sampling import Sampler
from zoo.data.talks import Talk
from zoo.data.units import FRAME, Codebook, collapsed, mel_filters
from zoo.errors import ZooError
from zoo.objectives.base import Objective
from zoo.types import Frames

RESOLUTIONS = ((512, 480, 120), (1024, 960, 240), (2048, 1600, 400))  # samples: FFT, window, hop
MEL_FFT = 1024  # whose spectrum the mel bands are taken of
FLOOR, MEL_FLOOR = 1e-3, 1e-2  # smaller magnitudes are raised to these
CODEBOOK_CLIPS = 600  # most clips that a codebook is fitted on


@dataclass
class VoiceBatch(TensorBatch):
    """Whole clips, padded.

    Attributes:
        samples: (batch, n) target speech.
        units: (batch, n / 320) one unit per frame, not collapsed.
        frames: (batch,) frames that are no padding.
        languages: (batch,) ids of the vocoder.
    """

    samples: Tensor
    units: Tensor
    frames: Tensor
    languages: Tensor


class UnitVocoder(Objective):
    """Spectral distance between speech and its resynthesis, and squared error of log durations.

    Args:
        pieces: Random pieces of clips per step.
        frames: Unit frames of a piece; fewer where a clip is shorter.
        mel: Weight of the distance of log mel spectra; spectra of several resolutions have 1.
        duration: Weight of the squared error of log durations.
        sampling: The clips to train on.
    """

    def __init__(
        self,
        *,
        pieces: int = 8,
        frames: Frames = 40,
        mel: float = 2.0,
        duration: float = 1.0,
        sampling: ClipConfig = ClipConfig(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(sampling)
        if pieces < 1 or frames < 1:
            raise ZooError(
                f"unit_vocoder needs pieces and frames of at least 1, not {pieces} and {frames}."
            )
        if mel < 0 or duration < 0:
            raise ZooError(
                "unit_vocoder.mel and .duration are weights of at least 0, "
                f"not {mel} and {duration}."
            )
        self.pieces = pieces
        self.frames = frames
        self.mel = mel
        self.duration = duration
        self._codebook: Codebook | None = None
        self._languages: SpokenLanguages | None = None

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Take the backbone's units and languages; raises ZooError for one without units."""
        if isinstance(backbone, SeamlessM4TSpeech):
            fit_units(backbone, samplers)
        if not isinstance(backbone, SeamlessM4TSpeech) or backbone.codebook is None:
            raise ZooError(
                f"unit_vocoder cannot train {type(backbone).__name__}: it has no codebook of units."
            )
        if backbone.unit_samples != FRAME:
            raise ZooError(
                f"The units of minitalks have {FRAME} samples each; the units of this vocoder have "
                f"{backbone.unit_samples}."
            )
        self._codebook = backbone.codebook
        self._languages = backbone.speaker.languages

    def batch(self, examples: Sequence[Clip]) -> VoiceBatch:
        """Units and speech of whole clips; ``losses`` draws pieces of them."""
        assert self._codebook is not None, "prepare comes first"
        assert self._languages is not None
        units = [self._codebook.encode(clip.samples) for clip in examples]
        padded = pad_sequence(units, batch_first=True)
        samples = pad_sequence([clip.samples for clip in examples], batch_first=True)
        codes = [self._languages.code(clip.excerpt.language) for clip in examples]

        return VoiceBatch(
            samples=functional.pad(samples, (0, FRAME * padded.shape[1] - samples.shape[1])),
            units=padded,
            frames=torch.tensor([len(one) for one in units]),
            languages=torch.tensor([self._languages.voices[code] for code in codes]),
        )

    def losses(self, backbone: Backbone, batch: VoiceBatch) -> dict[str, Tensor]:
        """``loss`` and its terms ``spectrum``, ``mel`` and ``duration``.

        The pieces are drawn here, by torch's global generator.
        """
        assert isinstance(backbone, SeamlessM4TSpeech), "prepare has checked it"
        vocoder, voice = backbone.speaker.vocoder, backbone.speaker.voice
        rows = torch.randint(len(batch.frames), (self.pieces,), device=batch.frames.device)
        length = min(self.frames, int(batch.frames[rows].min()))
        latest = batch.frames[rows] - length
        starts = (torch.rand(self.pieces, device=rows.device) * (latest + 1)).long()

        frames = starts[:, None] + torch.arange(length, device=rows.device)
        places = FRAME * starts[:, None] + torch.arange(FRAME * length, device=rows.device)
        units = batch.units[rows[:, None], frames]
        speech = synthesize(vocoder, units, batch.languages[rows], voice).float()
        spectrum, mel = distances(speech, batch.samples[rows[:, None], places])
        errors = [duration_error(vocoder, batch.units[row, : batch.frames[row]]) for row in rows]
        duration = torch.stack(errors).mean()

        loss = spectrum + self.mel * mel + self.duration * duration
        return {"loss": loss, "spectrum": spectrum, "mel": mel, "duration": duration}


def fit_units(backbone: SeamlessM4TSpeech, samplers: Sequence[Sampler]) -> None:
    """Fit the codebook of a backbone that has none on the first sampler's clips."""
    clips = next((sampler for sampler in samplers if isinstance(sampler, Clips)), None)
    if clips is not None and backbone.codebook is None:
        few = range(min(len(clips), CODEBOOK_CLIPS))
        backbone.fit_units(clips[index].samples for index in few)


def synthesize(vocoder: Any, units: Tensor, languages: Tensor, voice: int) -> Tensor:
    """Speech of units by a SeamlessM4TCodeHifiGan.

    Args:
        vocoder: The vocoder.
        units: (batch, T) units, one per frame.
        languages: (batch,) ids of the vocoder.
        voice: Id of the speaker.

    Returns:
        (batch, 320 T) samples.
    """
    voices = torch.full_like(languages, voice)
    around = [vocoder.language_embedding(languages), vocoder.speaker_embedding(voices)]
    before, after = (one.unsqueeze(1).expand(-1, units.shape[1], -1) for one in around)
    inputs = torch.cat([before, vocoder.unit_embedding(units), after], dim=-1)
    samples: Tensor = vocoder.hifi_gan(inputs.transpose(1, 2))
    return samples


def duration_error(vocoder: Any, units: Tensor) -> Tensor:
    """Mean squared error of log(1 + frames) over the runs of units (n,), one per frame."""
    distinct, durations = collapsed(units)
    predicted = vocoder.dur_predictor(vocoder.unit_embedding(distinct[None]).detach())[0]
    return functional.mse_loss(predicted.float(), durations.float().log1p())


def distances(speech: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Spectral distances of samples (batch, n).

    Returns:
        The mean over resolutions of the relative and the logarithmic distance of spectra, and the
        distance of log mel spectra.
    """
    total, mel = speech.new_zeros(()), speech.new_zeros(())
    with torch.autocast(speech.device.type, enabled=False):
        for size, window, hop in RESOLUTIONS:
            ours, theirs = (magnitudes(wave, size, window, hop) for wave in (speech, reference))
            total = total + (ours.log() - theirs.log()).abs().mean()
            total = total + (ours - theirs).norm() / theirs.norm()
            if size == MEL_FFT:
                filters = mel_filters(size).to(speech.device)
                bands = [(filters @ one).clamp(min=MEL_FLOOR).log() for one in (ours, theirs)]
                mel = (bands[0] - bands[1]).abs().mean()
    return total / len(RESOLUTIONS), mel


def magnitudes(wave: Tensor, size: int, window: int, hop: int) -> Tensor:
    """(batch, size / 2 + 1, frames) of samples (batch, n)."""
    shape = torch.hann_window(window, device=wave.device)
    spectrum = torch.stft(wave, size, hop, window, shape, pad_mode="constant", return_complex=True)
    return spectrum.abs().clamp(min=FLOOR)
