"""python benchmarks/real_size.py system=streamuni [backbone=qwen2_5_omni] [--size real|small]: a speech LLM's size.

Phi-4-Multimodal or the thinker of Qwen2.5-Omni-7B in bfloat16 with random weights, a minute of noise as one stream.
What random weights say ends nowhere and changes with every chunk, so that no draft would hold: they are dictated a talk
of ``RATE`` tokens per second and its translation, as long, after every score has been computed. So passes, lengths and
cuts are those of a model that transcribes well. Vision is left out, and the speech LoRA counts as added to the weights.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from omegaconf import DictConfig
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
from rich.table import Table
from streamuni_meter import PARTS, Meter, Run
from torch import Tensor, nn

from zoo.backbones.common.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.common.text.tokenizer import SPECIAL_TOKENS, train_tokenizer
from zoo.config import build, compose, machine
from zoo.errors import ZooError, unknown_choice
from zoo.systems.base import StreamingSystem
from zoo.types import SAMPLE_RATE, Seconds, SpeechChunk

RATE = 3.0  # tokens per second of speech, punctuation included
BASE = 256  # bfloat16 counts to it without a gap
TALK = (
    " We walked to the old harbour because the morning was warm and bright."
    " A small boat had come in at night and nobody knew its name."
    " The children asked the captain where he was going, but he only smiled."
)
Shape = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """Shapes as fields of Transformers' config of the class, the published number of tokens, and the weights' type."""

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
    """What is said, whatever the scores: of T seconds ``RATE`` T tokens of ``TALK``, separator, as many again, end.

    The id that a position is to predict travels in two numbers of its hidden state from the decoder to its head.
    """

    def __init__(self, thinker: ChainOfThought) -> None:
        self.thinker = thinker
        self.talk: list[int] = thinker.tokenizer(TALK, add_special_tokens=False)["input_ids"]
        self.opening = self.embeddings = (
            0  # ids before the answer and those of speech, at the last look
        )

    def answer(self) -> list[int]:
        """Ids after the last opening."""
        seconds = self.embeddings * self.thinker.frame_samples / SAMPLE_RATE
        count = int(RATE * seconds)
        said = (self.talk * (count // len(self.talk) + 1))[:count]
        prompt = self.thinker.prompt
        return [*said, *prompt.separator, *said, prompt.end]

    @contextmanager
    def dictating(self) -> Iterator[None]:
        """While this lasts."""
        decoder, prompt = self.thinker.decoder, self.thinker.prompt
        unwatched = prompt.opening

        def opening(embeddings: int, *given: Any) -> list[int]:
            ids: list[int] = unwatched(embeddings, *given)
            self.opening, self.embeddings = len(ids), embeddings
            return ids

        with ExitStack() as stack:
            stack.enter_context(patch.object(prompt, "opening", opening))
            stack.callback(decoder.model.register_forward_hook(self._told, with_kwargs=True).remove)
            stack.callback(decoder.get_output_embeddings().register_forward_hook(self._said).remove)
            yield

    def _told(self, _: nn.Module, __: object, options: dict[str, Any], result: Any) -> Any:
        answer, places = self.answer(), options["position_ids"] + 1 - self.opening
        ids = torch.tensor(answer, device=places.device)[places.clamp(0, len(answer) - 1)]
        states = result.last_hidden_state
        states[..., 0], states[..., 1] = (ids // BASE).to(states), (ids % BASE).to(states)
        return result

    def _said(self, _: nn.Module, given: tuple[Tensor, ...], scores: Tensor) -> Tensor:
        ids = (given[0][..., 0] * BASE + given[0][..., 1].float()).long()
        return scores.scatter(-1, ids[..., None], torch.finfo(scores.dtype).max)


def configured(backbone: str, size: Size, given: Sequence[str], tokenizer: str) -> DictConfig:
    """What conf/evaluate.yaml says about the model in this size, and the user's overrides on top."""
    cfg = compose("evaluate", ["system=streamuni", f"backbone={backbone}"])
    special = [*SPECIAL_TOKENS, *build(cfg.backbone.template).tokens]
    texts = [TALK, cfg.backbone.template.instruction]
    train_tokenizer(texts, vocabulary_size=800, special_tokens=special).save_pretrained(tokenizer)
    named_so = [
        "backbone.name=null",
        f"backbone.tokenizer={tokenizer}",
        f"backbone.dtype={size.dtype}",
        "backbone.alignment.layer=0",
    ]
    config = f"++backbone.config={_written(size.config)}"
    return compose(
        "evaluate", ["system=streamuni", f"backbone={backbone}", *named_so, config, *given]
    )


