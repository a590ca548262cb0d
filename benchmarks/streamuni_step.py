"""python benchmarks/streamuni_step.py [--small] [--option N ...] [override ...]: StreamUni's
decoder passes and time.

A plain loop generates every answer from scratch and to its end, the released code to a limit; the
zoo saves that in steps, one after another, and writes the same words in each. One talk, chunk after
chunk through all forms in turn, in seconds of the processor that this process was given, so that
other load counts as little as it can. What is real: audio, transcripts, cuts and words, those of
the trained model that is configured (``phi4_minitalks``). What is not: its decoder is a small one
in the shapes of a large one (``streamuni_widened.py``), so that a pass costs what the stated size
costs; the audio encoder stays as small as it is. The last line is one JSON object.
"""

import argparse
import copy
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from streamuni_meter import PARTS, Meter, Run
from streamuni_plain import PlainLoop
from streamuni_widened import decoder_parameters, widened

from zoo import audio
from zoo.backbones.base import Backbone
from zoo.backbones.common.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.config import build, compose
from zoo.errors import ZooError, run_script
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem
from zoo.types import SAMPLE_RATE, Samples, Seconds, SpeechChunk

SIZES = {  # name: default, with --small, meaning
    "hidden": (800, 0, "decoder width (0: as trained)"),
    "intermediate": (2560, 0, "width of its feed-forward layers (0: as trained)"),
    "layers": (12, 0, "decoder layers (0: as trained)"),
    "heads": (20, 0, "attention heads of the decoder (0: as trained)"),
    "chunks": (60, 12, "chunks streamed"),
    "k": (3, 3, "words that the translation stays behind the transcript"),
    "threads": (1, 1, "of torch"),
}
PLAIN = "plain: whole answers, token by token"
RELEASED = "with the released code's limits"
STOPS = "+ stop at <sep> and after O words"
DRAFT = "+ the last transcript as a draft"
REUSE = "+ translate from the same keys = the zoo"
FORMS = (PLAIN, RELEASED, STOPS, DRAFT, REUSE)


class Form:
    """One stream through one form of the same network."""

    def __init__(self, system: StreamingSystem, thinker: ChainOfThought) -> None:
        self.system = system.eval()
        self.thinker = thinker
        self.session: Session = system.open("talk")
        self.run = Run()

    def hear(self, chunk: Tensor, *, final: bool) -> None:
        """The next chunk (n,)."""
        with Meter(self.thinker, self.run, time.process_time).measuring():
            begin = time.process_time()
            [action] = self.system.step([self.session], [SpeechChunk(chunk, final)])
            self.run.seconds.append(time.process_time() - begin)
        self.run.texts.append(action.text)


def configured(
    overrides: Sequence[str], options: argparse.Namespace
) -> tuple[StreamingSystem, ChainOfThought]:
    """A system with weights and its backbone in the wanted shape.

    Raises ZooError for another kind of backbone.
    """
    system = build(compose("evaluate", ["system=streamuni", *overrides]).system)
    thinker = system.backbone if isinstance(system, StreamingSystem) else None
    if not isinstance(thinker, ChainOfThought):
        raise ZooError(
            "streamuni_step compares forms of a speech chain of thought, which this backbone is not."
        )
    system.configure_model()
    system.turn_knob(options.k)
    shape = {name: getattr(options, name) for name in ("hidden", "intermediate", "layers", "heads")}
    if any(shape.values()):
        thinker.model = widened(thinker.model, **shape)
    return system, thinker


def sharing(system: StreamingSystem, backbone: Backbone) -> StreamingSystem:
    """The same policy and history on another backbone."""
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
    """One stream through each form of the same weights."""
    found = {}
    for name, limits in ((PLAIN, "none"), (RELEASED, "released")):
        loop = PlainLoop(thinker, limits=limits)
        found[name] = Form(sharing(system, loop), loop.thinker)
    for name, draft, reuse in ((STOPS, False, False), (DRAFT, True, False), (REUSE, True, True)):
        fast = copy.copy(thinker)
        fast.draft, fast.reuse = draft, reuse
        found[name] = Form(sharing(system, fast), fast)
    return found


