"""From text decoder states to target speech: SeamlessM4T's text-to-unit model, then its unit
vocoder.

Transformers' ``generate`` turns control symbols into units (an end becomes unit 1); here they are
never generated.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backbones.base import Units, UnitSpeech
from zoo.backbones.common.encoder_decoder.branches import EncoderDecoderBranches
from zoo.backbones.common.encoder_decoder.decoder import Decoder
from zoo.backbones.common.pretrained.loading import run_layers
from zoo.backbones.common.search import Context, SearchConfig, search
from zoo.backbones.seamless_m4t.languages import SpokenLanguages
from zoo.errors import ZooError
from zoo.languages import Language
from zoo.types import SAMPLE_RATE, Samples

OPENING = 2  # states before a text: start and language


class UnitSpeaker(nn.Module):
    """Text-to-unit model and vocoder.

    Attributes:
        unit_samples: Samples per unit frame.
    """

    t2u: Any
    vocoder: Any

    def __init__(
        self,
        t2u: nn.Module,
        vocoder: nn.Module,
        *,
        languages: SpokenLanguages,
        voice: int,
        max_units: int,
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
    ) -> None:
        """Combine the parts.

        Args:
            t2u: A SeamlessM4TTextToUnitForConditionalGeneration.
            vocoder: A SeamlessM4TCodeHifiGan.
            languages: Languages that both speak.
            voice: Number of the vocoder's speaker.
            max_units: Most units of a text; see ``Units.truncated``.
            search: How units are generated.

        Raises:
            ZooError: For parts that do not fit one another.
        """
        super().__init__()
        self.t2u = t2u
        self.vocoder = vocoder
        self.languages = languages
        self.voice = voice
        self.max_units = max_units
        self.search = search
        self.unit_samples: Samples = prod(self.vocoder.config.upsample_rates)
        self._check()

    def _check(self) -> None:
        ours, theirs = self.t2u.config, self.vocoder.config
        name, voices = self.languages.name, theirs.vocoder_num_spkrs
        if self.max_units < 1:
            raise ZooError(f"Speech needs max_units of at least 1, not {self.max_units}.")
        if not 0 <= self.voice < voices:
            raise ZooError(
                f"The vocoder of {name} has the voices 0 to {voices - 1}, not {self.voice}."
            )
        if ours.vocoder_offset + theirs.unit_hifi_gan_vocab_size > ours.t2u_vocab_size:
            raise ZooError(
                f"The vocoder of {name} has {theirs.unit_hifi_gan_vocab_size} units; its "
                f"text-to-unit model generates at most {ours.t2u_vocab_size - ours.vocoder_offset}."
            )
        sizes = zip(theirs.upsample_kernel_sizes, theirs.upsample_rates, strict=True)
        if theirs.sampling_rate != SAMPLE_RATE or any(
            (kernel - rate) % 2 for kernel, rate in sizes
        ):
            raise ZooError(
                f"The vocoder of {name} must speak at 16 kHz, with so many samples for each unit "
                "frame."
            )

    def check(self, language: Language, *, layer: int | None) -> None:
        """Raise ZooError for a language that is not spoken, and a layer that the text-to-unit
        decoder lacks.
        """
        self.languages.code(language)
        if layer is not None and not 0 <= layer < self.depth:
            raise ZooError(
                f"The text-to-unit decoder has the layers 0 to {self.depth - 1}, not {layer}."
            )

    @property
    def depth(self) -> int:
        """Layers of the text-to-unit decoder."""
        return len(self.t2u.model.decoder.layers)

    def units(
        self, states: Sequence[Tensor], languages: Sequence[Language], *, layer: int | None
    ) -> list[Units]:
        """Units of texts, as a batch; texts do not interact.

        Args:
            states: (positions, width) decoder states of each text; the first OPENING are before the
                text.
            languages: Of each text.
            layer: Whose cross-attention is returned (None: the mean of all layers).
        """
        for language in languages:
            self.check(language, layer=layer)
        codes = [self.languages.code(language) for language in languages]
        prompts = [[self.t2u.config.t2u_eos_token_id, self.languages.units[code]] for code in codes]
        layers = range(self.depth) if layer is None else [layer]
        texts = EncoderDecoderBranches(
            Decoder(self.t2u.model.decoder, self.t2u.lm_head),
            self._encode(states),
            prompts,
            heads=dict.fromkeys(layers),
        )
        answers = search(
            texts,
            self.search,
            contexts=[Context(earlier=[], prompt=prompt) for prompt in prompts],
            limits=[self.max_units + 1] * len(prompts),
            end=self.t2u.config.t2u_eos_token_id,
            never=self._control,
        )
        results = []
        for stream, answer in enumerate(answers):
            ids = (
                torch.tensor(answer.tokens[: self.max_units], dtype=torch.long)
                - self.t2u.config.vocoder_offset
            )
            predicting = texts.attention(stream, answer.generated)[len(prompts[stream]) - 1 :][
                : len(ids)
            ]
            results.append(
                Units(ids, predicting.mean(dim=1).cpu(), OPENING, truncated=not answer.finished)
            )
        return results

    @property
    def _control(self) -> list[int]:
        """Ids of the text-to-unit model that are neither a unit nor the end."""
        first, end = self.t2u.config.vocoder_offset, self.t2u.config.t2u_eos_token_id
        units = range(first, first + self.vocoder.config.unit_hifi_gan_vocab_size)
        return [
            number
            for number in range(self.t2u.config.t2u_vocab_size)
            if number not in units and number != end
        ]

    def _encode(self, states: Sequence[Tensor]) -> list[Tensor]:
        encoder = self.t2u.model.encoder
        return run_layers(encoder.layers, encoder.layer_norm, encoder.config, states)

    def vocode(self, units: Sequence[Tensor], language: Language) -> list[UnitSpeech]:
        """Speech of unit ids (n,), in the voice of a language.

        One by one: the vocoder's convolutions would reach into the padding of a batch.
        """
        number = self.languages.voices[self.languages.code(language)]
        return [self._vocode(ids, number) for ids in units]

    def _vocode(self, ids: Tensor, language: int) -> UnitSpeech:
        vocoder = self.vocoder
        if not len(ids):
            return UnitSpeech(torch.zeros(0), torch.zeros(0, dtype=torch.long))
        units = vocoder.unit_embedding(ids.to(vocoder.unit_embedding.weight.device))
        durations = vocoder.dur_predictor(units[None])[0].expm1().round().long().clamp(min=1)
        frames = units.repeat_interleave(durations, dim=0)
        spoken = vocoder.language_embedding.weight[language].expand(len(frames), -1)
        voice = vocoder.speaker_embedding.weight[self.voice].expand(len(frames), -1)
        wave = vocoder.hifi_gan(torch.cat([spoken, frames, voice], dim=1).T[None])[0]
        return UnitSpeech(wave.float().cpu(), durations.cpu())
