"""python benchmarks/real_size.py system=NAME [--size real|small]: cost at published size.

infinisst: wav2vec 2.0 large and an 8 B Llama in bfloat16, randomly initialised, half an hour of
noise as one stream: time per turn and its parts, time per token against the floor set by memory
bandwidth, peak memory, and growth. Turns have a fixed number of tokens, because random weights end
them anywhere. With backbone.capture=auto or static, the stream is decoded again by plain steps, and
the ratio is printed. streamuni: see ``real_size_streamuni.py``. Without a GPU the default is a
small size, which tests the script only; its numbers do not apply to the published size.
"""

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from omegaconf import DictConfig

import real_size_streamuni
from harness import (
    GIGA,
    MINUTE,
    Clock,
    add_overrides,
    clock_of,
    copy_bandwidth,
    device_name,
    growth,
    noise,
    parser_of,
    peak_memory_bytes,
    print_facts,
    print_result,
    print_size,
    print_table,
    reset_peak_memory,
    rounded,
    weight_bytes,
)
from zoo.backbones.common.causal.branches import CausalBranches
from zoo.backbones.common.speech_llm.prompt import Template
from zoo.backbones.common.static_steps import StaticSteps
from zoo.backbones.common.text.tokenizer import train_tokenizer
from zoo.backbones.infinisst import infinisst as network
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.config import build, compose, machine
from zoo.errors import ZooError, run_script
from zoo.progress import audio_progress
from zoo.streaming.simulate import Source, simulate
from zoo.systems.base import StreamingSystem
from zoo.types import Instance, Seconds

TOKENS = 4  # per chunk of 960 ms: speech of 2.5 words/s, 1.5 tokens per word


