"""From units to a waveform: what a unit vocoder is trained for, without an adversary. Knows no text.

Enough for one voice that speaks in monotone; the published vocoders were trained against discriminators.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.base import Backbone
from zoo.backbones.seamless_m4t.languages import SpokenLanguages
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.data.clips import Clip
from zoo.data.talks import Talk
from zoo.data.units import FRAME, Codebook, collapsed, mel_filters
from zoo.errors import ZooError
from zoo.objectives.base import Objective
from zoo.types import Frames

RESOLUTIONS = ((512, 480, 120), (1024, 960, 240), (2048, 1600, 400))  # samples: FFT, window, hop
MEL_FFT = 1024  # whose spectrum the mel bands are taken of
FAINT, FAINT_MEL = 1e-3, 1e-2  # magnitudes below them are alike


@dataclass(slots=True)
class VoiceBatch:
    """samples: (B, n) padded. units: (B, n / 320), one per frame, not collapsed. frames: (B,) without padding.

    languages: (B,) ids of the vocoder's.
    """

    samples: Tensor
    units: Tensor
    frames: Tensor
    languages: Tensor

    def to(self, device: torch.device) -> "VoiceBatch":
        """The same batch on ``device``."""
        return VoiceBatch(*(getattr(self, name).to(device) for name in self.__slots__))


class UnitVocoder(Objective):
    """Spectral distance of random pieces from what was spoken, and squared error of log durations.

    pieces: how many a step hears, of ``frames`` unit frames each (fewer where a clip has fewer). mel: weight of the
    distance of log mel spectra beside those of spectra of several resolutions. duration: weight of the squared error.
    """

    takes = Clip

    def __init__(
        self, *, pieces: int = 8, frames: Frames = 40, mel: float = 2.0, duration: float = 1.0
    ) -> None:
        super().__init__()
        if pieces < 1 or frames < 1:
            raise ZooError(
                f"unit_vocoder needs pieces and frames of at least 1, not {pieces} and {frames}."
            )
        if mel < 0 or duration < 0:
            raise ZooError(
                f"unit_vocoder.mel and .duration are weights of at least 0, not {mel} and {duration}."
            )
        self.pieces = pieces
        self.frames = frames
        self.mel = mel
        self.duration = duration
        self._codebook: Codebook | None = None
        self._languages: SpokenLanguages | None = None

    def prepare(self, talks: Sequence[Talk], backbone: Backbone) -> None:
        """Take the backbone's units and languages. Raises ZooError where it does not speak by units of its own."""
        if not isinstance(backbone, SeamlessM4TSpeech) or backbone.codebook is None:
            raise ZooError(
                f"unit_vocoder cannot train {type(backbone).__name__}: it has no codebook of units."
            )
        if backbone.unit_samples != FRAME:
            raise ZooError(
                f"The units of minitalks have {FRAME} samples each; this vocoder makes {backbone.unit_samples}."
            )
        self._codebook = backbone.codebook
        self._languages = backbone.speaker.languages

    def batch(
        self, stretches: Sequence[Clip], multiplier: int, frames: Sequence[Tensor] | None = None
    ) -> VoiceBatch:
        """Units of whole clips; ``losses`` takes pieces of them."""
        assert self._codebook is not None, "prepare comes first"
        assert self._languages is not None
        units = [self._codebook.encode(clip.samples) for clip in stretches]
        padded = pad_sequence(units, batch_first=True)
        samples = pad_sequence([clip.samples for clip in stretches], batch_first=True)
        return VoiceBatch(
            samples=functional.pad(samples, (0, FRAME * padded.shape[1] - samples.shape[1])),
            units=padded,
            frames=torch.tensor([len(one) for one in units]),
            languages=torch.tensor(
                [
                    self._languages.voices[self._languages.code(clip.excerpt.language)]
                    for clip in stretches
                ]
            ),
        )

    def losses(self, backbone: Backbone, batch: VoiceBatch) -> dict[str, Tensor]:
        """``loss``, of ``spectrum``, ``mel`` and ``duration``. The pieces are drawn here, by torch's own generator."""
        assert isinstance(backbone, SeamlessM4TSpeech), "prepare has checked it"
        vocoder, voice = backbone.speaker.vocoder, backbone.speaker.voice
        rows = torch.randint(len(batch.frames), (self.pieces,), device=batch.frames.device)
        length = min(self.frames, int(batch.frames[rows].min()))
        starts = (
            torch.rand(self.pieces, device=rows.device) * (batch.frames[rows] - length + 1)
        ).long()
        units = batch.units[
            rows[:, None], starts[:, None] + torch.arange(length, device=rows.device)
        ]
        places = FRAME * starts[:, None] + torch.arange(FRAME * length, device=rows.device)
        made = spoken(vocoder, units, batch.languages[rows], voice).float()
        spectrum, mel = distances(made, batch.samples[rows[:, None], places])
        duration = torch.stack(
            [duration_error(vocoder, batch.units[row, : batch.frames[row]]) for row in rows]
        ).mean()
        loss = spectrum + self.mel * mel + self.duration * duration
        return {"loss": loss, "spectrum": spectrum, "mel": mel, "duration": duration}


def spoken(vocoder: Any, units: Tensor, languages: Tensor, voice: int) -> Tensor:
    """(B, 320 T) samples of units (B, T), one per frame, by a SeamlessM4TCodeHifiGan. languages: (B,) ids."""
    voices = torch.full_like(languages, voice)
    around = [vocoder.language_embedding(languages), vocoder.speaker_embedding(voices)]
    before, after = (one.unsqueeze(1).expand(-1, units.shape[1], -1) for one in around)
    inputs = torch.cat([before, vocoder.unit_embedding(units), after], dim=-1)
    made: Tensor = vocoder.hifi_gan(inputs.transpose(1, 2))
    return made


def duration_error(vocoder: Any, units: Tensor) -> Tensor:
    """Mean squared error of log(1 + frames) over the runs of units (n,), one per frame."""
    distinct, durations = collapsed(units)
    told = vocoder.dur_predictor(vocoder.unit_embedding(distinct[None]).detach())[0]
    return functional.mse_loss(told.float(), durations.float().log1p())


def distances(made: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """How far samples (B, n) are from others: of spectra, relative and in the logarithm, and of log mel spectra."""
    total, mel = made.new_zeros(()), made.new_zeros(())
    with torch.autocast(made.device.type, enabled=False):
        for size, window, hop in RESOLUTIONS:
            ours, theirs = (magnitudes(wave, size, window, hop) for wave in (made, wanted))
            total = total + (ours.log() - theirs.log()).abs().mean()
            total = total + (ours - theirs).norm() / theirs.norm()
            if size == MEL_FFT:
                filters = mel_filters(size).to(made.device)
                bands = [(filters @ one).clamp(min=FAINT_MEL).log() for one in (ours, theirs)]
                mel = (bands[0] - bands[1]).abs().mean()
    return total / len(RESOLUTIONS), mel


def magnitudes(wave: Tensor, size: int, window: int, hop: int) -> Tensor:
    """(B, size / 2 + 1, frames) of samples (B, n)."""
    shape = torch.hann_window(window, device=wave.device)
    spectrum = torch.stft(wave, size, hop, window, shape, pad_mode="constant", return_complex=True)
    return spectrum.abs().clamp(min=FAINT)
