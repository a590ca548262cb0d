"""python benchmarks/real_size.py system=NAME [--size real|small] [override ...]: what does the real size cost?

infinisst: wav2vec 2.0 large and an 8 B Llama in bfloat16 with random weights, half an hour of noise as one stream: time
per turn and its parts, time per token against the floor that memory bandwidth sets, peak memory, and whether it stays
flat. Turns have a fixed number of tokens, for random weights end them anywhere. streamuni: see
``real_size_streamuni.py``. Without a GPU the size is a small one, which shows that the script works and nothing about
the real one. The last line is one JSON object.
"""

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from omegaconf import DictConfig
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import real_size_streamuni
from real_size_machine import (
    GIGA,
    MINUTE,
    clock_of,
    copy_bandwidth,
    forget_peak,
    growth,
    named,
    noise,
    peak_bytes,
    weight_bytes,
)
from real_size_report import announce, print_line, show

from zoo.backbones.common.causal.branches import Turn
from zoo.backbones.common.speech_llm.prompt import Template
from zoo.backbones.common.text.tokenizer import train_tokenizer
from zoo.backbones.infinisst import infinisst as network
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.config import build, compose, machine
from zoo.errors import ZooError, run_script
from zoo.evaluation.progress import progress
from zoo.streaming.simulate import Source, simulate
from zoo.systems.base import StreamingSystem
from zoo.types import Instance, Seconds

TOKENS = 4  # per chunk of 960 ms: speech of 2.5 words/s, 1.5 tokens per word


@dataclass(frozen=True, slots=True)
class Size:
    """Shapes, as overrides of conf/backbone/infinisst.yaml, and how many minutes to stream."""

    minutes: float
    overrides: tuple[str, ...]


SIZES = {
    "real": Size(  # the encoder's defaults are wav2vec 2.0 large; Llama 3.1 8 B
        30,
        (
            (
                "backbone.decoder={model_type: llama, hidden_size: 4096, intermediate_size: 14336, "
                "num_hidden_layers: 32, num_attention_heads: 32, num_key_value_heads: 8, "
                "vocab_size: 128256, max_position_embeddings: 131072, "
                "rope_parameters: {rope_type: llama3, rope_theta: 500000.0, factor: 8.0, low_freq_factor: 1.0, "
                "high_freq_factor: 4.0, original_max_position_embeddings: 8192}}"
            ),
            "backbone.dtype=bfloat16",
        ),
    ),
    "small": Size(
        3,
        (
            (
                "backbone.decoder={model_type: llama, hidden_size: 512, intermediate_size: 1408, num_hidden_layers: 8, "
                "num_attention_heads: 8, num_key_value_heads: 4, vocab_size: 32000}"
            ),
            "backbone.dtype=float32",
            "++backbone.encoder.conv_channels=[128,128,128,128,128,128,128]",
            "++backbone.encoder.hidden=256",
            "++backbone.encoder.layers=6",
            "++backbone.encoder.heads=8",
            "++backbone.encoder.ff=1024",
        ),
    ),
}


def built(cfg: DictConfig, device: torch.device) -> tuple[StreamingSystem, InfiniSST]:
    """The system with random weights, made on ``device``; no turn ends before its limit. Raises ZooError."""
    system = build(cfg.system)
    backbone = system.backbone if isinstance(system, StreamingSystem) else None
    if not isinstance(backbone, InfiniSST):
        raise ZooError(
            f"real_size knows the size of infinisst only, not that of system={cfg.system.name}."
        )
    torch.manual_seed(cfg.seed)
    with device:
        system.configure_model()
    system.to(device).eval()
    backbone.never = [*backbone.never, backbone.prompt.end_of_turn]
    return system, backbone


def configured(size: Size, given: Sequence[str], tokenizer: str) -> DictConfig:
    """What conf/evaluate.yaml says about the paper's model in this size, and the user's overrides on top."""
    special = Template().special_tokens(1)
    train_tokenizer([], vocabulary_size=len(special) + 256, special_tokens=special).save_pretrained(
        tokenizer
    )
    names = [
        f"backbone.tokenizer={tokenizer}",
        "backbone.encoder_weights=null",
        "backbone.checkpoint=null",
    ]
    tokens = f"++backbone.search.tokens_per_chunk={TOKENS}"
    return compose("evaluate", ["backbone=infinisst", *size.overrides, *names, tokens, *given])


@contextmanager
def timed(backbone: InfiniSST, clock: Callable[[], Seconds]) -> Iterator[dict[str, list[Seconds]]]:
    """Seconds of every call, by part, while the stream runs; nothing is changed."""
    spent: dict[str, list[Seconds]] = defaultdict(list)

    def noted(part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*arguments: Any, **options: Any) -> Any:
            begun = clock()
            result = call(*arguments, **options)
            spent[part].append(clock() - begun)
            return result

        return answer

    class TimedTurn(Turn):
        __init__ = noted("prefill", Turn.__init__)
        step = noted("tokens", Turn.step)

    stream = noted("encoder", backbone.encoder.stream)
    with patch.object(backbone.encoder, "stream", stream), patch.object(network, "Turn", TimedTurn):
        yield spent


