"""python benchmarks/infinisst_step.py [--small] [--option N ...]: what a chunk costs, as the paper does it and here.

Random weights of a stated size, a full window. The paper's form becomes the zoo's in steps, one saving after another,
and says the same words in each; then talks in lockstep against one by one. The last line is one JSON object.
"""

import argparse
import copy
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from infinisst_forms import FORMS, Form, computed, handed_over

from zoo.backbones.common.speech_llm.prompt import LEAN
from zoo.backbones.common.text.tokenizer import train_tokenizer
from zoo.backbones.common.wav2vec2.encoder import CHUNK_SAMPLES, EncoderConfig
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.search import SearchConfig
from zoo.backbones.infinisst.window import WindowConfig
from zoo.errors import ZooError, run_script
from zoo.history.keep_all import KeepAll
from zoo.policies.turn_taking import TurnTaking
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem
from zoo.types import Request, SpeechChunk

NAMES = (*(form.name for form in FORMS), "+ in place = the zoo")
SIZES = {  # name: default, with --small, meaning
    "layers": (12, 2, "decoder layers"),
    "hidden": (768, 64, "decoder width; its feed-forward layers are 8/3 of it"),
    "heads": (12, 4, "attention heads of the decoder"),
    "shared_heads": (4, 2, "heads of keys and values, which the attention heads share"),
    "vocabulary": (32_000, 500, "decoder vocabulary"),
    "encoder_layers": (12, 2, "encoder layers"),
    "encoder_hidden": (512, 32, "encoder width"),
    "channels": (512, 16, "of each of the encoder's seven convolutions"),
    "window": (1000, 60, "w_t, positions"),
    "beams": (4, 4, "beam size"),
    "multiplier": (1, 1, "m, chunks of 960 ms per turn; a turn writes 10 m tokens"),
    "chunks": (5, 2, "turns measured; one before them warms up"),
    "talks": (8, 3, "talks in lockstep"),
    "threads": (1, 1, "of torch for one talk, as evaluate.py has it"),
    "lockstep_threads": (2, 1, "of torch for several talks, one by one and in lockstep"),
    "seed": (1, 1, "of weights and audio"),
}


def made(options: argparse.Namespace) -> InfiniSST:
    """Random weights. The end of turn never scores high, so that every turn is as long as it may be."""
    decoder = {
        "model_type": "llama",
        "hidden_size": options.hidden,
        "intermediate_size": round(options.hidden * 8 / 3),
        "num_hidden_layers": options.layers,
        "num_attention_heads": options.heads,
        "num_key_value_heads": options.shared_heads,
        "vocab_size": options.vocabulary,
        "initializer_range": options.hidden**-0.5,  # so that attention looks somewhere
    }
    encoder = EncoderConfig(
        conv_channels=(options.channels,) * 7,
        hidden=options.encoder_hidden,
        layers=options.encoder_layers,
        heads=8,
        ff=4 * options.encoder_hidden,
    )
    with tempfile.TemporaryDirectory() as folder:
        train_tokenizer([], vocabulary_size=264).save_pretrained(folder)
        backbone = InfiniSST(
            encoder=encoder,
            decoder=decoder,
            template=LEAN,
            tokenizer=folder,
            dtype=options.dtype,
            window=WindowConfig(size=options.window),
            search=SearchConfig(beams=options.beams),
        )
        backbone.load()
    with torch.no_grad():
        backbone.decoder.lm_head.weight *= 3  # far apart: rounding must not choose the words
        backbone.decoder.lm_head.weight[backbone.prompt.end_of_turn] = 0
    return backbone.eval()


def heard(
    backbone: InfiniSST, sessions: Sequence[Session], blocks: Sequence[Tensor]
) -> list[list[int]]:
    """One turn of each session; the ids said."""
    for session, block in zip(sessions, blocks, strict=True):
        session.receive(SpeechChunk(block))
    hypotheses = backbone.decode(sessions, [Request()] * len(sessions), frozenset())
    return [hypothesis.token_ids.tolist() for hypothesis in hypotheses]


def filled(backbone: InfiniSST, multiplier: int) -> tuple[Session, Tensor]:
    """A session whose window has begun to slide, and its last block with the left context."""
    system = StreamingSystem(
        name="infinisst_step",
        backbone=backbone,
        policy=TurnTaking(),
        history=KeepAll(),
        source_language="en",
        target_language="de",
        chunk_seconds=0.96,
        latency_multiplier=multiplier,
    )
    session, recent = system.open("talk"), torch.zeros(0)
    while not session.backbone_state.dropped:
        block = torch.randn(system.chunk_samples)
        heard(backbone, [session], [block])
        recent = torch.cat([recent, block])[
            -system.chunk_samples - backbone.encoder_config.left_pad :
        ]
    return session, recent


@dataclass(slots=True)
class Run:
    """Seconds per chunk and the ids said, (chunk, talk)."""

    seconds: list[float]
    words: list[list[list[int]]]

    @property
    def milliseconds(self) -> float:
        """Median per chunk; the first one warms up."""
        return 1000 * statistics.median(self.seconds[1:])


