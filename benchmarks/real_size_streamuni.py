"""python benchmarks/real_size.py system=streamuni [backbone=qwen2_5_omni]: a speech LLM.

Phi-4-Multimodal or the thinker of Qwen2.5-Omni-7B in bfloat16, randomly initialised, a minute of
noise as one stream. Random weights would end their answers nowhere and change them with every
chunk, so that no draft would be accepted. Therefore, after all scores have been computed, the
scores of a fixed text of ``RATE`` tokens per second and of an equally long translation are raised:
passes, lengths and cuts are those of a model that transcribes well. Vision is left out, and the
speech LoRA counts as merged into the weights.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from omegaconf import DictConfig
from torch import Tensor, nn

from harness import (
    GIGA,
    MINUTE,
    clock_of,
    copy_bandwidth,
    device_name,
    growth,
    noise,
    peak_memory_bytes,
    print_facts,
    print_result,
    print_size,
    print_table,
    reset_peak_memory,
    rounded,
    weight_bytes,
)
from streamuni_meter import PARTS, Meter, Run
from zoo.backbones.common.causal.layers import FastLayers
from zoo.backbones.common.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.common.text.tokenizer import SPECIAL_TOKENS, train_tokenizer
from zoo.config import build, compose, machine
from zoo.errors import ZooError, unknown_choice
from zoo.systems.base import StreamingSystem
from zoo.types import SAMPLE_RATE, Seconds, SpeechChunk

RATE = 3.0  # tokens per second of speech, punctuation included
BASE = 256  # bfloat16 represents every integer up to it
TALK = (
    " We walked to the old harbour because the morning was warm and bright."
    " A small boat had come in at night and nobody knew its name."
    " The children asked the captain where he was going, but he only smiled."
)
Shape = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """Fields of the Transformers config, the published vocabulary size, and the weights' dtype."""

    config: Shape
    tokens: int
    dtype: str


PHI4 = Size(
    {
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_hidden_layers": 32,
        "num_attention_heads": 24,
        "num_key_value_heads": 8,
        "tie_word_embeddings": True,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.75,
        },
        "audio_config": {
            "hidden_size": 1024,
            "intermediate_size": 1536,
            "num_blocks": 24,
            "num_attention_heads": 16,
        },
    },
    200_064,
    "bfloat16",
)
QWEN = Size(
    {
        "text_config": {
            "hidden_size": 3584,
            "intermediate_size": 18_944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "tie_word_embeddings": False,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1000000.0,
                "mrope_section": [16, 24, 24],
            },
        },
        "audio_config": {
            "d_model": 1280,
            "encoder_layers": 32,
            "encoder_attention_heads": 20,
            "encoder_ffn_dim": 5120,
            "num_mel_bins": 128,
            "n_window": 100,
        },
    },
    152_064,
    "bfloat16",
)
SMALL_TEXT = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
SIZES = {
    "phi4_multimodal": {
        "real": PHI4,
        "small": Size(
            PHI4.config
            | SMALL_TEXT
            | {
                "audio_config": {
                    "hidden_size": 128,
                    "intermediate_size": 256,
                    "num_blocks": 4,
                    "num_attention_heads": 4,
                    "ext_pw_out_channel": 128,
                    "depthwise_separable_out_channel": 128,
                    "nemo_conv_channels": 32,
                }
            },
            8_000,
            "float32",
        ),
    },
    "qwen2_5_omni": {
        "real": QWEN,
        "small": Size(
            {
                "text_config": QWEN.config["text_config"]
                | SMALL_TEXT
                | {
                    "rope_parameters": {
                        "rope_type": "default",
                        "rope_theta": 1000000.0,
                        "mrope_section": [8, 12, 12],
                    }
                },
                "audio_config": QWEN.config["audio_config"]
                | {
                    "d_model": 128,
                    "encoder_layers": 4,
                    "encoder_attention_heads": 4,
                    "encoder_ffn_dim": 256,
                },
            },
            8_000,
            "float32",
        ),
    },
}


