"""python benchmarks/streamatt_step.py [--small] [--option N ...]: StreamAtt per chunk, in
simulstream 1.0.0 and here.

One SeamlessM4T of random weights of a stated size, one talk of MiniTalks, the same settings on both
sides; chunk after chunk in turn. Needs the extra ``interop``. The last line is one JSON object.
"""

import argparse
import difflib
import json
import logging
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
import transformers
from rich.console import Console
from rich.table import Table
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from streamatt_weights import made

from zoo import audio
from zoo.backbones.common.alignment import AlignmentConfig
from zoo.backbones.common.search import SearchConfig
from zoo.backbones.seamless_m4t.seamless_m4t import SeamlessM4T
from zoo.config import build, compose
from zoo.errors import ZooError, run_script
from zoo.history.recent_words import RecentWords
from zoo.policies.alignatt import AlignAtt
from zoo.systems.base import StreamingSystem
from zoo.types import SAMPLE_RATE, Samples, Seconds, SpeechChunk

SIZES = {  # name: default, with --small, meaning
    "hidden": (320, 64, "width of encoder and decoder; feed-forward layers are four times as wide"),
    "encoder_layers": (8, 2, "conformer layers of the encoder"),
    "decoder_layers": (6, 4, "decoder layers"),
    "heads": (8, 4, "attention heads, of both"),
    "vocabulary": (8000, 2000, "tokens"),
    "chunk_ms": (1000, 1000, "audio per chunk, a multiple of 20"),
    "chunks": (60, 8, "chunks measured; five before them warm up and fill the history"),
    "words": (10, 5, "words of text history"),
    "frames": (4, 2, "f of AlignAtt, frames of 160 ms"),
    "max_tokens": (128, 128, "new tokens per look at most, the end among them"),
    "beams": (5, 3, "beam size, compared beside greedy search"),
    "threads": (1, 1, "of torch"),
    "seed": (1, 1, "of weights and vocabulary"),
}
LAYER = 3  # of the decoder, whose cross-attention aligns
NO_REPEAT_NGRAM = 5
LONGEST: Seconds = 90.0  # of audio history: what simulstream's default of "360 seconds" comes to
WARM_UP = 5  # chunks
HELD_BACK: Samples = (
    80  # simulstream loses 80 samples after its first chunk unless that one is shorter by as many
)


class Side(Protocol):
    """One stream through one implementation."""

    def hear(self, chunk: Tensor) -> str:
        """What is written after the next chunk (n,)."""

    @property
    def kept(self) -> Seconds:
        """Audio history."""


class Ours:
    """One stream through the zoo."""

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

    def hear(self, chunk: Tensor) -> str:
        [action] = self.system.step([self.session], [SpeechChunk(chunk)])
        return action.text

    @property
    def kept(self) -> Seconds:
        return self.session.audio.numel() / SAMPLE_RATE


def simulstream() -> Any:
    """Their class. Raises ZooError where simulstream is not installed."""
    try:
        from streamatt_simulstream import Simulstream
    except ModuleNotFoundError as missing:
        raise ZooError(
            f"This compares with simulstream, and {missing.name} is not here: "
            "pip install --constraint constraints.txt --editable '.[interop]'."
        ) from None
    return Simulstream


class Theirs:
    """One stream through simulstream's speech processor."""

    def __init__(
        self,
        folder: Path,
        options: argparse.Namespace,
        *,
        beams: int,
        mistakes: Collection[str] = (),
    ) -> None:
        stream = simulstream()
        stream.read(folder)
        self.processor = stream(
            mistakes=mistakes,
            words=options.words,
            cutoff_frame_num=options.frames,
            cross_attention_layer=LAYER,
            num_beams=beams,
            max_new_tokens=options.max_tokens,
            no_repeat_ngram_size=NO_REPEAT_NGRAM,
        )
        self.processor.set_target_language("deu")

    def hear(self, chunk: Tensor) -> str:
        return str(self.processor.process_chunk(chunk.numpy()).new_string)

    @property
    def kept(self) -> Seconds:
        return 0.02 * len(self.processor.audio_history)


@dataclass(slots=True)
class Run:
    """What one side did, chunk by chunk.

    seconds: of computation. kept: of audio, after the chunk.
    """

    seconds: list[float] = field(default_factory=list)
    kept: list[Seconds] = field(default_factory=list)
    words: list[list[str]] = field(default_factory=list)

    @property
    def milliseconds(self) -> float:
        """Median per chunk, without the first ones."""
        return 1000 * statistics.median(self.seconds[WARM_UP:])

    @property
    def said(self) -> list[tuple[int, str]]:
        """Every word with the chunk after which it was written."""
        return [(chunk, word) for chunk, words in enumerate(self.words) for word in words]