def timed(
    backbone: InfiniSST, groups: Sequence[Sequence[Session]], blocks: Sequence[Tensor]
) -> tuple[float, list[list[int]]]:
    """Seconds for one turn of all groups, each decoded as one batch, and the ids said. One block per session."""
    rest, words = list(blocks), []
    begin = time.perf_counter()
    for group in groups:
        words += heard(backbone, group, [rest.pop(0) for _ in group])
    return time.perf_counter() - begin, words


def compare(
    backbone: InfiniSST,
    ways: Sequence[tuple[Form | None, Sequence[Sequence[Session]]]],
    blocks: Tensor,
) -> list[Run]:
    """Each way of computing the same talks, chunk after chunk in turn, so that other load hits all alike.

    blocks: (chunks, talks, samples). Raises ZooError when two ways do not say the same.
    """
    runs = [Run([], []) for _ in ways]
    for chunk in blocks:
        for (form, groups), run in zip(ways, runs, strict=True):
            with computed(backbone, form):
                seconds, words = timed(backbone, groups, list(chunk))
            run.seconds.append(seconds)
            run.words.append(words)
    if any(run.words != runs[0].words for run in runs):
        raise ZooError(
            "The forms do not say the same words; --dtype float64 tells rounding from a mistake."
        )
    return runs


def steps_table(runs: Sequence[Run]) -> Table:
    """A line per form: milliseconds per chunk, how much faster than plain, and its share of all that is saved."""
    table = Table("form", "ms per chunk", "against plain", "share of the saving", box=None)
    first, last = runs[0].milliseconds, runs[-1].milliseconds
    before = first
    for name, run in zip(NAMES, runs, strict=True):
        now = run.milliseconds
        table.add_row(
            name, f"{now:.0f}", f"{first / now:.2f}x", f"{(before - now) / (first - last):.0%}"
        )
        before = now
    return table


def facts(
    options: argparse.Namespace, backbone: InfiniSST, runs: Sequence[Run], alone: Run, together: Run
) -> dict[str, Any]:
    """What the last line says: sizes and ratios."""
    parameters = {
        name: round(sum(weight.numel() for weight in part.parameters()) / 1e6, 1)
        for name, part in (("decoder", backbone.decoder), ("encoder", backbone.encoder))
    }
    return {
        "benchmark": "infinisst_step",
        "parameters_millions": parameters,
        "window": options.window,
        "beams": options.beams,
        "multiplier": options.multiplier,
        "threads": options.threads,
        "lockstep_threads": options.lockstep_threads,
        "tokens_per_turn": statistics.mean(len(ids) for chunk in runs[-1].words for ids in chunk),
        "ms_per_chunk": {
            name: round(run.milliseconds, 1) for name, run in zip(NAMES, runs, strict=True)
        },
        "lockstep_ms": {
            "one by one": round(alone.milliseconds, 1),
            "together": round(together.milliseconds, 1),
        },
        "fast_speedup": round(runs[0].milliseconds / runs[-1].milliseconds, 2),
        "lockstep_speedup": round(alone.milliseconds / together.milliseconds, 2),
    }


def natural(text: str) -> int:
    """A size on the command line."""
    if not text.isdecimal() or (int(text) == 0):
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text}")
    return int(text)


def arguments() -> argparse.Namespace:
    """The command line; --small has other defaults."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    small = "--small" in sys.argv[1:]
    parser.add_argument("--small", action="store_true", help="start from sizes that take seconds")
    for name, (default, tiny, meaning) in SIZES.items():
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=natural, default=tiny if small else default, help=meaning)
    parser.add_argument("--dtype", default="float32", help="of weights and caches")
    return parser.parse_args()


def main() -> None:
    """Fill a window, compare, print two tables."""
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    backbone = made(options)
    session, recent = filled(backbone, options.multiplier)
    samples = options.multiplier * CHUNK_SAMPLES
    console = Console(width=120)

    ways: list[Form | None] = [*FORMS, None]
    copies = [[[handed_over(session, form, backbone.decoder, recent)]] for form in ways]
    runs = compare(
        backbone, list(zip(ways, copies, strict=True)), torch.randn(options.chunks + 1, 1, samples)
    )
    console.print(steps_table(runs))

    torch.set_num_threads(options.lockstep_threads)
    talks = [[copy.deepcopy(session) for _ in range(options.talks)] for _ in range(2)]
    grouped = [(None, [[talk] for talk in talks[0]]), (None, [talks[1]])]
    alone, together = compare(
        backbone, grouped, torch.randn(options.chunks + 1, options.talks, samples)
    )
    console.print(
        f"{options.talks} talks one by one: {alone.milliseconds:.0f} ms, in lockstep {together.milliseconds:.0f} ms"
    )
    print(json.dumps(facts(options, backbone, runs, alone, together)))


if __name__ == "__main__":
    run_script(main)
