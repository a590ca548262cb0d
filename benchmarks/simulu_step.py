"""python benchmarks/simulu_step.py [--small] [--option N ...]: time per step of SimulU's speech.

A step encodes the audio and decodes the text after a forced prefix, computes the text decoder's
states, generates the units of the kept text and synthesises them. One form calls Transformers'
``generate`` (``simulu_generate.py``); the zoo keeps the states of decoding, adds one position, the
end of the text, and synthesises new units only. Both must generate the same units. The network is
the real class, randomly initialised in the chosen size, with fixed lengths, because random weights
end texts anywhere. Times are of this process's CPU, forms in turn.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from harness import parameters_millions, parser_of, print_result, print_table
from simulu_generate import Generate
from zoo.backbones.common.alignment import AlignmentConfig
from zoo.backbones.common.search import SearchConfig
from zoo.backbones.seamless_m4t.network import train_pieces
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.config.commands import run_script
from zoo.errors import ZooError
from zoo.languages import language
from zoo.streaming.session import Session, SpeechRequest
from zoo.streaming.text import TextStream
from zoo.types import SAMPLE_RATE, Capability, Hypothesis, Request, Seconds, SpeechChunk

SIZES = {
    "hidden": (512, 32, "width of encoder, text decoder and text-to-unit model"),
    "layers": (6, 1, "layers of the speech encoder and of the text decoder"),
    "unit_layers": (4, 1, "layers of the text-to-unit encoder and decoder"),
    "seconds": (12, 3, "kept audio"),
    "prefix": (20, 5, "kept tokens, the forced prefix"),
    "new": (12, 4, "new tokens, all of which are emitted"),
    "units": (150, 8, "units of the kept and the new text"),
    "steps": (5, 2, "measured steps, after one that warms up; the median counts"),
    "threads": (1, 1, "CPU threads"),
}
NEEDS = frozenset({Capability.ALIGNMENT, Capability.SPEECH})
PARTS = ("decode", "states", "units", "wave")
TEXT = "Guten Morgen. Wir reden heute über das Wetter, und das Wetter ist schön!"


class Form(Protocol):
    """One way to compute a step; the methods are called in this order."""

    def decode(self, session: Session) -> None:
        """Encode the audio and decode the text after the prefix."""

    def states(self, session: Session) -> Tensor:
        """Text decoder states (positions, width) of prefix, new text and its end."""

    def units(self, states: Tensor, session: Session) -> Tensor:
        """Units (n,) of the text."""

    def wave(self, units: Tensor, session: Session) -> Tensor:
        """Samples of units (n,)."""


class Ours:
    """The zoo's functions.

    Args:
        backbone: loaded backbone.
        old: share of the units that belong to earlier tokens and are not synthesised.
    """

    def __init__(self, backbone: SeamlessM4TSpeech, *, old: float) -> None:
        self.backbone = backbone
        self.old = old
        self.hypothesis: Hypothesis | None = None

    def decode(self, session: Session) -> None:
        """See ``Form``."""
        [self.hypothesis] = self.backbone.decode([session], [Request()], NEEDS)

    def states(self, session: Session) -> Tensor:
        """See ``Form``; those of decoding, and one more position."""
        assert self.hypothesis is not None
        new = self.hypothesis.num_new_tokens
        request = SpeechRequest(session, self.hypothesis, new, "")
        return self.backbone.fed([request], close=True)[0]

    def units(self, states: Tensor, session: Session) -> Tensor:
        """See ``Form``."""
        [units] = self.backbone.speaker.units([states], [session.target_language])
        return units.ids

    def wave(self, units: Tensor, session: Session) -> Tensor:
        """See ``Form``."""
        needed = range(round(self.old * len(units)), len(units))
        [voiced] = self.backbone.vocode([units], session.target_language, needed=[needed])
        return voiced.samples


def forms(backbone: SeamlessM4TSpeech, options: argparse.Namespace) -> dict[str, Form]:
    """Both forms on the same weights; the zoo's arranges its own after they are copied."""
    plain = Generate(backbone, new=options.new, units=options.units)
    old = options.prefix / (options.prefix + options.new)
    backbone.arrange()
    return {"Transformers' generate": plain, "the zoo": Ours(backbone, old=old)}


