"""Speech generation of SimulU (Djanibekov et al., 2026, section 2, steps 5 and 6).

At every emission the backbone's speech decoder synthesises the whole kept text, and the samples
that belong to earlier tokens are cut off. Steps 1 to 4 are StreamAtt's: the policy ``alignatt`` and
the history ``recent_words``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from zoo.backbones.base import Backbone, Speaking, Units, UnitSpeech
from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.base.types import SAMPLE_RATE, Capability, Seconds, StreamEvent
from zoo.streaming.session import Session, SpeechRequest
from zoo.synthesizers.assignment import (
    Assignment,
    Discard,
    Normalisation,
    assign_units,
    new_unit_mask,
    select_samples,
    split_units,
    unit_token_scores,
)
from zoo.synthesizers.base import Synthesizer

Counting = Literal["durations", "units"]
Close = Literal["always", "never", "at_end"]
Context = Literal["history", "none"]


@dataclass(kw_only=True, eq=False)
class SimulU(Synthesizer):
    """Synthesises kept and new tokens together and returns the samples of the new tokens.

    The paper specifies ``assignment="argmax"``, ``discard="count"`` and ``context="history"``, but
    not the other options. docs/simulu.md has measurements of the options.

    Args:
        offset: position of a token: 0 is the decoder state of the token itself, -1 the state that
            predicts the token.
        normalisation: conversion of attention weights to scores; see ``unit_token_scores``.
        assignment: rule that assigns units to tokens; see ``assign_units``.
        discard: rule that selects the units of the new tokens; see ``new_unit_mask``. ``split``
            assigns no units to single tokens; see ``split_units``.
        counting: number of samples of a unit. ``durations``: as many as the vocoder predicts;
            ``units``: 320, the "discarded units x 320" of the paper, which is exact only if every
            predicted duration is 1.
        close: moment at which the text-to-unit model receives an end of text: ``always``, as in
            offline generation; ``never``; or ``at_end``, only at the end of the source.
        context: text before the new tokens: ``history`` is the kept text, ``none`` is no text.
        fade_seconds: duration of the linear fade-in and fade-out of each waveform; 0: no fade.

    Raises:
        ZooError: an option has an unknown value, or two options contradict each other.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SPEECH})

    offset: int = 0
    normalisation: Normalisation = "none"
    assignment: Assignment = "argmax"
    discard: Discard = "count"
    counting: Counting = "durations"
    close: Close = "always"
    context: Context = "history"
    fade_seconds: Seconds = 0.0
    _decoder: Speaking | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_choice("synthesizer.offset", self.offset, (0, -1))
        check_choice("synthesizer.normalisation", self.normalisation, get_args(Normalisation))
        check_choice("synthesizer.assignment", self.assignment, get_args(Assignment))
        check_choice("synthesizer.discard", self.discard, get_args(Discard))
        check_choice("synthesizer.counting", self.counting, get_args(Counting))
        check_choice("synthesizer.close", self.close, get_args(Close))
        check_choice("synthesizer.context", self.context, get_args(Context))
        check_numbers("SimulU", least=0, fade_seconds=self.fade_seconds)
        if self.counting == "units" and self.discard == "keep_new":
            raise ZooError(
                "synthesizer.counting=units discards the beginning of the waveform; choose a "
                "synthesizer.discard other than keep_new."
            )
        if self.discard == "split" and self.assignment != "argmax":
            raise ZooError(
                f"synthesizer.discard=split does not use synthesizer.assignment={self.assignment}; "
                "choose argmax or another synthesizer.discard."
            )

    def load(self, backbone: Backbone) -> None:
        """Use the speech decoder of the backbone; see ``Synthesizer``.

        Raises:
            TypeError: the backbone exposes SPEECH but does not implement ``Speaking``.
        """
        if not isinstance(backbone, Speaking):
            raise TypeError(
                f"{type(backbone).__name__} exposes speech but does not implement Speaking."
            )
        self._decoder = backbone

    def open(self, session: Session) -> None:
        """Check the target language; the synthesizer keeps no state.

        Raises:
            ZooError: the backbone does not speak the target language.
        """
        assert self._decoder is not None, "call load first"
        self._decoder.check_speech(session.target_language)

    def synthesize(self, requests: Sequence[SpeechRequest]) -> list[Tensor]:
        """Generate units of all kept text and return the samples of the new tokens' units.

        See ``Synthesizer``; steps 5 and 6 of the paper.
        """
        decoder = self._decoder
        assert decoder is not None, "call load first"
        requests = [
            without_oldest(
                request,
                request.hypothesis.prefix_length if self.context == "none" else request.dropped,
            )
            for request in requests
        ]
        units = self._generate_units(decoder, requests)
        for request, generated in zip(requests, units, strict=True):
            if generated.truncated:
                record_unit_limit(request.session)
        masks = [
            self.new_units(generated, old=request.hypothesis.prefix_length, new=request.tokens)
            for request, generated in zip(requests, units, strict=True)
        ]

        waveforms = [torch.zeros(0)] * len(requests)
        audible = [index for index, mask in enumerate(masks) if bool(mask.any())]
        if audible:
            language = requests[0].session.target_language
            speech = decoder.vocode(
                [units[index].ids for index in audible],
                language,
                needed=[self._needed(masks[index]) for index in audible],
            )
            for index, voiced in zip(audible, speech, strict=True):
                waveforms[index] = self._new_samples(masks[index], voiced, decoder.unit_samples)
        return waveforms

    def _generate_units(self, decoder: Speaking, requests: Sequence[SpeechRequest]) -> list[Units]:
        """Generate the units of all requests in one batch, or in two if ``close`` differs."""
        units: dict[int, Units] = {}
        for close in (True, False):
            indices = [
                index
                for index, request in enumerate(requests)
                if self._closes(request.session) == close
            ]
            if indices:
                batch = [requests[index] for index in indices]
                generated = decoder.generate_units(batch, close=close)
                units |= zip(indices, generated, strict=True)
        return [units[index] for index in range(len(requests))]

    def _closes(self, session: Session) -> bool:
        return self.close == "always" or (self.close == "at_end" and session.must_flush)

    def new_units(self, units: Units, *, old: int, new: int) -> Tensor:
        """Select the units of the new tokens.

        Args:
            units: Units of a text.
            old: Number of earlier tokens of the text.
            new: Number of new tokens after them.

        Returns:
            (units,) bool, True for the units of the new tokens.
        """
        scores = unit_token_scores(
            units.attention,
            opening=units.opening,
            tokens=old + new,
            offset=self.offset,
            normalisation=self.normalisation,
        )
        if self.discard == "split":
            return split_units(scores, old=old)
        tokens = assign_units(scores, assignment=self.assignment)
        return new_unit_mask(tokens, old=old, discard=self.discard)

    def _needed(self, keep: Tensor) -> range:
        """Return the units whose samples may be kept, from the first to the last.

        Args:
            keep: (units,) bool, True for units to keep, at least one.
        """
        # Samples are then assigned by the number of units, so all units are needed.
        if self.counting == "units":
            return range(len(keep))
        indices = keep.nonzero()[:, 0].tolist()
        return range(indices[0], indices[-1] + 1)

    def _new_samples(self, keep: Tensor, voiced: UnitSpeech, unit_samples: int) -> Tensor:
        durations = voiced.durations
        if self.counting == "units":
            durations = torch.ones_like(durations)
        samples = select_samples(
            voiced.samples, keep.to(durations.device), durations, unit_samples=unit_samples
        )
        return fade(samples, round(self.fade_seconds * SAMPLE_RATE))


