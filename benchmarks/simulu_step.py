"""python benchmarks/simulu_step.py [--small] [--option N ...]: time per step of SimulU's speech.

A step encodes the audio and decodes the text after a forced prefix, computes the text decoder's
states, generates the units of the kept and the new text and synthesises them. A talk is streamed
by the zoo with the configured trained model (``simulu_minitalks``), because only the units of a
trained model repeat those of the step before, which the zoo guesses and verifies. Every step that
speaks is computed from the same state by Transformers' ``generate`` (``simulu_generate.py``), too,
and must give the same words and units. Times are of this process's CPU. The model is small: a pass
takes a larger share of its time for other things than products than one of a large model.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from harness import (
    add_overrides,
    parameters_millions,
    parser_of,
    print_result,
    print_table,
    recording,
)
from simulu_generate import Generate
from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.backbones.base import Units, UnitSpeech
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.machine.commands import run_script
from zoo.base.types import Hypothesis, Seconds, SpeechChunk
from zoo.config import build, compose
from zoo.streaming.session import SpeechRequest
from zoo.systems.base import StreamingSystem

SIZES = {
    "chunks": (40, 6, "chunks streamed"),
    "f": (4, 4, "inaccessible frames of the policy"),
    "threads": (1, 1, "CPU threads"),
}
PARTS = ("decode", "states", "units", "wave")
PLAIN = "Transformers' generate"
OURS = "the zoo"


@dataclass(slots=True)
class Run:
    """Measurements of one form.

    Attributes:
        seconds: of each part, over all steps that speak.
        passes: passes of the text-to-unit decoder.
    """

    seconds: Counter[str] = field(default_factory=Counter)
    passes: int = 0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time of a part."""
        start = time.process_time()
        yield
        self.seconds[name] += time.process_time() - start

    @property
    def total(self) -> Seconds:
        """Of all parts."""
        return sum(self.seconds[part] for part in PARTS)


class Comparison:
    """The zoo's functions on one stream, and the plain form of every step that speaks.

    Args:
        backbone: loaded backbone, which calls these methods instead of its own.
        plain: the same weights in Transformers' own network.
    """

    def __init__(self, backbone: SeamlessM4TSpeech, plain: Generate) -> None:
        self.backbone = backbone
        self.plain = plain
        self.runs = {PLAIN: Run(), OURS: Run()}
        self.steps = 0
        self.decoded: Seconds = 0.0  # of the step's hypothesis, which may not be spoken
        self._decode, self._vocode = backbone.decode, backbone.vocode

    def decode(self, *inputs: Any) -> list[Hypothesis]:
        """Encode and decode; see ``Backbone.decode``."""
        start = time.process_time()
        hypotheses = self._decode(*inputs)
        self.decoded = time.process_time() - start
        return hypotheses

    @torch.inference_mode()
    def generate_units(self, requests: Sequence[SpeechRequest], *, close: bool) -> list[Units]:
        """Generate the units of one stream by both forms; see ``Speaking.generate_units``.

        Raises ZooError if they differ.
        """
        [request] = requests
        ours, session = self.runs[OURS], request.session
        self.steps += 1
        ours.seconds["decode"] += self.decoded
        with ours.part("states"):
            [states] = self.backbone.fed(requests, close=close)
        with counting_passes(ours), ours.part("units"):
            [units] = self.backbone.speaker.units(
                [states],
                [session.target_language],
                self.backbone.unit_attention,
                earlier=[session.backbone_state.units],
            )
        self._check(request, units, self._plain_units(request, close=close))
        return [units]

    def _plain_units(self, request: SpeechRequest, *, close: bool) -> Tensor:
        """The units (n,) of a step by Transformers' ``generate``."""
        run, plain = self.runs[PLAIN], self.plain
        with run.part("decode"):
            plain.decode(request.session)
        with run.part("states"):
            states = plain.states(request.session, tokens=request.tokens, close=close)
        with run.part("units"):
            units = plain.units(states, request.session)
        run.passes += plain.passes
        return units

    def _check(self, request: SpeechRequest, units: Units, others: Tensor) -> None:
        """Raise ZooError unless both forms have the same new tokens and the same units."""
        new = request.hypothesis.token_ids[: request.tokens].tolist()
        if new != self.plain.written or units.ids.tolist() != others.tolist():
            raise ZooError(f"The forms generate different units in step {self.steps}.")

    def vocode(
        self, units: Sequence[Tensor], language: Language, *, needed: Sequence[range]
    ) -> list[UnitSpeech]:
        """Synthesise units by both forms; see ``Speaking.vocode``."""
        with self.runs[OURS].part("wave"):
            voiced = self._vocode(units, language, needed=needed)
        with torch.inference_mode(), self.runs[PLAIN].part("wave"):
            self.plain.wave(units[0], language)
        return voiced


