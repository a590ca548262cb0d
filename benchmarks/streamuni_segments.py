"""python benchmarks/streamuni_segments.py [--talks N] [--k K] [override ...]: what do the ways to cut leave together?

Streams talks through every choice of ``experiment=streamuni_truncation`` at one k: how many segments, how long they are
and how many words of translation belong to one (StreamUni, Table 8). What is forgotten without a word is no segment.
The last line is one JSON object.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import torch
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.config import build, compose
from zoo.data.talks import Talk
from zoo.errors import run_script
from zoo.evaluation.progress import progress
from zoo.evaluation.sources import sources
from zoo.streaming.session import Session
from zoo.streaming.simulate import simulate
from zoo.systems.base import StreamingSystem
from zoo.types import SAMPLE_RATE, Cut, Seconds

EXPERIMENT = "experiment=streamuni_truncation"


def segments(system: StreamingSystem, talks: Sequence[Talk]) -> dict[str, float]:
    """Number, mean and longest length (s) of the segments whose text was cut off, and mean words of one."""
    lengths: list[Seconds] = []
    unwatched = Session.forget

    def watched(session: Session, cut: Cut) -> None:
        if cut.tokens:
            lengths.append(
                min(cut.frames * session.frame_samples, session.audio.numel()) / SAMPLE_RATE
            )
        unwatched(session, cut)

    streams = sources(talks, system.target_language, chunk_samples=system.chunk_samples)
    seconds = sum(talk.duration for talk in talks)
    with patch.object(Session, "forget", watched), progress(system.name, seconds) as report:
        words = sum(len(instance.units) for instance in simulate(system, streams, on_chunk=report))
    return {
        "segments": len(lengths),
        "mean_seconds": round(statistics.mean(lengths), 2) if lengths else 0.0,
        "longest_seconds": round(max(lengths, default=0.0), 2),
        "words": round(words / len(lengths), 2) if lengths else 0.0,
    }


def shown(found: dict[str, dict[str, float]]) -> Table:
    """A line per way to cut."""
    table = Table("cut by", "segments", "mean (s)", "longest (s)", "words of translation", box=None)
    for name, line in found.items():
        table.add_row(name.replace("_", " "), *(f"{value:g}" for value in line.values()))
    return table


def main() -> None:
    """Stream, print a table and the numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--talks", type=int, default=3, help="test talks that are streamed (default: 3)"
    )
    parser.add_argument("--k", type=int, default=3, help="words behind the transcript (default: 3)")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides of conf/evaluate.yaml")
    options = parser.parse_intermixed_args()
    if min(options.talks, options.k) < 1:
        parser.error("--talks and --k must be at least 1")
    torch.set_num_threads(1)
    given = ["system=streamuni", EXPERIMENT, *options.overrides]
    cfg = compose("evaluate", given)
    talks = build(cfg.data).talks(cfg.evaluation.split, limit=options.talks)
    found = {}
    for name, entry in cfg.compare.items():
        system: StreamingSystem = build(
            compose("evaluate", [*given, *entry, f"system.name={name}"]).system
        )
        system.configure_model()
        system.turn_knob(options.k)
        found[str(name)] = segments(system.eval(), talks)
    reference = [segment for talk in talks for segment in talk.segments]
    Console(width=120).print(shown(found))
    setting = {
        "benchmark": "streamuni_segments",
        "talks": options.talks,
        "k": options.k,
        "sentences": len(reference),
    }
    print(json.dumps(setting | {"cut_by": found}))


if __name__ == "__main__":
    run_script(main)