def record_unit_limit(session: Session) -> None:
    """Add to the events of a session that the units of an output stopped at their maximum."""
    session.events.append(StreamEvent("unit_limit", session.audio_start / SAMPLE_RATE))


def without_oldest(request: SpeechRequest, tokens: int) -> SpeechRequest:
    """Return a request without the first of its kept tokens.

    The decoder states of the opening (start and language) and of all other tokens remain.

    Args:
        request: the request.
        tokens: number of kept tokens to leave out.

    Raises:
        ValueError: the hypothesis has no decoder states.
    """
    if not tokens:
        return request
    hypothesis = request.hypothesis
    if hypothesis.decoder_states is None:
        raise ValueError("The backbone returned a hypothesis without the requested states.")

    opening = len(hypothesis.decoder_states) - hypothesis.prefix_length - hypothesis.num_new_tokens
    states = torch.cat(
        [hypothesis.decoder_states[:opening], hypothesis.decoder_states[opening + tokens :]]
    )
    return replace(
        request,
        hypothesis=replace(
            hypothesis,
            prefix_length=hypothesis.prefix_length - tokens,
            word_starts=hypothesis.word_starts[tokens:],
            decoder_states=states,
        ),
    )


def fade(samples: Tensor, length: int) -> Tensor:
    """Apply a linear fade-in and fade-out to a waveform.

    Args:
        samples: (n,) waveform.
        length: number of samples of each fade; at most n / 2.

    Returns:
        (n,) waveform.
    """
    length = min(length, len(samples) // 2)
    if not length:
        return samples
    ramp = torch.linspace(0, 1, length + 1, device=samples.device, dtype=samples.dtype)[:-1]
    return torch.cat(
        [samples[:length] * ramp, samples[length:-length], samples[-length:] * ramp.flip(0)]
    )
