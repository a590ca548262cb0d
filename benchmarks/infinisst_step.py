"""python benchmarks/infinisst_step.py [--small] [--option N ...]: time per chunk of InfiniSST.

Random weights of a chosen size, a full window. The published algorithm and the zoo's must write the
same tokens; then several talks are decoded one by one and in lockstep.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness import parameters_millions, parser_of, print_result
from infinisst_plain import computing_as_published, copied, plain_session
from zoo.backbones.architectures.speech_llm.prompt import LEAN
from zoo.backbones.encoders.wav2vec2.encoder import CHUNK_SAMPLES, EncoderConfig
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.search import TurnSearchConfig
from zoo.backbones.infinisst.window import WindowConfig
from zoo.backbones.text.tokenizer import train_tokenizer
from zoo.base.errors import ZooError
from zoo.base.machine.commands import run_script
from zoo.base.types import Request, SpeechChunk
from zoo.history.keep_all import KeepAll
from zoo.policies.turn_taking import TurnTaking
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem

NAMES = ("as published", "the zoo")
SIZES = {
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
    "multiplier": (1, 1, "m, chunks of 960 ms per turn; a turn generates 10 m tokens"),
    "chunks": (5, 2, "measured turns, after one that warms up"),
    "talks": (8, 3, "talks in lockstep"),
    "threads": (1, 1, "CPU threads for one talk, as in evaluate.py"),
    "lockstep_threads": (2, 1, "CPU threads for several talks"),
    "seed": (1, 1, "of weights and audio"),
}


def random_backbone(options: argparse.Namespace) -> InfiniSST:
    """A randomly initialised InfiniSST that never ends a turn before its limit."""
    decoder = {
        "model_type": "llama",
        "hidden_size": options.hidden,
        "intermediate_size": round(options.hidden * 8 / 3),
        "num_hidden_layers": options.layers,
        "num_attention_heads": options.heads,
        "num_key_value_heads": options.shared_heads,
        "vocab_size": options.vocabulary,
        "initializer_range": options.hidden**-0.5,  # so that attention is not uniform
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
            search=TurnSearchConfig(beams=options.beams),
        )
        backbone.load()
    with torch.no_grad():
        backbone.decoder.lm_head.weight *= 3  # scores far apart: rounding must not decide
        backbone.decoder.lm_head.weight[backbone.prompt.end_of_turn] = 0
    return backbone.eval()


def decode_turn(
    backbone: InfiniSST, sessions: Sequence[Session], blocks: Sequence[Tensor]
) -> list[list[int]]:
    """Decode one turn of each session; the token ids generated."""
    for session, block in zip(sessions, blocks, strict=True):
        session.receive(SpeechChunk(block))
    hypotheses = backbone.decode(sessions, [Request()] * len(sessions), frozenset())
    return [hypothesis.token_ids.tolist() for hypothesis in hypotheses]


def full_session(backbone: InfiniSST, multiplier: int) -> tuple[Session, Tensor]:
    """A session whose window slides, and (n,) samples of its last block with the left context."""
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
        decode_turn(backbone, [session], [block])
        recent = torch.cat([recent, block])[
            -system.chunk_samples - backbone.encoder_config.left_pad :
        ]
    return session, recent


@dataclass(slots=True)
class Run:
    """Seconds per chunk, and the token ids of each chunk and talk."""

    seconds: list[float]
    tokens: list[list[list[int]]]

    @property
    def milliseconds(self) -> float:
        """Median per chunk, without the first, which warms up."""
        return 1000 * statistics.median(self.seconds[1:])


def timed(
    backbone: InfiniSST, groups: Sequence[Sequence[Session]], blocks: Sequence[Tensor]
) -> tuple[float, list[list[int]]]:
    """Seconds for one turn of all groups, each decoded as one batch, and the token ids.

    One block per session.
    """
    rest, tokens = list(blocks), []
    start = time.perf_counter()
    for group in groups:
        tokens += decode_turn(backbone, group, [rest.pop(0) for _ in group])
    return time.perf_counter() - start, tokens


def compare(
    backbone: InfiniSST,
    ways: Sequence[tuple[bool, Sequence[Sequence[Session]]]],
    blocks: Tensor,
) -> list[Run]:
    """Decode the same talks in several ways, which alternate so that other load affects all alike.

    Args:
        backbone: the network of all ways.
        ways: whether to compute as published, and groups of sessions, each decoded as one batch.
        blocks: (chunks, talks, samples).

    Raises:
        ZooError: Two ways generate different tokens.
    """
    runs = [Run([], []) for _ in ways]
    for chunk in blocks:
        for (published, groups), run in zip(ways, runs, strict=True):
            with computing_as_published(backbone) if published else nullcontext():
                seconds, tokens = timed(backbone, groups, list(chunk))
            run.seconds.append(seconds)
            run.tokens.append(tokens)
    if any(run.tokens != runs[0].tokens for run in runs):
        raise ZooError(
            "The forms generate different tokens; --dtype float64 rules out rounding as the cause."
        )
    return runs


def facts(
    options: argparse.Namespace,
    backbone: InfiniSST,
    runs: Sequence[Run],
    alone: Run,
    together: Run,
) -> dict[str, Any]:
    """Sizes, milliseconds and ratios for the last line."""
    return {
        "parameters_millions": {
            "decoder": parameters_millions(backbone.decoder),
            "encoder": parameters_millions(backbone.encoder),
        },
        **{name: getattr(options, name) for name in SIZES},
        "tokens_per_turn": statistics.mean(len(ids) for chunk in runs[-1].tokens for ids in chunk),
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


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The parsed command line."""
    parser = parser_of(__doc__, SIZES, given=given)
    parser.add_argument("--dtype", default="float32", help="of weights and caches")
    return parser.parse_args(given)


def main() -> None:
    """Fill a window, compare with the published form, then one by one with lockstep."""
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    backbone = random_backbone(options)
    session, recent = full_session(backbone, options.multiplier)
    samples = options.multiplier * CHUNK_SAMPLES

    published = plain_session(session, backbone.decoder, recent)
    ways = [(True, [[published]]), (False, [[copied(session)]])]
    runs = compare(backbone, ways, torch.randn(options.chunks + 1, 1, samples))
    for name, run in zip(NAMES, runs, strict=True):
        print(f"{name}: {run.milliseconds:.0f} ms per chunk")

    torch.set_num_threads(options.lockstep_threads)
    talks = [[copied(session) for _ in range(options.talks)] for _ in range(2)]
    grouped = [(False, [[talk] for talk in talks[0]]), (False, [talks[1]])]
    blocks = torch.randn(options.chunks + 1, options.talks, samples)
    alone, together = compare(backbone, grouped, blocks)
    times = f"{alone.milliseconds:.0f} ms, in lockstep {together.milliseconds:.0f} ms"
    print(f"{options.talks} talks one by one: {times}")
    print_result("infinisst_step", facts(options, backbone, runs, alone, together))


if __name__ == "__main__":
    run_script(main)