@dataclass(frozen=True, slots=True)
class Size:
    """Shapes, as overrides of conf/backbone/infinisst.yaml, and the minutes to stream."""

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
                "rope_parameters: {rope_type: llama3, rope_theta: 500000.0, factor: 8.0, "
                "low_freq_factor: 1.0, "
                "high_freq_factor: 4.0, original_max_position_embeddings: 8192}}"
            ),
            "backbone.dtype=bfloat16",
        ),
    ),
    "small": Size(
        3,
        (
            (
                "backbone.decoder={model_type: llama, hidden_size: 512, intermediate_size: 1408, "
                "num_hidden_layers: 8, "
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


def build_random(cfg: DictConfig, device: torch.device) -> tuple[StreamingSystem, InfiniSST]:
    """A randomly initialised system on ``device`` whose turns never end before their limit."""
    system = build(cfg.system)
    backbone = system.backbone if isinstance(system, StreamingSystem) else None
    if not isinstance(backbone, InfiniSST):
        raise ZooError(
            f"real_size has sizes of infinisst and streamuni, not of system={cfg.system.name}."
        )
    torch.manual_seed(cfg.seed)
    with device:
        system.configure_model()
    system.to(device).eval()
    backbone.never = [*backbone.never, backbone.prompt.end_of_turn]
    return system, backbone


def compose_size(size: Size, given: Sequence[str], tokenizer: str) -> DictConfig:
    """conf/evaluate.yaml with the paper's model in this size and the given overrides on top."""
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
def timed(backbone: InfiniSST, clock: Clock) -> Iterator[dict[str, list[Seconds]]]:
    """Measure the seconds of every call by part, without side effects."""
    spent: dict[str, list[Seconds]] = defaultdict(list)

    def measured(part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def call_and_measure(*arguments: Any, **options: Any) -> Any:
            start = clock()
            result = call(*arguments, **options)
            spent[part].append(clock() - start)
            return result

        return call_and_measure

    class TimedTurn(CausalBranches):
        __init__ = measured("prefill", CausalBranches.__init__)
        step = measured("tokens", CausalBranches.step)

    stream = measured("encoder", backbone.encoder.stream)
    with (
        patch.object(backbone.encoder, "stream", stream),
        patch.object(network, "CausalBranches", TimedTurn),
    ):
        yield spent


def bytes_per_token(backbone: InfiniSST) -> int:
    """Bytes a decoding step reads: the decoder without its input embeddings, and the window."""
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
    clock: Clock,
) -> tuple[Instance, dict[str, list[Seconds]]]:
    """Stream noise; the instance, and seconds per call of each part."""
    chunks = noise(minutes, chunk_samples=system.chunk_samples, seed=seed)
    with timed(backbone, clock) as spent, audio_progress("real_size", minutes * MINUTE) as report:
        [instance] = simulate(
            system, [Source("noise", chunks)], on_chunk=lambda stream: report(stream.newest)
        )
    return instance, spent


def measure(
    system: StreamingSystem, backbone: InfiniSST, *, minutes: float, seed: int, device: torch.device
) -> tuple[dict[str, float], dict[str, float]]:
    """Measured values by name, and median milliseconds per turn by part."""
    clock = clock_of(device)
    bandwidth = copy_bandwidth(device, clock)
    reset_peak_memory(device)
    instance, spent = streamed(system, backbone, minutes=minutes, seed=seed, clock=clock)
    turns = [chunk.compute for chunk in instance.chunks]
    steps = len(spent["tokens"]) // len(turns)
    token, needed = statistics.median(spent["tokens"]), bytes_per_token(backbone)
    parts = {name: 1000 * statistics.median(spent[name]) for name in ("encoder", "prefill")}
    parts["tokens"] = 1000 * steps * token
    whole = 1000 * statistics.median(turns)
    facts = {
        "turns": len(turns),
        "tokens_per_turn": steps + 1,  # the first is predicted by the prompt
        "rtf": sum(turns) / instance.source_length,
        "ms_per_turn": whole,
        "ms_per_token": 1000 * token,
        "floor_ms_per_token": 1000 * needed / bandwidth,
        "over_floor": token * bandwidth / needed,
        "read_per_token_gb": needed / GIGA,
        "copy_bandwidth_gb_per_s": bandwidth / GIGA,
        "encoder_weights_gb": weight_bytes(backbone.encoder) / GIGA,
        "decoder_weights_gb": weight_bytes(backbone.decoder) / GIGA,
        "peak_memory_gb": peak_memory_bytes(device) / GIGA,
        "compute_growth": growth(turns),
    }
    return facts, parts | {"rest": whole - sum(parts.values()), "turn": whole}


def print_parts(parts: dict[str, float]) -> None:
    """Milliseconds of the parts of a turn."""
    rows = [
        (name, f"{value:.1f}", f"{100 * value / parts['turn']:.0f} %")
        for name, value in parts.items()
    ]
    print_table(("part", "ms per turn (median)", "share"), rows)


def main() -> None:
    """Build, stream, print."""
    parser = parser_of(__doc__)
    parser.add_argument("--size", choices=SIZES, help="real on a GPU, else small")
    meaning = "length of the stream (30; with --size small 3; streamuni 1)"
    parser.add_argument("--minutes", type=float, help=meaning)
    add_overrides(parser)
    arguments = parser.parse_intermixed_args()
    if "system=streamuni" in arguments.overrides:
        real_size_streamuni.run(arguments.size, arguments.minutes, arguments.overrides)
        return

    with tempfile.TemporaryDirectory() as folder:
        device = machine(compose_size(SIZES["small"], arguments.overrides, folder))
        name = arguments.size or ("real" if device.type == "cuda" else "small")
        cfg = compose_size(SIZES[name], arguments.overrides, folder)
        system, backbone = build_random(cfg, device)
    minutes = SIZES[name].minutes if arguments.minutes is None else arguments.minutes
    if minutes * MINUTE < 20 * system.chunk_seconds * system.latency_multiplier:
        parser.error(f"--minutes must give at least 20 turns, which {minutes:g} do not")

    print_size(name, device)
    facts, parts = measure(system, backbone, minutes=minutes, seed=cfg.seed, device=device)
    if backbone.steps.apply_to(device):
        backbone.steps = StaticSteps("off")
        plain, _ = measure(system, backbone, minutes=minutes, seed=cfg.seed, device=device)
        facts["capture_speedup"] = plain["ms_per_token"] / facts["ms_per_token"]
    print_parts(parts)
    print_facts(facts)
    settings = {
        "system": system.name,
        "size": name,
        "device": device_name(device),
        "dtype": str(backbone.dtype).removeprefix("torch."),
        "minutes": minutes,
        "m": system.latency_multiplier,
        "beams": backbone.search.beams,
        "window": backbone.window.size,
        "overrides": arguments.overrides,
    }
    print_result("real_size", settings, rounded(facts))


if __name__ == "__main__":
    run_script(main)
