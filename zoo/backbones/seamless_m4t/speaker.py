"""Speech synthesis from text decoder states: SeamlessM4T's text-to-unit model and unit vocoder.

Barrault et al. (2023) describe both models. Transformers' ``generate`` converts control ids into
units: an end becomes unit 1. This module suppresses all control ids but the end during the search.
"""

from collections.abc import Sequence
from functools import cached_property
from math import ceil, prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.backbones.architectures.encoder_decoder.branches import EncoderDecoderBranches
from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.backbones.base import Units, UnitSpeech
from zoo.backbones.decoding.continuation import Guesses, SearchContext
from zoo.backbones.decoding.guessed_search import EarlierAnswers
from zoo.backbones.decoding.search import SearchConfig, search
from zoo.backbones.decoding.static_steps import Capture, StaticSteps
from zoo.backbones.decoding.unit_attention import UnitAttention
from zoo.backbones.pretrained.loading import run_layers
from zoo.backbones.seamless_m4t.languages import SpokenLanguages
from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import Language
from zoo.base.types import SAMPLE_RATE, Samples

OPENING = 2  # text decoder states before a text: start and language
OUTER_REACH = 3  # positions on each side that the vocoder's first and last convolutions read


class UnitSpeaker(nn.Module):
    """A speech synthesiser that combines a text-to-unit model and a vocoder.

    Attributes:
        t2u: Text-to-unit model, SeamlessM4TTextToUnitForConditionalGeneration of Transformers.
        vocoder: Vocoder, SeamlessM4TCodeHifiGan of Transformers.
        unit_samples: Number of samples per unit frame.
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
        capture: Capture = "off",
    ) -> None:
        """Combine a text-to-unit model and a vocoder.

        Args:
            t2u: Text-to-unit model, SeamlessM4TTextToUnitForConditionalGeneration of Transformers.
            vocoder: Vocoder, SeamlessM4TCodeHifiGan of Transformers.
            languages: Languages that the model speaks, and their ids.
            voice: Index of the voice in the vocoder.
            max_units: Largest number of units generated for a text. ``Units.truncated`` marks texts
                that reach the limit.
            search: Settings of the search that generates units.
            capture: Which steps of the text-to-unit decoder are static; see ``StaticSteps``.

        Raises:
            ZooError: If ``max_units`` is less than 1, the vocoder has no such voice, or the vocoder
                does not fit the text-to-unit model.
        """
        super().__init__()
        self.t2u = t2u
        self.vocoder = vocoder
        self.languages = languages
        self.voice = voice
        self.max_units = max_units
        self.search = search
        self.steps = StaticSteps(capture)
        self.unit_samples: Samples = prod(self.vocoder.config.upsample_rates)
        self._check()

    def _check(self) -> None:
        """Raise ZooError unless the arguments and both configurations fit together."""
        t2u_config = self.t2u.config
        vocoder_config = self.vocoder.config
        name = self.languages.name
        voices = vocoder_config.vocoder_num_spkrs
        check_numbers("Speech", least=1, max_units=self.max_units)
        if not 0 <= self.voice < voices:
            raise ZooError(
                f"The vocoder of {name} has the voices 0 to {voices - 1}, not {self.voice}."
            )

        most_units = t2u_config.t2u_vocab_size - t2u_config.vocoder_offset
        if vocoder_config.unit_hifi_gan_vocab_size > most_units:
            raise ZooError(
                f"The vocoder of {name} has {vocoder_config.unit_hifi_gan_vocab_size} units; its "
                f"text-to-unit model generates at most {most_units}."
            )

        # A transposed convolution multiplies the length by its rate only if kernel - rate is even
        sizes = zip(
            vocoder_config.upsample_kernel_sizes, vocoder_config.upsample_rates, strict=True
        )
        has_odd_padding = any((kernel - rate) % 2 for kernel, rate in sizes)
        if vocoder_config.sampling_rate != SAMPLE_RATE or has_odd_padding:
            raise ZooError(
                f"The vocoder of {name} must speak at 16 kHz, with so many samples for each unit "
                "frame."
            )

    @cached_property
    def _reach(self) -> int:
        """Number of frames on each side of a frame on which its samples depend, at most.

        It follows from the kernels of the vocoder's convolutions, from its output to its input.
        """
        config = self.vocoder.config
        blocks = zip(config.resblock_kernel_sizes, config.resblock_dilation_sizes, strict=True)
        # each dilated convolution of a block is followed by one that is not dilated
        widest = max(
            sum(kernel // 2 * (dilation + 1) for dilation in dilations)
            for kernel, dilations in blocks
        )
        stages = zip(config.upsample_rates, config.upsample_kernel_sizes, strict=True)
        reach = OUTER_REACH
        for rate, kernel in reversed(list(stages)):
            reach = ceil((reach + widest + kernel) / rate)
        return reach + OUTER_REACH

    @property
    def attention_shape(self) -> tuple[int, int]:
        """Number of layers of the text-to-unit decoder, and of attention heads per layer."""
        decoder = Decoder(self.t2u.model.decoder, self.t2u.lm_head)
        return decoder.depth, decoder.heads

    def check(self, language: Language, attention: UnitAttention) -> None:
        """Raise ZooError if ``language`` is not spoken or a layer or head does not exist."""
        self.languages.code(language)
        layers, heads = self.attention_shape
        attention.chosen(layers=layers, heads=heads)

    def units(
        self,
        states: Sequence[Tensor],
        languages: Sequence[Language],
        attention: UnitAttention = UnitAttention(),  # noqa: B008 (frozen)
        earlier: Sequence[EarlierAnswers] | None = None,
    ) -> list[Units]:
        """Generate the units of texts as a batch; the texts do not influence one another.

        Args:
            states: Text decoder states of each text, (positions, width). The first OPENING states
                belong to start and language.
            languages: Language of each text.
            attention: Cross-attention of the text-to-unit decoder that is returned.
            earlier: Units that were generated earlier for each stream, to which these are appended.
                They make the search faster and do not change its units. None: no earlier units.

        Returns:
            Units of each text, with cross-attention.

        Raises:
            ZooError: If a language is not spoken, or the decoder lacks a layer or head.
        """
        for language in languages:
            self.check(language, attention)
        end = self.t2u.config.t2u_eos_token_id
        codes = [self.languages.code(language) for language in languages]
        prompts = [[end, self.languages.units[code]] for code in codes]  # the end id is the start
        layers, heads = self.attention_shape
        texts = EncoderDecoderBranches(
            Decoder(self.t2u.model.decoder, self.t2u.lm_head),
            self._encode(states),
            prompts,
            heads=attention.chosen(layers=layers, heads=heads),
            steps=self.steps,
        )
        guesses = None
        if earlier is not None:
            guesses = Guesses(texts, [known.guess for known in earlier])
        answers = search(
            texts,
            self.search,
            contexts=[SearchContext(earlier=[], prompt=prompt) for prompt in prompts],
            limits=[self.max_units + 1] * len(prompts),
            ends=[end],
            never=self._control,
            guesses=guesses,
        )
        if earlier is not None:
            for known, answer in zip(earlier, answers, strict=True):
                known.append(answer.tokens, end)
        results = []
        for stream, answer in enumerate(answers):
            tokens = torch.tensor(answer.tokens[: self.max_units], dtype=torch.long)
            ids = tokens - self.t2u.config.vocoder_offset

            rows = texts.attention(stream, answer.generated)  # (fed ids, heads, positions)
            weights = attention.of_units(rows, prompt=len(prompts[stream]), units=len(ids))
            results.append(Units(ids, weights.cpu(), OPENING, truncated=not answer.finished))
        return results

    @property
    def _control(self) -> list[int]:
        """Ids of the text-to-unit model that are neither a unit nor the end."""
        config = self.t2u.config
        first_unit = config.vocoder_offset
        units = range(first_unit, first_unit + self.vocoder.config.unit_hifi_gan_vocab_size)
        return [
            token
            for token in range(config.t2u_vocab_size)
            if token not in units and token != config.t2u_eos_token_id
        ]

    def _encode(self, states: Sequence[Tensor]) -> list[Tensor]:
        """Run the text-to-unit encoder: (positions, width) to (positions, width) for each text."""
        encoder = self.t2u.model.encoder
        return run_layers(encoder.layers, encoder.layer_norm, encoder.config, states)

    def vocode(
        self,
        units: Sequence[Tensor],
        language: Language,
        *,
        needed: Sequence[range] | None = None,
    ) -> list[UnitSpeech]:
        """Synthesise speech from units.

        Texts are synthesised one by one, since the vocoder's convolutions would mix the end of a
        text with the padding of a batch.

        Args:
            units: Unit ids of each text, (n,).
            language: Language of all texts.
            needed: Units of each text whose samples are needed. Most samples of other units are not
                computed, and are 0. None: all units.

        Returns:
            Waveform and unit durations of each text.

        Raises:
            ZooError: If the language is not spoken.
        """
        language_id = self.languages.voices[self.languages.code(language)]
        spans = needed or [range(len(ids)) for ids in units]
        return [self._vocode(*pair, language_id) for pair in zip(units, spans, strict=True)]

    def _vocode(self, ids: Tensor, needed: range, language_id: int) -> UnitSpeech:
        """Synthesise the needed units of one text from its unit ids (n,)."""
        vocoder = self.vocoder
        if not len(ids):
            return UnitSpeech(torch.zeros(0), torch.zeros(0, dtype=torch.long))

        # The duration predictor returns log(1 + frames) of each unit
        units = vocoder.unit_embedding(ids.to(vocoder.unit_embedding.weight.device))  # (n, width)
        log_durations = vocoder.dur_predictor(units[None])[0]  # (n,)
        durations = log_durations.expm1().round().long().clamp(min=1)
        frames = units.repeat_interleave(durations, dim=0)  # (frames, width)

        bounds = [0, *durations.cumsum(dim=0).tolist()]  # of the units, in frames
        first = max(0, bounds[needed.start] - self._reach)
        last = min(len(frames), bounds[needed.stop] + self._reach)

        # Language and voice are the same in every frame
        language = vocoder.language_embedding.weight[language_id].expand(last - first, -1)
        voice = vocoder.speaker_embedding.weight[self.voice].expand(last - first, -1)
        inputs = torch.cat([language, frames[first:last], voice], dim=1)
        wave = vocoder.hifi_gan(inputs.T[None])[0]  # (samples,)
        absent = [count * self.unit_samples for count in (first, len(frames) - last)]
        return UnitSpeech(F.pad(wave.float().cpu(), absent), durations.cpu())
