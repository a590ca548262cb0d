"""Training objective of the unit vocoder: spectral losses without discriminators.

Spectral losses are enough for one voice of constant pitch. The published vocoders were trained with
adversarial losses, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.base import Backbone
from zoo.backbones.objective import Objective
from zoo.backbones.seamless_m4t.languages import SpokenLanguages
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.backbones.seamless_m4t.units import FRAME, Codebook, collapse_repetitions, mel_filters
from zoo.base.errors import ZooError, check_numbers
from zoo.base.talks import Talk
from zoo.base.types import Frames
from zoo.data.clips import Clip, ClipConfig, Clips
from zoo.data.sampling import Sampler

RESOLUTIONS = ((512, 480, 120), (1024, 960, 240), (2048, 1600, 400))  # samples: FFT, window, hop
MEL_FFT = 1024  # FFT size of the spectrum that the mel spectrum is computed from
FLOOR = 1e-3  # smallest magnitude of a spectrum, before the logarithm
MEL_FLOOR = 1e-2  # smallest magnitude of a mel spectrum, before the logarithm
CODEBOOK_CLIPS = 600  # largest number of clips that a codebook is fitted to


@dataclass
class VoiceBatch:
    """A batch of padded target speech with units.

    Attributes:
        samples: (batch, n) target speech at 16 kHz.
        units: (batch, n / 320) unit of each frame of 20 ms; repetitions are not merged.
        frames: (batch,) number of frames of each row, without padding.
        languages: (batch,) language ids of the vocoder.
    """

    samples: Tensor
    units: Tensor
    frames: Tensor
    languages: Tensor


class UnitVocoder(Objective):
    """The objective that trains a vocoder to resynthesise speech from its units.

    Each step draws random pieces, which are short extracts of clips. The loss has three terms: the
    distance between spectra of a piece and of its resynthesis, at several resolutions (weight 1);
    the distance between their log mel spectra; and the squared error of log unit durations.

    Args:
        pieces: Number of random pieces per step.
        frames: Length of a piece in unit frames of 20 ms. If a drawn clip is shorter, all pieces of
            the step have the length of the shortest clip.
        mel: Weight of the distance between log mel spectra.
        duration: Weight of the squared error of log durations.
        sampling: Configuration of the clips to train on.

    Raises:
        ZooError: If ``pieces`` or ``frames`` is less than 1, or a weight is negative.
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
        check_numbers("unit_vocoder", least=1, pieces=pieces, frames=frames)
        check_numbers("unit_vocoder", least=0, mel=mel, duration=duration)
        self.pieces = pieces
        self.frames = frames
        self.mel = mel
        self.duration = duration
        self._codebook: Codebook | None = None
        self._languages: SpokenLanguages | None = None

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Take codebook and languages from the backbone; fit the codebook if there is none.

        Args:
            talks: Ignored; the talks of the training set.
            backbone: Loaded SeamlessM4T with speech output.
            samplers: Samplers of the training clips, to which the codebook is fitted.

        Raises:
            ZooError: If the backbone has no codebook of units, or its unit frames are not 20 ms.
        """
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
        """Collate the speech and the units of whole clips; ``losses`` draws pieces of the clips."""
        assert self._codebook is not None, "prepare comes first"
        assert self._languages is not None
        units = [self._codebook.encode(clip.samples) for clip in examples]
        padded_units = pad_sequence(units, batch_first=True)  # (batch, frames)
        samples = pad_sequence([clip.samples for clip in examples], batch_first=True)
        missing = FRAME * padded_units.shape[1] - samples.shape[1]
        codes = [self._languages.code(clip.excerpt.language) for clip in examples]

        return VoiceBatch(
            samples=functional.pad(samples, (0, missing)),
            units=padded_units,
            frames=torch.tensor([len(clip_units) for clip_units in units]),
            languages=torch.tensor([self._languages.voices[code] for code in codes]),
        )

    def tokens(self, batch: VoiceBatch) -> int:
        """Return the number of pieces that ``losses`` draws."""
        return self.pieces

    def losses(self, backbone: Backbone, batch: VoiceBatch) -> dict[str, Tensor]:
        """Compute the losses of random pieces of a batch.

        The pieces are drawn by torch's global generator.

        Args:
            backbone: SeamlessM4T that is trained.
            batch: Collated clips.

        Returns:
            ``loss``, the weighted sum, and its terms ``spectrum``, ``mel`` and ``duration``.
        """
        assert isinstance(backbone, SeamlessM4TSpeech), "prepare has checked it"
        vocoder = backbone.speaker.vocoder
        voice = backbone.speaker.voice

        # Draw the row and the first frame of each piece: (pieces,) each
        device = batch.frames.device
        rows = torch.randint(len(batch.frames), (self.pieces,), device=device)
        length = min(self.frames, int(batch.frames[rows].min()))
        latest_starts = batch.frames[rows] - length
        starts = (torch.rand(self.pieces, device=device) * (latest_starts + 1)).long()

        # Cut units and samples of the pieces: (pieces, length) and (pieces, FRAME * length)
        frame_indices = starts[:, None] + torch.arange(length, device=device)
        sample_indices = FRAME * starts[:, None] + torch.arange(FRAME * length, device=device)
        units = batch.units[rows[:, None], frame_indices]
        reference = batch.samples[rows[:, None], sample_indices]

        speech = synthesize(vocoder, units, batch.languages[rows], voice).float()
        spectrum, mel = distances(speech, reference)
        errors = [duration_error(vocoder, batch.units[row, : batch.frames[row]]) for row in rows]
        duration = torch.stack(errors).mean()

        loss = spectrum + self.mel * mel + self.duration * duration
        return {"loss": loss, "spectrum": spectrum, "mel": mel, "duration": duration}


def fit_units(backbone: SeamlessM4TSpeech, samplers: Sequence[Sampler]) -> None:
    """Fit the codebook of a backbone without a codebook to training clips.

    Args:
        backbone: Backbone whose codebook is fitted; an existing codebook is kept.
        samplers: Samplers of the training set. The first sampler of clips is used.
    """
    parts = (part for sampler in samplers for part in sampler.parts)
    clips = next((part for part in parts if isinstance(part, Clips)), None)
    if clips is not None and backbone.codebook is None:
        indices = range(min(len(clips), CODEBOOK_CLIPS))
        backbone.fit_units(clips[index].samples for index in indices)


def synthesize(vocoder: Any, units: Tensor, languages: Tensor, voice: int) -> Tensor:
    """Synthesise speech from one unit per frame.

    Args:
        vocoder: SeamlessM4TCodeHifiGan of Transformers.
        units: (batch, T) unit of each frame.
        languages: (batch,) language ids of the vocoder.
        voice: Index of the voice in the vocoder.

    Returns:
        Speech at 16 kHz, (batch, 320 T) samples.
    """
    voices = torch.full_like(languages, voice)
    frames = units.shape[1]
    # The same language and the same voice in every frame: (batch, T, width) each
    language_frames = vocoder.language_embedding(languages).unsqueeze(1).expand(-1, frames, -1)
    voice_frames = vocoder.speaker_embedding(voices).unsqueeze(1).expand(-1, frames, -1)
    inputs = torch.cat([language_frames, vocoder.unit_embedding(units), voice_frames], dim=-1)
    samples: Tensor = vocoder.hifi_gan(inputs.transpose(1, 2))
    return samples


def duration_error(vocoder: Any, units: Tensor) -> Tensor:
    """Compute the mean squared error of the predicted durations of units.

    Consecutive frames with the same unit are one unit. Its duration is log(1 + frames).

    Args:
        vocoder: SeamlessM4TCodeHifiGan of Transformers.
        units: (n,) unit of each frame.
    """
    distinct, durations = collapse_repetitions(units)
    predicted = vocoder.dur_predictor(vocoder.unit_embedding(distinct[None]).detach())[0]
    return functional.mse_loss(predicted.float(), durations.float().log1p())


def distances(speech: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Compute spectral distances between two waveforms.

    Args:
        speech: (batch, n) synthesised samples.
        reference: (batch, n) recorded samples.

    Returns:
        Distance of magnitude spectra, the mean over resolutions of the relative distance plus the
        mean absolute difference of logarithms; and the mean absolute difference of log mel spectra.
    """
    total = speech.new_zeros(())
    mel = speech.new_zeros(())
    with torch.autocast(speech.device.type, enabled=False):
        for size, window, hop in RESOLUTIONS:
            predicted = magnitudes(speech, size, window, hop)
            target = magnitudes(reference, size, window, hop)
            total = total + (predicted.log() - target.log()).abs().mean()
            total = total + (predicted - target).norm() / target.norm()
            if size == MEL_FFT:
                filters = mel_filters(size).to(speech.device)
                predicted_mel = (filters @ predicted).clamp(min=MEL_FLOOR).log()
                target_mel = (filters @ target).clamp(min=MEL_FLOOR).log()
                mel = (predicted_mel - target_mel).abs().mean()
    return total / len(RESOLUTIONS), mel


def magnitudes(wave: Tensor, size: int, window: int, hop: int) -> Tensor:
    """Compute the magnitudes of a short-time Fourier transform, at least ``FLOOR``.

    Args:
        wave: (batch, n) samples.
        size: Size of the FFT in samples.
        window: Length of the Hann window in samples.
        hop: Distance between windows in samples.

    Returns:
        (batch, size / 2 + 1, frames).
    """
    hann = torch.hann_window(window, device=wave.device)
    spectrum = torch.stft(wave, size, hop, window, hann, pad_mode="constant", return_complex=True)
    return spectrum.abs().clamp(min=FLOOR)
