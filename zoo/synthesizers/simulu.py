"""SimulU's speech (Djanibekov et al., 2026, "SimulU", section 2, steps 5 and 6): all kept text is spoken again with
every write, and what belongs to the old part of it is cut off. Knows no network but through ``Speaking``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from zoo.backbones.base import Backbone, Speaking, Units, Voiced
from zoo.errors import ZooError, unknown
from zoo.streaming.session import Session, Write
from zoo.synthesizers.assignment import (
    Assignment,
    Discard,
    Normalisation,
    assigned,
    cut,
    kept,
    scored,
)
from zoo.synthesizers.base import Synthesizer
from zoo.types import SAMPLE_RATE, Capability, Seconds

Counting = Literal["durations", "units"]
Close = Literal["always", "never", "at_end"]
Context = Literal["history", "none"]


class SimulU(Synthesizer):
    """Speaks the kept text and the new tokens in one go and writes the part of the new ones.

    The paper says: units belong to the token of maximum attention (argmax), as many as belong to history are cut off
    the front (count), the whole text history is given. It leaves open the rest, and each of these is measured in
    docs/simulu.md.

    layer: of the text-to-unit decoder (None: mean of all). offset: 0: a token's own state; -1: the one that predicts
    it. normalisation, assignment, discard: see ``zoo.synthesizers.assignment``. counting: samples are counted by the
    vocoder's durations, or 320 per unit ("discarded units x 320", exact only where every duration is 1).
    close: an end of text is fed always, as offline generation does, never, or only at_end of the source. context: what
    is spoken beside the new tokens. fade_seconds: both ends of a write are faded in and out (0: cut as they are).
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SPEECH})

    def __init__(
        self,
        *,
        layer: int | None = None,
        offset: int = 0,
        normalisation: Normalisation = "none",
        assignment: Assignment = "argmax",
        discard: Discard = "count",
        counting: Counting = "durations",
        close: Close = "always",
        context: Context = "history",
        fade_seconds: Seconds = 0.0,
    ) -> None:
        """Raises ZooError for values that make no sense."""
        _check("normalisation", normalisation, Normalisation)
        _check("assignment", assignment, Assignment)
        _check("discard", discard, Discard)
        _check("counting", counting, Counting)
        _check("close", close, Close)
        _check("context", context, Context)
        if offset not in (0, -1):
            raise unknown("synthesizer.offset", offset, (0, -1))
        if fade_seconds < 0:
            raise ZooError(f"SimulU needs fade_seconds of at least 0, not {fade_seconds}.")
        if counting == "units" and discard == "keep_new":
            raise ZooError(
                "synthesizer.counting=units cuts off the front; choose a discard other than keep_new."
            )
        self.layer = layer
        self.offset = offset
        self.normalisation: Normalisation = normalisation
        self.assignment: Assignment = assignment
        self.discard: Discard = discard
        self.counting: Counting = counting
        self.close: Close = close
        self.context: Context = context
        self.fade_samples = round(fade_seconds * SAMPLE_RATE)
        self._voice: Speaking | None = None

    def load(self, backbone: Backbone) -> None:
        """The backbone itself speaks."""
        if not isinstance(backbone, Speaking):
            raise TypeError(f"{type(backbone).__name__} exposes speech and cannot speak.")
        self._voice = backbone

    def open(self, session: Session) -> None:
        """No state. Raises ZooError for a target language or a layer that the backbone lacks."""
        assert self._voice is not None
        self._voice.check_speech(session.target, layer=self.layer)

    def speak(self, writes: Sequence[Write]) -> list[Tensor]:
        """Steps 5 and 6: units of all kept text, their tokens, the waveform from where the new ones begin."""
        assert self._voice is not None
        fed = writes if self.context == "history" else [alone(write) for write in writes]
        units = self._units(self._voice, fed)
        keeps = [self._kept(write, of) for write, of in zip(fed, units, strict=True)]
        said = [index for index, keep in enumerate(keeps) if bool(keep.any())]
        waves = [torch.zeros(0)] * len(writes)
        if said:
            voiced = self._voice.vocode(
                [units[index].ids for index in said], writes[0].session.target
            )
            for index, speech in zip(said, voiced, strict=True):
                waves[index] = self._part(self._voice, keeps[index], speech)
        return waves

    def _units(self, voice: Speaking, writes: Sequence[Write]) -> list[Units]:
        """In one batch, or in two where only some texts are closed."""
        units: dict[int, Units] = {}
        for close in (True, False):
            chosen = [
                index for index, write in enumerate(writes) if self._closes(write.session) == close
            ]
            if chosen:
                texts = [writes[index] for index in chosen]
                units |= zip(
                    chosen, voice.generate_units(texts, layer=self.layer, close=close), strict=True
                )
        return [units[index] for index in range(len(writes))]

    def _closes(self, session: Session) -> bool:
        return self.close == "always" or (self.close == "at_end" and session.ended)

    def _kept(self, write: Write, units: Units) -> Tensor:
        """(units,) bool: those of the new tokens."""
        old = write.hypothesis.prefix
        scores = scored(
            units.attention,
            opening=units.opening,
            tokens=old + write.tokens,
            offset=self.offset,
            normalisation=self.normalisation,
        )
        return kept(assigned(scores, assignment=self.assignment), old=old, discard=self.discard)

    def _part(self, voice: Speaking, keep: Tensor, speech: Voiced) -> Tensor:
        durations = (
            torch.ones_like(speech.durations) if self.counting == "units" else speech.durations
        )
        part = cut(
            speech.samples, keep.to(durations.device), durations, unit_samples=voice.unit_samples
        )
        return faded(part, self.fade_samples)


def alone(write: Write) -> Write:
    """The same write as if nothing had been written before: the states of its opening and of its new tokens."""
    hypothesis = write.hypothesis
    if hypothesis.states is None:
        raise ValueError("The backbone answered without the states it was asked for.")
    opening = len(hypothesis.states) - hypothesis.prefix - hypothesis.new
    states = torch.cat(
        [hypothesis.states[:opening], hypothesis.states[opening + hypothesis.prefix :]]
    )
    starts = hypothesis.word_starts[hypothesis.prefix :]
    return replace(
        write, hypothesis=replace(hypothesis, prefix=0, word_starts=starts, states=states)
    )


def faded(samples: Tensor, fade: int) -> Tensor:
    """A waveform (n,) that rises over its first ``fade`` samples and falls over its last, or each half if shorter."""
    fade = min(fade, len(samples) // 2)
    if not fade:
        return samples
    ramp = torch.linspace(0, 1, fade + 1, device=samples.device, dtype=samples.dtype)[:-1]
    return torch.cat([samples[:fade] * ramp, samples[fade:-fade], samples[-fade:] * ramp.flip(0)])


def _check(option: str, value: str, known: Any) -> None:
    if value not in get_args(known):
        raise unknown(f"synthesizer.{option}", value, get_args(known))