def compare(theirs: Side, ours: Side, samples: Tensor, *, chunk: Samples) -> tuple[Run, Run]:
    """Stream ``samples`` (n,), whole chunks only, to both in turn, so that other load hits both
    alike.
    """
    runs = Run(), Run()
    for end in range(chunk, samples.numel() + 1, chunk):
        heard = (
            samples[max(end - chunk - HELD_BACK, 0) : end - HELD_BACK],
            samples[end - chunk : end],
        )
        for run, side, piece in zip(runs, (theirs, ours), heard, strict=True):
            begin = time.perf_counter()
            text = side.hear(piece)
            run.seconds.append(time.perf_counter() - begin)
            run.kept.append(side.kept)
            run.words.append(text.split())
    return runs


def agreement(theirs: Run, ours: Run) -> float:
    """Share of all words written that both wrote, after the same chunk and in the same order."""
    matcher = difflib.SequenceMatcher(None, theirs.said, ours.said, autojunk=False)
    return matcher.ratio()


def recording(seconds: Seconds) -> Tensor:
    """(n,): the first talks of MiniTalks' test set, as long as is needed."""
    talks = build(compose("evaluate", ["data=minitalks"]).data).talks("tst")
    parts: list[Tensor] = []
    for talk in talks:
        parts.append(audio.load(talk.file, start=talk.offset, duration=talk.duration))
        if sum(map(len, parts)) >= seconds * SAMPLE_RATE:
            return torch.cat(parts)[: round(seconds * SAMPLE_RATE)]
    raise ZooError(f"MiniTalks' test set is shorter than {seconds:g} s; ask for fewer --chunks.")


def facts(pairs: dict[str, tuple[Run, Run]]) -> dict[str, Any]:
    """Numbers per search (greedy, beams)."""
    return {
        name: {
            "simulstream_ms": round(theirs.milliseconds, 1),
            "zoo_ms": round(ours.milliseconds, 1),
            "speedup": round(theirs.milliseconds / ours.milliseconds, 2),
            "agreement": round(agreement(theirs, ours), 4),
            "words": len(ours.said),
            "kept_seconds": round(statistics.median(ours.kept[WARM_UP:]), 1),
        }
        for name, (theirs, ours) in pairs.items()
    }


def shown(numbers: dict[str, Any]) -> Table:
    """A line per search."""
    table = Table(
        "search",
        "simulstream (ms)",
        "zoo (ms)",
        "speedup",
        "same words",
        "words",
        "kept (s)",
        box=None,
    )
    for name, line in numbers.items():
        table.add_row(
            name,
            f"{line['simulstream_ms']:.0f}",
            f"{line['zoo_ms']:.0f}",
            f"{line['speedup']:.2f}x",
            f"{line['agreement']:.1%}",
            str(line["words"]),
            f"{line['kept_seconds']:.1f}",
        )
    return table


def natural(text: str) -> int:
    """A size on the command line."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text}")
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
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=natural, default=tiny if small else default, help=meaning)
    options = parser.parse_args(given)
    if options.chunk_ms % 20:
        parser.error(f"argument --chunk-ms: must be a multiple of 20, not {options.chunk_ms}")
    if options.decoder_layers <= LAYER:
        parser.error(f"argument --decoder-layers: must be more than {LAYER}, the layer that aligns")
    return options


def main() -> None:
    """Make weights, stream both sides, print a table and the numbers."""
    options = arguments()
    simulstream()
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("simulstream").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message="std\\(\\): degrees of freedom")
    samples = recording((WARM_UP + options.chunks) * options.chunk_ms / 1000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = made(folder, options, samples)
        pairs = {}
        for search, beams in (("greedy", 1), (f"beam {options.beams}", options.beams)):
            sides = Theirs(folder, options, beams=beams), Ours(folder, options, beams=beams)
            pairs[search] = compare(*sides, samples, chunk=options.chunk_ms * SAMPLE_RATE // 1000)
    numbers = facts(pairs)
    Console(width=120).print(shown(numbers))
    setting = {name: getattr(options, name) for name in ("chunk_ms", "frames", "words", "threads")}
    print(
        json.dumps({"benchmark": "streamatt_step", "parameters_millions": size} | setting | numbers)
    )


if __name__ == "__main__":
    run_script(main)