def _written(value: Any) -> str:
    """As Hydra's command line has it."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_written(entry)}" for key, entry in value.items()) + "}"
    return (
        json.dumps(value).replace('"', "")
        if not isinstance(value, list)
        else str(value).replace(" ", "")
    )


def built(
    cfg: DictConfig, size: Size, device: torch.device
) -> tuple[StreamingSystem, ChainOfThought]:
    """The system with random weights, made on ``device``, with as many tokens as are published. Raises ZooError."""
    system = build(cfg.system)
    thinker = system.backbone if isinstance(system, StreamingSystem) else None
    if not isinstance(thinker, ChainOfThought):
        raise ZooError("real_size of system=streamuni knows speech chains of thought only.")
    torch.manual_seed(cfg.seed)
    with device:
        system.configure_model()
        thinker.model.resize_token_embeddings(size.tokens, mean_resizing=False)
    return system.to(device).eval(), thinker


def bytes_per_pass(thinker: ChainOfThought) -> int:
    """What a pass of one position must read: the decoder's weights without the table of embeddings, and the head."""
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
    """Facts by name, and where the time went."""
    clock, run = clock_of(device), Run()
    bandwidth, needed = copy_bandwidth(device, clock), bytes_per_pass(thinker)
    forget_peak(device)
    session = system.open("noise")
    chunks = list(noise(minutes, chunk_samples=system.chunk_samples, seed=seed))
    cuts = 0
    with Dictation(thinker).dictating(), Meter(thinker, run, clock).watching():
        for number, chunk in enumerate(chunks, start=1):
            before, begun = session.audio_start, clock()
            [action] = system.step([session], [SpeechChunk(chunk, final=number == len(chunks))])
            run.seconds.append(clock() - begun)
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
        "peak_memory_gb": peak_bytes(device) / GIGA,
        "compute_growth": growth(run.seconds),
    }
    return facts, run


def shares(run: Run) -> Table:
    """Milliseconds of the parts of a chunk."""
    table = Table("part", "ms per chunk (mean)", "share", box=None)
    taken = run.shares()
    for part in PARTS:
        table.add_row(part, f"{taken[part] * run.milliseconds:.1f}", f"{taken[part]:.0%}")
    return table


def run(chosen: str | None, minutes: float | None, overrides: Sequence[str]) -> None:
    """Build, stream, print. chosen: the size (None: real on a GPU, else small). Raises ZooError."""
    choices = dict(item.split("=", 1) for item in overrides if item.startswith("backbone="))
    backbone = choices.get("backbone", "phi4_multimodal")
    if backbone not in SIZES:
        raise unknown_choice("backbone of a published size", backbone, SIZES)
    given = [item for item in overrides if not item.startswith(("backbone=", "system="))]
    length = 1.0 if minutes is None else minutes
    with tempfile.TemporaryDirectory() as folder:
        cfg = configured(backbone, SIZES[backbone]["small"], given, folder)
        if length * MINUTE < 20 * cfg.system.chunk_seconds:
            raise ZooError(f"--minutes must give at least 20 chunks, which {length:g} do not.")
        device = machine(cfg)
        name = chosen or ("real" if device.type == "cuda" else "small")
        size = SIZES[backbone][name]
        cfg = configured(backbone, size, given, folder)
        system, thinker = built(cfg, size, device)
    announce(f"{name} of {backbone}", named(device))
    facts, spent = measure(system, thinker, minutes=length, seed=cfg.seed, device=device)
    show(shares(spent), facts)
    settings = {
        "benchmark": "real_size",
        "system": "streamuni",
        "backbone": backbone,
        "size": name,
        "device": named(device),
        "dtype": size.dtype,
        "minutes": length,
        "overrides": list(overrides),
    }
    print_line(settings, facts)
