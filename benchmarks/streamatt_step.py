"""python benchmarks/streamatt_step.py [--small] [--option N ...]: StreamAtt against simulstream.

One randomly initialised SeamlessM4T of a chosen size, simulstream 1.0.0, one recording of
minitalks, the same settings on both sides, which process each chunk in turn. Needs the extra
``interop``.
"""

import argparse
import difflib
import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
import transformers
from torch import Tensor

from harness import parser_of, print_result, print_table, recording
from streamatt_weights import save_random_seamless
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.seamless_m4t.seamless_m4t import SeamlessM4T
from zoo.base.errors import ZooError
from zoo.base.machine.commands import run_script
from zoo.base.types import SAMPLE_RATE, Samples, Seconds, SpeechChunk
from zoo.history.recent_words import RecentWords
from zoo.policies.alignatt import AlignAtt
from zoo.systems.base import StreamingSystem

SIZES = {
    "hidden": (320, 64, "width of encoder and decoder; feed-forward layers are four times as wide"),
    "encoder_layers": (8, 2, "conformer layers of the encoder"),
    "decoder_layers": (6, 4, "decoder layers"),
    "heads": (8, 4, "attention heads, of both"),
    "vocabulary": (8000, 2000, "tokens"),
    "chunk_ms": (1000, 1000, "audio per chunk, a multiple of 20"),
    "chunks": (60, 8, "measured chunks, after five that fill the history"),
    "words": (10, 5, "words of text history"),
    "frames": (4, 2, "f of AlignAtt, frames of 160 ms"),
    "max_tokens": (128, 128, "limit of new tokens per chunk, the end included"),
    "beams": (5, 3, "beam size, compared in addition to greedy search"),
    "threads": (1, 1, "CPU threads"),
    "seed": (1, 1, "of weights and vocabulary"),
}
LAYER = 3  # decoder layer whose cross-attention aligns
NO_REPEAT_NGRAM = 5
LONGEST: Seconds = 90.0  # of audio history: the effect of simulstream's default of "360 seconds"
WARM_UP = 5  # chunks
HELD_BACK: Samples = 80  # simulstream skips 80 samples unless its first chunk is shorter by 80


class Side(Protocol):
    """One stream through one implementation."""

    def step(self, chunk: Tensor) -> str:
        """The text emitted after the next chunk (n,)."""

    @property
    def kept(self) -> Seconds:
        """Length of the audio history."""


class Ours:
    """A stream through the zoo."""

    def __init__(self, folder: Path, options: argparse.Namespace, *, beams: int) -> None:
        self.system = StreamingSystem(
            name="streamatt_step",
            backbone=SeamlessM4T(
                name=str(folder),
                search=SearchConfig(beams=beams, no_repeat_ngram=NO_REPEAT_NGRAM),
                alignment=AlignmentConfig(layer=LAYER, query="own", normalisation="z_score"),
                max_tokens=options.max_tokens,
            ),
            policy=AlignAtt(frames=options.frames, last_word="dropped"),
            history=RecentWords(words=options.words, max_seconds=LONGEST),
            source_language="en",
            target_language="de",
            chunk_seconds=options.chunk_ms / 1000,
        )
        self.system.configure_model()
        self.system.eval()
        self.session = self.system.open("talk")

    def step(self, chunk: Tensor) -> str:
        """Return the text that the zoo emits after the next chunk (n,)."""
        [action] = self.system.step([self.session], [SpeechChunk(chunk)])
        return action.text

    @property
    def kept(self) -> Seconds:
        """Length of the audio history of the zoo."""
        return self.session.audio.numel() / SAMPLE_RATE


def simulstream_class() -> Any:
    """The class of simulstream's side. Raises ZooError if simulstream is not installed."""
    try:
        from streamatt_simulstream import Simulstream
    except ModuleNotFoundError as missing:
        raise ZooError(
            f"streamatt_step compares with simulstream, but {missing.name} is not installed: "
            "pip install --constraint constraints.txt --editable '.[interop]'."
        ) from None
    return Simulstream


class Theirs:
    """A stream through simulstream's speech processor."""

    def __init__(
        self,
        folder: Path,
        options: argparse.Namespace,
        *,
        beams: int,
        bugs: Collection[str] = (),
    ) -> None:
        stream = simulstream_class()
        stream.load_weights(folder)
        self.processor = stream(
            bugs=bugs,
            words=options.words,
            cutoff_frame_num=options.frames,
            cross_attention_layer=LAYER,
            num_beams=beams,
            max_new_tokens=options.max_tokens,
            no_repeat_ngram_size=NO_REPEAT_NGRAM,
        )
        self.processor.set_target_language("deu")

    def step(self, chunk: Tensor) -> str:
        """Return the text that simulstream emits after the next chunk (n,)."""
        return str(self.processor.process_chunk(chunk.numpy()).new_string)

    @property
    def kept(self) -> Seconds:
        """Length of the audio history of simulstream."""
        return 0.02 * len(self.processor.audio_history)