@contextmanager
def counting_passes(run: Run) -> Iterator[None]:
    """Count passes of the zoo's decoder."""
    call = Decoder.run

    def call_and_count(decoder: Decoder, *inputs: Any, **options: Any) -> Any:
        run.passes += 1
        return call(decoder, *inputs, **options)

    with patch.object(Decoder, "run", call_and_count):
        yield


def load_system(overrides: Sequence[str], f: int) -> tuple[StreamingSystem, SeamlessM4TSpeech]:
    """A loaded system and its backbone. Raises ZooError for other backbones."""
    system = build(compose("evaluate", ["system=simulu", *overrides]).system)
    backbone = system.backbone if isinstance(system, StreamingSystem) else None
    if not isinstance(backbone, SeamlessM4TSpeech):
        raise ZooError(
            f"simulu_step needs a SeamlessM4T with speech output, not {type(backbone).__name__}."
        )
    system.configure_model()
    system.turn_knob(f)
    return system.eval(), backbone


def compare(system: StreamingSystem, backbone: SeamlessM4TSpeech, samples: Tensor) -> Comparison:
    """Stream whole chunks of ``samples`` (n,). Raises ZooError if the forms differ."""
    comparison = Comparison(backbone, Generate(backbone))
    session = system.open("talk")
    ends = range(system.chunk_samples, len(samples) + 1, system.chunk_samples)
    names = ("decode", "generate_units", "vocode")
    methods: dict[str, Callable[..., Any]] = {name: getattr(comparison, name) for name in names}
    with patch.multiple(backbone, **methods):
        for end in ends:
            chunk = samples[end - system.chunk_samples : end]
            system.step([session], [SpeechChunk(chunk, end == ends[-1])])
    if not comparison.steps:
        raise ZooError("No step speaks; use more --chunks.")
    return comparison


def facts(comparison: Comparison) -> dict[str, Any]:
    """Numbers per form, and the zoo's ratios; the text is without units and wave."""
    plain, ours = comparison.runs.values()
    texts = [run.seconds["decode"] + run.seconds["states"] for run in (plain, ours)]
    return {
        "steps": comparison.steps,
        "ms": {
            name: {part: round(1000 * run.seconds[part] / comparison.steps, 1) for part in PARTS}
            for name, run in comparison.runs.items()
        },
        "passes": {name: run.passes for name, run in comparison.runs.items()},
        "step_speedup": round(plain.total / ours.total, 2),
        "text_speedup": round(texts[0] / texts[1], 2),
        "unit_passes_speedup": round(plain.passes / ours.passes, 2),
    }


def print_forms(comparison: Comparison) -> None:
    """A row per form."""
    slowest = comparison.runs[PLAIN].total
    rows = [
        (
            name,
            str(run.passes),
            *(f"{1000 * run.seconds[part] / comparison.steps:.0f}" for part in PARTS),
            f"{1000 * run.total / comparison.steps:.0f}",
            f"{slowest / run.total:.2f}x",
        )
        for name, run in comparison.runs.items()
    ]
    parts = [f"{part} (ms)" for part in PARTS]
    print_table(("form", "unit passes", *parts, "step (ms)", "faster"), rows)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The parsed command line."""
    parser = parser_of(__doc__, SIZES, given=given)
    add_overrides(parser)
    return parser.parse_intermixed_args(given)


def main() -> None:
    """Stream, print a table and the result."""
    options = arguments()
    torch.set_num_threads(options.threads)
    system, backbone = load_system(options.overrides, options.f)
    samples = recording(options.chunks * system.chunk_seconds)
    comparison = compare(system, backbone, samples)
    print_forms(comparison)
    settings = {
        "parameters_millions": parameters_millions(backbone),
        **{name: getattr(options, name) for name in SIZES},
        "overrides": options.overrides,
    }
    print_result("simulu_step", settings, facts(comparison))


if __name__ == "__main__":
    run_script(main)