def compare(found: dict[str, Form], samples: Tensor, *, chunk: Samples) -> dict[str, Run]:
    """Stream whole chunks of ``samples`` (n,) through all forms.

    Raises ZooError when two do not write the same.
    """
    ends = range(chunk, samples.numel() + 1, chunk)
    for end in ends:
        for form in found.values():
            form.hear(samples[end - chunk : end], final=end == ends[-1])
        if len({form.run.texts[-1] for form in found.values()}) > 1:
            said = "; ".join(f"{name}: {form.run.texts[-1]!r}" for name, form in found.items())
            raise ZooError(
                f"The forms do not write the same after {end / SAMPLE_RATE:.2f} s ({said})."
            )
    return {name: form.run for name, form in found.items()}


def recording(seconds: Seconds) -> Tensor:
    """(n,): the beginning of MiniTalks' test set."""
    parts: list[Tensor] = []
    for talk in build(compose("evaluate", ["data=minitalks"]).data).talks("tst"):
        parts.append(audio.load(talk.file, start=talk.offset, duration=talk.duration))
        if sum(map(len, parts)) >= seconds * SAMPLE_RATE:
            return torch.cat(parts)[: round(seconds * SAMPLE_RATE)]
    raise ZooError(f"MiniTalks' test set is shorter than {seconds:g} s; ask for fewer --chunks.")


def shown(runs: dict[str, Run]) -> Table:
    """A line per form: what it costs, against the plain one, and where its time goes."""
    table = Table("form", "passes", "fewer", "ms per chunk", "faster", *PARTS, box=None)
    plain = runs[PLAIN]
    for name, run in runs.items():
        table.add_row(
            name,
            str(run.passes),
            f"{plain.passes / run.passes:.2f}x",
            f"{run.milliseconds:.0f}",
            f"{plain.milliseconds / run.milliseconds:.2f}x",
            *(f"{share:.0%}" for share in run.shares().values()),
        )
    return table


def facts(runs: dict[str, Run]) -> dict[str, Any]:
    """Numbers per form, and what the zoo saves."""
    plain, ours = runs[PLAIN], runs[REUSE]
    numbers = {
        name: {
            "passes": run.passes,
            "positions": sum(run.positions),
            "ms_per_chunk": round(run.milliseconds, 1),
            "shares": {part: round(share, 3) for part, share in run.shares().items()},
        }
        for name, run in runs.items()
    }
    return {
        "forms": numbers,
        "chunks": len(ours.texts),
        "words": len("".join(ours.texts).split()),
        "fewer_passes": round(plain.passes / ours.passes, 2),
        "speedup": round(plain.milliseconds / ours.milliseconds, 2),
        "speedup_against_released": round(runs[RELEASED].milliseconds / ours.milliseconds, 2),
    }


def size(text: str) -> int:
    """A size on the command line."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text}")
    return int(text)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; --small has other defaults."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    small = "--small" in (sys.argv[1:] if given is None else given)
    parser.add_argument("--small", action="store_true", help="start from sizes that take seconds")
    for name, (default, tiny, meaning) in SIZES.items():
        parser.add_argument(
            f"--{name}", type=size, default=tiny if small else default, help=meaning
        )
    parser.add_argument("overrides", nargs="*", help="Hydra overrides of conf/evaluate.yaml")
    options = parser.parse_intermixed_args(given)
    for name in ("chunks", "threads"):
        if not getattr(options, name):
            parser.error(f"argument --{name}: must be at least 1, not 0")
    return options


def main() -> None:
    """Stream, print a table and the numbers."""
    options = arguments()
    torch.set_num_threads(options.threads)
    system, thinker = configured(options.overrides, options)
    samples = recording(options.chunks * system.chunk_seconds)
    runs = compare(forms(system, thinker), samples, chunk=system.chunk_samples)
    Console(width=160).print(shown(runs))
    setting = {
        "benchmark": "streamuni_step",
        "decoder_parameters_millions": round(decoder_parameters(thinker.decoder) / 1e6, 1),
        "all_parameters_millions": round(
            sum(weight.numel() for weight in thinker.model.parameters()) / 1e6, 1
        ),
        "k": options.k,
        "threads": options.threads,
        "overrides": options.overrides,
    }
    print(json.dumps(setting | facts(runs)))


if __name__ == "__main__":
    run_script(main)