@dataclass(slots=True)
class Run:
    """Measurements of one side per chunk.

    Attributes:
        seconds: of the CPU of this process.
        kept: seconds of audio history after the chunk.
        words: emitted after the chunk.
    """

    seconds: list[float] = field(default_factory=list)
    kept: list[Seconds] = field(default_factory=list)
    words: list[list[str]] = field(default_factory=list)

    @property
    def milliseconds(self) -> float:
        """Median per chunk, without the first ``WARM_UP``."""
        return 1000 * statistics.median(self.seconds[WARM_UP:])

    @property
    def emitted(self) -> list[tuple[int, str]]:
        """Each word with the chunk after which it was emitted."""
        return [(chunk, word) for chunk, words in enumerate(self.words) for word in words]


def compare(theirs: Side, ours: Side, samples: Tensor, *, chunk: Samples) -> tuple[Run, Run]:
    """Stream whole chunks of ``samples`` (n,) to both sides in turn, so that load affects both."""
    runs = Run(), Run()
    for end in range(chunk, samples.numel() + 1, chunk):
        pieces = (
            samples[max(end - chunk - HELD_BACK, 0) : end - HELD_BACK],
            samples[end - chunk : end],
        )
        for run, side, piece in zip(runs, (theirs, ours), pieces, strict=True):
            start = time.process_time()
            text = side.step(piece)
            run.seconds.append(time.process_time() - start)
            run.kept.append(side.kept)
            run.words.append(text.split())
    return runs


def agreement(theirs: Run, ours: Run) -> float:
    """Share of words that both sides emit after the same chunk and in the same order."""
    matcher = difflib.SequenceMatcher(None, theirs.emitted, ours.emitted, autojunk=False)
    return matcher.ratio()


def facts(pairs: dict[str, tuple[Run, Run]]) -> dict[str, Any]:
    """Numbers per search (greedy, beams)."""
    return {
        name: {
            "simulstream_ms": round(theirs.milliseconds, 1),
            "zoo_ms": round(ours.milliseconds, 1),
            "speedup": round(theirs.milliseconds / ours.milliseconds, 2),
            "agreement": round(agreement(theirs, ours), 4),
            "words": len(ours.emitted),
            "kept_seconds": round(statistics.median(ours.kept[WARM_UP:]), 1),
        }
        for name, (theirs, ours) in pairs.items()
    }


def print_searches(numbers: dict[str, Any]) -> None:
    """A row per search."""
    columns = ("search", *next(iter(numbers.values())))
    print_table(columns, [(name, *map(str, row.values())) for name, row in numbers.items()])


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The parsed command line."""
    parser = parser_of(__doc__, SIZES, given=given)
    options = parser.parse_args(given)
    if options.chunk_ms % 20:
        parser.error(f"argument --chunk-ms: must be a multiple of 20, not {options.chunk_ms}")
    if options.decoder_layers <= LAYER:
        parser.error(f"argument --decoder-layers: must be more than {LAYER}, the layer that aligns")
    return options


def main() -> None:
    """Save random weights, stream both sides, print a table and the result."""
    options = arguments()
    simulstream_class()
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("simulstream").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message="std\\(\\): degrees of freedom")

    samples = recording((WARM_UP + options.chunks) * options.chunk_ms / 1000)
    chunk = options.chunk_ms * SAMPLE_RATE // 1000
    pairs = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = save_random_seamless(folder, options, samples)
        for search, beams in (("greedy", 1), (f"beam {options.beams}", options.beams)):
            sides = Theirs(folder, options, beams=beams), Ours(folder, options, beams=beams)
            pairs[search] = compare(*sides, samples, chunk=chunk)

    numbers = facts(pairs)
    print_searches(numbers)
    settings = {name: getattr(options, name) for name in ("chunk_ms", "frames", "words", "threads")}
    ratios = {f"{name.split()[0]}_speedup": row.pop("speedup") for name, row in numbers.items()}
    print_result("streamatt_step", {"parameters_millions": size}, settings, numbers, ratios)


if __name__ == "__main__":
    run_script(main)
