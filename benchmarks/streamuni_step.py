"""python benchmarks/streamuni_step.py [--small] [--option N ...]: StreamUni's decoder passes.

A plain loop generates every answer from scratch, to its end or to the limit of the released code;
the zoo saves decoder passes, and every form must emit the same words. One talk, all forms in turn
per chunk, in seconds of this process's CPU, so that other load counts as little as possible. Audio,
transcripts, cuts and words are real, those of the configured trained model (``phi4_minitalks``).
"""

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from harness import (
    add_overrides,
    parameters_millions,
    parser_of,
    print_result,
    print_table,
    recording,
)
from streamuni_plain import PlainLoop
from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.base import Backbone
from zoo.backbones.decoding.causal.layers import FastLayers
from zoo.base.errors import ZooError
from zoo.base.machine.commands import run_script
from zoo.base.types import SAMPLE_RATE, Samples, Seconds, SpeechChunk
from zoo.config import build, compose
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem

SIZES = {
    "chunks": (60, 12, "chunks streamed"),
    "k": (3, 3, "words by which the translation lags the transcript"),
    "threads": (1, 1, "CPU threads"),
}
PLAIN = "plain: whole answers, token by token"
RELEASED = "with the released code's limits"
OURS = "the zoo"


@dataclass(slots=True)
class Run:
    """Measurements of one stream.

    Attributes:
        seconds: per chunk.
        texts: emitted after each chunk.
        passes: number of decoder passes.
    """

    seconds: list[Seconds] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    passes: int = 0

    @property
    def milliseconds(self) -> float:
        """Mean per chunk; a chunk that cuts costs several times the median."""
        return 1000 * statistics.mean(self.seconds)


@contextmanager
def counting_passes(decoder: nn.Module, run: Run) -> Iterator[None]:
    """Count passes through the decoder's layers, without side effects."""
    call = FastLayers.__call__

    def call_and_count(layers: FastLayers, *inputs: Any) -> Tensor:
        run.passes += 1
        return call(layers, *inputs)

    def count(*_: object) -> None:
        run.passes += 1

    # The zoo runs the layers itself; the plain loop calls Transformers' network.
    hook = decoder.model.register_forward_pre_hook(count)
    with patch.object(FastLayers, "__call__", call_and_count):
        yield
    hook.remove()


class Form:
    """One stream through one form of the same network."""

    def __init__(self, system: StreamingSystem, thinker: ChainOfThought) -> None:
        self.system = system.eval()
        self.thinker = thinker
        self.session: Session = system.open("talk")
        self.run = Run()

    def step(self, chunk: Tensor, *, final: bool) -> None:
        """Stream the next chunk (n,) and measure it."""
        with counting_passes(self.thinker.decoder, self.run):
            start = time.process_time()
            [action] = self.system.step([self.session], [SpeechChunk(chunk, final)])
            self.run.seconds.append(time.process_time() - start)
        self.run.texts.append(action.text)


def load_system(overrides: Sequence[str], k: int) -> tuple[StreamingSystem, ChainOfThought]:
    """A loaded system and its backbone. Raises ZooError for other backbones."""
    system = build(compose("evaluate", ["system=streamuni", *overrides]).system)
    thinker = system.backbone if isinstance(system, StreamingSystem) else None
    if not isinstance(thinker, ChainOfThought):
        raise ZooError(
            "streamuni_step needs a backbone with a speech chain of thought, "
            f"not {type(thinker).__name__}."
        )
    system.configure_model()
    system.turn_knob(k)
    return system, thinker


def on_backbone(system: StreamingSystem, backbone: Backbone) -> StreamingSystem:
    """A system with the policy and history of ``system`` on another backbone."""
    return StreamingSystem(
        name=system.name,
        backbone=backbone,
        policy=system.policy,
        history=system.history,
        source_language=system.source_language.code,
        target_language=system.target_language.code,
        chunk_seconds=system.chunk_seconds,
    )


def forms(system: StreamingSystem, thinker: ChainOfThought) -> dict[str, Form]:
    """A stream through each form of the same weights."""
    found = {}
    for name, limits in ((PLAIN, "none"), (RELEASED, "released")):
        loop = PlainLoop(thinker, limits=limits)
        found[name] = Form(on_backbone(system, loop), loop.thinker)
    found[OURS] = Form(system, thinker)
    return found


def compare(found: dict[str, Form], samples: Tensor, *, chunk: Samples) -> dict[str, Run]:
    """Stream whole chunks of ``samples`` (n,). Raises ZooError if two forms emit different text."""
    ends = range(chunk, samples.numel() + 1, chunk)
    for end in ends:
        for form in found.values():
            form.step(samples[end - chunk : end], final=end == ends[-1])
        if len({form.run.texts[-1] for form in found.values()}) > 1:
            texts = "; ".join(f"{name}: {form.run.texts[-1]!r}" for name, form in found.items())
            raise ZooError(
                f"The forms emit different text after {end / SAMPLE_RATE:.2f} s ({texts})."
            )
    return {name: form.run for name, form in found.items()}


def print_forms(runs: dict[str, Run]) -> None:
    """A row per form: its cost, also against the plain form."""
    plain = runs[PLAIN]
    rows = [
        (
            name,
            str(run.passes),
            f"{plain.passes / run.passes:.2f}x",
            f"{run.milliseconds:.0f}",
            f"{plain.milliseconds / run.milliseconds:.2f}x",
        )
        for name, run in runs.items()
    ]
    print_table(("form", "passes", "fewer", "ms per chunk", "faster"), rows)


def facts(runs: dict[str, Run]) -> dict[str, Any]:
    """Numbers per form, and the zoo's ratios to the plain loop and to the released limits."""
    plain, released, ours = runs[PLAIN], runs[RELEASED], runs[OURS]
    numbers = {
        name: {"passes": run.passes, "ms_per_chunk": round(run.milliseconds, 1)}
        for name, run in runs.items()
    }
    return {
        "forms": numbers,
        "chunks": len(ours.texts),
        "words": len("".join(ours.texts).split()),
        "passes_speedup": round(plain.passes / ours.passes, 2),
        "time_speedup": round(plain.milliseconds / ours.milliseconds, 2),
        "released_passes_speedup": round(released.passes / ours.passes, 2),
        "released_time_speedup": round(released.milliseconds / ours.milliseconds, 2),
    }


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The parsed command line."""
    parser = parser_of(__doc__, SIZES, given=given)
    add_overrides(parser)
    return parser.parse_intermixed_args(given)


def main() -> None:
    """Stream, print a table and the result."""
    options = arguments()
    torch.set_num_threads(options.threads)
    system, thinker = load_system(options.overrides, options.k)
    samples = recording(options.chunks * system.chunk_seconds)
    runs = compare(forms(system, thinker), samples, chunk=system.chunk_samples)
    print_forms(runs)
    settings = {
        "parameters_millions": parameters_millions(thinker.model),
        "k": options.k,
        "threads": options.threads,
        "overrides": options.overrides,
    }
    print_result("streamuni_step", settings, facts(runs))


if __name__ == "__main__":
    run_script(main)