class Dictation:
    """Forces the generated tokens: ``RATE`` of ``TALK`` per second, separator, the same, end.

    The id that a position must predict is passed from the decoder to its head in two numbers of the
    hidden state.
    """

    def __init__(self, thinker: ChainOfThought) -> None:
        self.thinker = thinker
        self.talk: list[int] = thinker.tokenizer(TALK, add_special_tokens=False)["input_ids"]
        self.opening = self.embeddings = 0  # positions before the answer, and of speech, at last

    def answer(self) -> list[int]:
        """Token ids after the last opening."""
        seconds = self.embeddings * self.thinker.frame_samples / SAMPLE_RATE
        count = int(RATE * seconds)
        tokens = (self.talk * (count // len(self.talk) + 1))[:count]
        prompt = self.thinker.prompt
        return [*tokens, *prompt.separator, *tokens, prompt.end]

    @contextmanager
    def dictating(self) -> Iterator[None]:
        """Force the tokens inside this context."""
        decoder, prompt = self.thinker.decoder, self.thinker.prompt
        prompt_opening = prompt.opening

        def opening(embeddings: int, *given: Any) -> list[int]:
            ids: list[int] = prompt_opening(embeddings, *given)
            self.opening, self.embeddings = len(ids), embeddings
            return ids

        with ExitStack() as stack:
            stack.enter_context(patch.object(prompt, "opening", opening))
            stack.callback(
                decoder.model.register_forward_hook(self._write_ids, with_kwargs=True).remove
            )
            # The zoo runs the layers itself; other loops call Transformers' network.
            stack.enter_context(patch.object(FastLayers, "__call__", self._fast_pass()))
            stack.callback(
                decoder.get_output_embeddings().register_forward_hook(self._raise_scores).remove
            )
            yield

    def _fast_pass(self) -> Callable[..., Tensor]:
        call = FastLayers.__call__

        def call_and_write(
            layers: FastLayers, embeddings: Tensor, positions: Tensor, *given: Any
        ) -> Tensor:
            states = call(layers, embeddings, positions, *given)
            self._write(states, positions)
            return states

        return call_and_write

    def _write_ids(self, _: nn.Module, __: object, options: dict[str, Any], result: Any) -> Any:
        self._write(result.last_hidden_state, options["position_ids"])
        return result

    def _write(self, states: Tensor, positions: Tensor) -> None:
        """Write the id that each position must predict into its state (streams, new, width)."""
        answer, places = self.answer(), positions + 1 - self.opening
        ids = torch.tensor(answer, device=places.device)[places.clamp(0, len(answer) - 1)]
        states[..., 0], states[..., 1] = (ids // BASE).to(states), (ids % BASE).to(states)

    def _raise_scores(self, _: nn.Module, given: tuple[Tensor, ...], scores: Tensor) -> Tensor:
        ids = (given[0][..., 0] * BASE + given[0][..., 1].float()).long()
        return scores.scatter(-1, ids[..., None], torch.finfo(scores.dtype).max)


def compose_size(backbone: str, size: Size, given: Sequence[str], tokenizer: str) -> DictConfig:
    """conf/evaluate.yaml with the model in this size and the given overrides on top."""
    cfg = compose("evaluate", ["system=streamuni", f"backbone={backbone}"])
    special = [*SPECIAL_TOKENS, *build(cfg.backbone.template).tokens]
    texts = [TALK, cfg.backbone.template.instruction]
    train_tokenizer(texts, vocabulary_size=800, special_tokens=special).save_pretrained(tokenizer)
    names = [
        "backbone.name=null",
        f"backbone.tokenizer={tokenizer}",
        f"backbone.dtype={size.dtype}",
        "backbone.alignment.layer=0",
    ]
    config = f"++backbone.config={_as_override(size.config)}"
    return compose("evaluate", ["system=streamuni", f"backbone={backbone}", *names, config, *given])


def _as_override(value: Any) -> str:
    """A value in the syntax of Hydra's command line."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_as_override(entry)}" for key, entry in value.items()) + "}"
    return (
        json.dumps(value).replace('"', "")
        if not isinstance(value, list)
        else str(value).replace(" ", "")
    )


def build_random(
    cfg: DictConfig, size: Size, device: torch.device
) -> tuple[StreamingSystem, ChainOfThought]:
    """A randomly initialised system on ``device`` with the published vocabulary size."""
    system = build(cfg.system)
    thinker = system.backbone if isinstance(system, StreamingSystem) else None
    if not isinstance(thinker, ChainOfThought):
        raise ZooError(
            "real_size of system=streamuni needs a backbone with a speech chain of thought."
        )
    torch.manual_seed(cfg.seed)
    with device:
        system.configure_model()
        thinker.model.resize_token_embeddings(size.tokens, mean_resizing=False)
    return system.to(device).eval(), thinker


def bytes_per_pass(thinker: ChainOfThought) -> int:
    """Bytes a pass of one position reads: decoder layers and head, without input embeddings."""
    head = thinker.decoder.get_output_embeddings().weight
    layers = weight_bytes(thinker.decoder.model.layers) + weight_bytes(thinker.decoder.model.norm)
    return layers + head.numel() * head.element_size()


def measure(
    system: StreamingSystem,
    thinker: ChainOfThought,
    *,
    minutes: float,
    seed: int,
    device: torch.device,
) -> tuple[dict[str, float], Run]:
    """Measured values by name, and the seconds of each part."""
    clock, run = clock_of(device), Run()
    bandwidth, needed = copy_bandwidth(device, clock), bytes_per_pass(thinker)
    reset_peak_memory(device)
    session = system.open("noise")
    chunks = list(noise(minutes, chunk_samples=system.chunk_samples, seed=seed))
    cuts = 0
    with Dictation(thinker).dictating(), Meter(thinker, run, clock).measuring():
        for number, chunk in enumerate(chunks, start=1):
            before, start = session.audio_start, clock()
            [action] = system.step([session], [SpeechChunk(chunk, final=number == len(chunks))])
            run.seconds.append(clock() - start)
            run.texts.append(action.text)
            cuts += session.audio_start > before
    alone = sum(new == 1 for new in run.positions)
    one: Seconds = run.spent["token by token"] / max(alone, 1)
    length = len(chunks) * system.chunk_samples / SAMPLE_RATE
    facts = {
        "chunks": len(chunks),
        "cuts": cuts,
        "rtf": sum(run.seconds) / length,
        "ms_per_chunk": run.milliseconds,
        "ms_per_chunk_most": 1000 * max(run.seconds),
        "passes_per_chunk": run.passes / len(chunks),
        "positions_per_chunk": sum(run.positions) / len(chunks),
        "words": len("".join(run.texts).split()),
        "tokens_per_second": 1 / one if one else 0.0,
        "ms_per_token": 1000 * one,
        "floor_ms_per_token": 1000 * needed / bandwidth,
        "over_floor": one * bandwidth / needed,
        "read_per_token_gb": needed / GIGA,
        "copy_bandwidth_gb_per_s": bandwidth / GIGA,
        "weights_gb": weight_bytes(thinker.model) / GIGA,
        "parameters_billions": sum(weight.numel() for weight in thinker.model.parameters()) / GIGA,
        "peak_memory_gb": peak_memory_bytes(device) / GIGA,
        "compute_growth": growth(run.seconds),
    }
    return facts, run


def print_parts(run: Run) -> None:
    """Milliseconds of the parts of a chunk."""
    shares = run.shares()
    rows = [
        (part, f"{shares[part] * run.milliseconds:.1f}", f"{shares[part]:.0%}") for part in PARTS
    ]
    print_table(("part", "ms per chunk (mean)", "share"), rows)


def run(chosen: str | None, minutes: float | None, overrides: Sequence[str]) -> None:
    """Build, stream, print.

    Args:
        chosen: name of the size; None: real on a GPU, else small.
        minutes: length of the stream; None: 1.
        overrides: of conf/evaluate.yaml, ``system=streamuni`` among them.

    Raises:
        ZooError: The backbone has no published size here, or the stream is too short.
    """
    choices = dict(item.split("=", 1) for item in overrides if item.startswith("backbone="))
    backbone = choices.get("backbone", "phi4_multimodal")
    if backbone not in SIZES:
        raise unknown_choice("backbone of a published size", backbone, SIZES)
    given = [item for item in overrides if not item.startswith(("backbone=", "system="))]
    length = 1.0 if minutes is None else minutes
    with tempfile.TemporaryDirectory() as folder:
        cfg = compose_size(backbone, SIZES[backbone]["small"], given, folder)
        if length * MINUTE < 20 * cfg.system.chunk_seconds:
            raise ZooError(f"--minutes must give at least 20 chunks, which {length:g} do not.")
        device = machine(cfg)
        name = chosen or ("real" if device.type == "cuda" else "small")
        size = SIZES[backbone][name]
        cfg = compose_size(backbone, size, given, folder)
        system, thinker = build_random(cfg, size, device)
    print_size(f"{name} of {backbone}", device)
    facts, spent = measure(system, thinker, minutes=length, seed=cfg.seed, device=device)
    print_parts(spent)
    print_facts(facts)
    settings = {
        "system": "streamuni",
        "backbone": backbone,
        "size": name,
        "device": device_name(device),
        "dtype": size.dtype,
        "minutes": length,
        "overrides": list(overrides),
    }
    print_result("real_size", settings, rounded(facts))