def network(options: argparse.Namespace, folder: Path) -> SeamlessM4TSpeech:
    """A randomly initialised network that ends neither texts nor unit sequences."""
    train_pieces([TEXT] * 20, size=60, source="en", target="de").save_pretrained(folder)
    shape = {
        "hidden_size": options.hidden,
        "initializer_range": 2 * options.hidden**-0.5,  # large: units depend on the states
        **{
            f"{part}_ffn_dim": 4 * options.hidden
            for part in ("encoder", "decoder", "t2u_encoder", "t2u_decoder")
        },
        **{
            f"{part}_attention_heads": 8
            for part in ("encoder", "decoder", "t2u_encoder", "t2u_decoder")
        },
        "encoder_layers": 1,
        "decoder_layers": options.layers,
        "speech_encoder_layers": options.layers,
        "speech_encoder_attention_heads": 8,
        "speech_encoder_intermediate_size": 4 * options.hidden,
        "t2u_encoder_layers": options.unit_layers,
        "t2u_decoder_layers": options.unit_layers,
        "unit_hifi_gan_vocab_size": 1000,
        "unit_embed_dim": options.hidden,
        "upsample_initial_channel": max(32, options.hidden // 2),
    }
    torch.manual_seed(0)
    backbone = SeamlessM4TSpeech(
        config=shape,
        tokenizer=str(folder),
        alignment=AlignmentConfig(layer=options.layers - 1),
        search=SearchConfig(),
        max_tokens=options.new,
        max_units=options.units,
    )
    backbone.load()
    backbone.never = [*backbone.never, backbone.end]
    with torch.no_grad():
        backbone.speaker.t2u.lm_head.weight[backbone.speaker.t2u.config.t2u_eos_token_id] = 0
    return backbone


def noise_session(backbone: SeamlessM4TSpeech, options: argparse.Namespace, step: int) -> Session:
    """A session with noise and random prefix tokens of the chosen lengths."""
    random = torch.Generator().manual_seed(step)
    session = Session(
        talk=f"step {step}",
        source_language=language("en"),
        target_language=language("de"),
        frame_samples=backbone.frame_samples,
        text_stream=TextStream(decode=backbone.text, separator=" "),
        prefix_ids=torch.randint(4, 50, (options.prefix,), generator=random),
    )
    session.backbone_state = backbone.open(session)
    session.receive(SpeechChunk(0.1 * torch.randn(options.seconds * SAMPLE_RATE, generator=random)))
    return session


@torch.inference_mode()
def timed_step(form: Form, session: Session) -> tuple[list[Seconds], Tensor]:
    """Seconds of each part of a step, and its units (n,)."""
    marks = [time.process_time()]
    form.decode(session)
    marks.append(time.process_time())
    states = form.states(session)
    marks.append(time.process_time())
    units = form.units(states, session)
    marks.append(time.process_time())
    form.wave(units, session)
    marks.append(time.process_time())
    return [end - start for start, end in pairwise(marks)], units


def compare(
    found: dict[str, Form], backbone: SeamlessM4TSpeech, options: argparse.Namespace
) -> dict[str, list[Seconds]]:
    """Median seconds of each part, by form.

    Raises ZooError if two forms generate different units.
    """
    seconds: dict[str, list[list[Seconds]]] = {name: [] for name in found}
    for step in range(options.steps + 1):
        generated = set()
        for name, form in found.items():
            parts, units = timed_step(form, noise_session(backbone, options, step))
            generated.add(tuple(units.tolist()))
            if step:  # the first one warms up
                seconds[name].append(parts)
        if len(generated) > 1:
            raise ZooError(f"The forms generate different units in step {step}.")
    return {
        name: [statistics.median(part) for part in zip(*measured, strict=True)]
        for name, measured in seconds.items()
    }


def facts(found: dict[str, list[Seconds]]) -> dict[str, Any]:
    """Milliseconds per form, and the zoo's speedup with and without units and wave."""
    totals = {name: sum(parts) for name, parts in found.items()}
    texts = {name: parts[0] + parts[1] for name, parts in found.items()}
    naive, ours = found
    return {
        "ms": {
            name: {part: round(1000 * value, 1) for part, value in zip(PARTS, parts, strict=True)}
            for name, parts in found.items()
        },
        "step_speedup": round(totals[naive] / totals[ours], 2),
        "text_speedup": round(texts[naive] / texts[ours], 2),
    }


def print_forms(found: dict[str, list[Seconds]]) -> None:
    """A row per form."""
    slowest = sum(next(iter(found.values())))
    rows = [
        (
            name,
            *(f"{1000 * part:.0f}" for part in [*parts, sum(parts)]),
            f"{slowest / sum(parts):.2f}x",
        )
        for name, parts in found.items()
    ]
    print_table(("form", *(f"{part} (ms)" for part in PARTS), "step (ms)", "faster"), rows)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The parsed command line."""
    parser = parser_of(__doc__, SIZES, given=given)
    options = parser.parse_args(given)
    if options.hidden % 16:
        parser.error(f"argument --hidden: must be a multiple of 16, not {options.hidden}")
    return options


def main() -> None:
    """Run the steps, print a table and the result."""
    options = arguments()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        backbone = network(options, Path(folder))
    found = compare(forms(backbone, options), backbone, options)
    print_forms(found)
    settings = {name: getattr(options, name) for name in SIZES}
    size = {"parameters_millions": parameters_millions(backbone)}
    print_result("simulu_step", size, settings, facts(found))


if __name__ == "__main__":
    run_script(main)