def bytes_per_token(backbone: InfiniSST) -> int:
    """What a decoding step must read: all weights but the table of embeddings, and the window's keys and values."""
    decoder = backbone.decoder
    table, head = decoder.get_input_embeddings().weight, decoder.get_output_embeddings().weight
    unread = 0 if table is head else table.numel() * table.element_size()
    attention = decoder.model.layers[0].self_attn
    position = 2 * len(decoder.model.layers) * attention.k_proj.out_features * table.element_size()
    return weight_bytes(decoder) - unread + backbone.window.size * position


def streamed(
    system: StreamingSystem,
    backbone: InfiniSST,
    *,
    minutes: float,
    seed: int,
    clock: Callable[[], Seconds],
) -> tuple[Instance, dict[str, list[Seconds]]]:
    """One stream of noise: what was written when, and what each part took."""
    chunks = noise(minutes, chunk_samples=system.chunk_samples, seed=seed)
    with timed(backbone, clock) as spent, progress("real_size", minutes * MINUTE) as report:
        [instance] = simulate(system, [Source("noise", chunks)], on_chunk=report)
    return instance, spent


def measure(
    system: StreamingSystem, backbone: InfiniSST, *, minutes: float, seed: int, device: torch.device
) -> tuple[dict[str, float], dict[str, float]]:
    """Facts by name, and milliseconds per turn (median) by part."""
    clock = clock_of(device)
    bandwidth = copy_bandwidth(device, clock)
    forget_peak(device)
    instance, spent = streamed(system, backbone, minutes=minutes, seed=seed, clock=clock)
    turns = [chunk.compute for chunk in instance.chunks]
    steps = len(spent["tokens"]) // len(turns)
    token, needed = statistics.median(spent["tokens"]), bytes_per_token(backbone)
    parts = {name: 1000 * statistics.median(spent[name]) for name in ("encoder", "prefill")}
    parts["tokens"] = 1000 * steps * token
    whole = 1000 * statistics.median(turns)
    facts = {
        "turns": len(turns),
        "tokens_per_turn": steps + 1,  # the first comes with the prompt
        "rtf": sum(turns) / instance.source_length,
        "ms_per_turn": whole,
        "ms_per_token": 1000 * token,
        "floor_ms_per_token": 1000 * needed / bandwidth,
        "over_floor": token * bandwidth / needed,
        "read_per_token_gb": needed / GIGA,
        "copy_bandwidth_gb_per_s": bandwidth / GIGA,
        "encoder_weights_gb": weight_bytes(backbone.encoder) / GIGA,
        "decoder_weights_gb": weight_bytes(backbone.decoder) / GIGA,
        "peak_memory_gb": peak_bytes(device) / GIGA,
        "compute_growth": growth(turns),
    }
    return facts, parts | {"rest": whole - sum(parts.values()), "turn": whole}


def shares(parts: dict[str, float]) -> Table:
    """Milliseconds of the parts of a turn."""
    table = Table("part", "ms per turn (median)", "share", box=None)
    for name, value in parts.items():
        table.add_row(name, f"{value:.1f}", f"{100 * value / parts['turn']:.0f} %")
    return table


def main() -> None:
    """Build, stream, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, help="default: real on a GPU, else small")
    parser.add_argument(
        "--minutes", type=float, help="length of the stream (default: 30, small: 3; streamuni: 1)"
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        help="Hydra overrides of conf/evaluate.yaml, such as system=infinisst",
    )
    arguments = parser.parse_intermixed_args()  # options may stand between overrides
    if "system=streamuni" in arguments.overrides:
        real_size_streamuni.run(arguments.size, arguments.minutes, arguments.overrides)
        return
    with tempfile.TemporaryDirectory() as folder:
        device = machine(configured(SIZES["small"], arguments.overrides, folder))
        name = arguments.size or ("real" if device.type == "cuda" else "small")
        cfg = configured(SIZES[name], arguments.overrides, folder)
        system, backbone = built(cfg, device)
    minutes = SIZES[name].minutes if arguments.minutes is None else arguments.minutes
    if minutes * MINUTE < 20 * system.chunk_seconds * system.latency_multiplier:
        parser.error(f"--minutes must give at least 20 turns, which {minutes:g} do not")
    where = named(device)
    announce(name, where)
    facts, parts = measure(system, backbone, minutes=minutes, seed=cfg.seed, device=device)
    show(shares(parts), facts)
    settings = {
        "benchmark": "real_size",
        "system": system.name,
        "size": name,
        "device": where,
        "dtype": str(backbone.dtype).removeprefix("torch."),
        "minutes": minutes,
        "m": system.latency_multiplier,
        "beams": backbone.search.beams,
        "window": backbone.window.size,
        "overrides": arguments.overrides,
    }
    print_line(settings, facts)


if __name__ == "__main__":
    run_script(main)
