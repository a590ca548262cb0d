"""python benchmarks/whisper_step.py [--small] [--option N ...]: AlignAtt on Whisper per chunk.

A plain restatement of SimulStreaming's loop (``whisper_plain.py``) and the zoo, on one randomly
initialised Whisper, one recording of minitalks and the same settings, which process each chunk in
turn. Both must emit the same words. Without padding to 30 s, an option of the zoo, the encoder has
shorter inputs and the words may differ. Times are of this process's CPU.
"""

import argparse
import random
import statistics
import string
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor
from transformers import (
    GenerationConfig,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperTokenizer,
)

from harness import parameters_millions, parser_of, print_result, print_table, recording
from whisper_plain import PlainWhisper
from zoo.backbones.base import Backbone
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.whisper import Whisper
from zoo.base.errors import ZooError
from zoo.base.machine.commands import run_script
from zoo.base.types import SpeechChunk
from zoo.history.recent_words import RecentWords
from zoo.policies.alignatt import AlignAtt
from zoo.systems.base import StreamingSystem

SIZES = {
    "hidden": (384, 64, "width of encoder and decoder; feed-forward layers are four times as wide"),
    "layers": (4, 1, "layers of encoder and decoder, each"),
    "heads": (6, 4, "attention heads, of both"),
    "vocabulary": (20000, 1000, "tokens"),
    "chunk_ms": (1000, 1000, "audio per chunk, a multiple of 20"),
    "chunks": (10, 3, "measured chunks, after those that fill the history"),
    "words": (20, 5, "words of text history"),
    "seconds": (10, 2, "longest audio history, and number of chunks that fill it"),
    "frames": (10, 10, "f of AlignAtt, frames of 20 ms"),
    "max_tokens": (40, 8, "limit of new tokens per chunk, the end included"),
    "threads": (1, 1, "CPU threads"),
    "seed": (1, 1, "of weights and vocabulary"),
}
PLAIN = "plain restatement of SimulStreaming's loop"
OURS = "the zoo"
SHORT = "the zoo, not padded to 30 s (other words)"


def save_random_whisper(folder: Path, options: argparse.Namespace) -> float:
    """Save a randomly initialised English Whisper; return its millions of parameters."""
    letters = random.Random(options.seed)
    vocabulary = {piece: place for place, piece in enumerate(sorted(ByteLevel.alphabet()))}
    while len(vocabulary) < options.vocabulary:
        piece = "".join(letters.choices(string.ascii_lowercase, k=letters.randint(2, 5)))
        piece = "Ġ" + piece if letters.random() < 0.6 else piece
        vocabulary.setdefault(piece, len(vocabulary))
    end, start, plain = (len(vocabulary) + place for place in range(3))
    tokenizer = WhisperTokenizer(
        vocab=vocabulary | {"<|endoftext|>": end},
        merges=[],
        extra_special_tokens=["<|startoftranscript|>", "<|notimestamps|>"],
    )
    torch.manual_seed(options.seed)
    model = WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=plain + 1,
            d_model=options.hidden,
            encoder_layers=options.layers,
            decoder_layers=options.layers,
            encoder_attention_heads=options.heads,
            decoder_attention_heads=options.heads,
            encoder_ffn_dim=4 * options.hidden,
            decoder_ffn_dim=4 * options.hidden,
            decoder_start_token_id=start,
            **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), end),
            tie_word_embeddings=False,  # tied weights would predict the last token again
            init_std=2 * options.hidden**-0.5,  # large: words depend on the audio
        )
    )
    model.generation_config = GenerationConfig(
        decoder_start_token_id=start,
        eos_token_id=end,
        pad_token_id=end,
        is_multilingual=False,
        no_timestamps_token_id=plain,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    WhisperFeatureExtractor().save_pretrained(folder)
    return parameters_millions(model)


def system_on(backbone: Backbone, options: argparse.Namespace) -> StreamingSystem:
    """A loaded system; all forms have the same policy and history."""
    system = StreamingSystem(
        name="whisper_step",
        backbone=backbone,
        policy=AlignAtt(frames=options.frames),
        history=RecentWords(
            words=options.words, max_seconds=options.seconds, restart=None, speech=None
        ),
        source_language="en",
        target_language="en",
        chunk_seconds=options.chunk_ms / 1000,
    )
    system.configure_model()
    return system.eval()


def compare(systems: dict[str, StreamingSystem], samples: Tensor, *, chunk: int) -> dict[str, Any]:
    """Seconds and text per chunk, by form.

    Raises ZooError if the plain form and the zoo emit different text.
    """
    sessions = {name: system.open("talk") for name, system in systems.items()}
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    texts: dict[str, list[str]] = {name: [] for name in systems}
    for end in range(chunk, samples.numel() + 1, chunk):
        for name, system in systems.items():
            piece = SpeechChunk(samples[end - chunk : end])
            start = time.process_time()
            [action] = system.step([sessions[name]], [piece])
            seconds[name].append(time.process_time() - start)
            texts[name].append(action.text)
        if texts[PLAIN][-1] != texts[OURS][-1]:
            raise ZooError(
                f"The forms emit different text in chunk {end // chunk}: {texts[PLAIN][-1]!r} and "
                f"{texts[OURS][-1]!r}."
            )
    return {"seconds": seconds, "texts": texts}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The parsed command line."""
    parser = parser_of(__doc__, SIZES, given=given)
    options = parser.parse_args(given)
    if options.chunk_ms % 20:
        parser.error(f"argument --chunk-ms: must be a multiple of 20, not {options.chunk_ms}")
    return options


def main() -> None:
    """Save random weights, stream all forms, print a table and the result."""
    options = arguments()
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    chunk = options.chunk_ms * 16
    warm_up = -(-1000 * options.seconds // options.chunk_ms)
    samples = recording((warm_up + options.chunks) * options.chunk_ms / 1000)
    with tempfile.TemporaryDirectory() as name:
        size = save_random_whisper(Path(name), options)
        # Random weights repeat themselves; the plain form has no guard against loops.
        common = {
            "name": name,
            "max_tokens": options.max_tokens,
            "no_speech": 1.0,
            "search": SearchConfig(),
        }
        backbones = {
            PLAIN: PlainWhisper(Whisper(**common)),
            OURS: Whisper(**common),
            SHORT: Whisper(**common, padding_seconds=0),
        }
        systems = {form: system_on(backbone, options) for form, backbone in backbones.items()}
    found = compare(systems, samples, chunk=chunk)

    ms = {
        form: 1000 * statistics.median(values[warm_up:])
        for form, values in found["seconds"].items()
    }
    words = {form: len("".join(texts).split()) for form, texts in found["texts"].items()}
    rows = [
        (form, f"{value:.0f}", f"{ms[PLAIN] / value:.2f}x", str(words[form]))
        for form, value in ms.items()
    ]
    print_table(("form", "ms per chunk", "faster", "words"), rows)
    results = {
        "ms": {form: round(value, 1) for form, value in ms.items()},
        "words": words,
        "step_speedup": round(ms[PLAIN] / ms[OURS], 2),
        "unpadded_speedup": round(ms[PLAIN] / ms[SHORT], 2),
    }
    settings = {name: getattr(options, name) for name in SIZES}
    print_result("whisper_step", {"parameters_millions": size}, settings, results)


if __name__ == "__main__":
    run_script(main)
