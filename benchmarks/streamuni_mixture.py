"""python benchmarks/streamuni_mixture.py [--option N ...] [override ...]: which chains of thought to train on?

One shared stage that has only seen whole sentences, then the same number of steps on each mixture: nothing (vanilla),
non-streaming, streaming and non-streaming, partial and non-streaming (StreamUni, Figures 4 and 5, Table 4). A training
that is done already is not repeated. Scores: reference segments (SimulST) at several k, the model's own truncation at
one, and transcript and translation of random prefixes of sentences. The last line is one JSON object.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.config import build, compose
from zoo.data.chain_of_thought import Thought, ThoughtConfig, Thoughts
from zoo.errors import ZooError, run_script
from zoo.metrics.quality import BLEU, error_rate
from zoo.systems.base import StreamingSystem
from zoo.tracking.run import CARD
from zoo.types import Request, SpeechChunk, Task

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("outputs/ablations/streamuni_mixture")
SHARED = "shared"
MIXTURES = {  # shares of non-streaming, streaming and partial thoughts; None: no training beyond the shared stage
    "vanilla": None,
    "non_streaming": (1.0, 0.0, 0.0),
    "streaming_and_non_streaming": (0.5, 0.5, 0.0),
    "partial_and_non_streaming": (0.5, 0.0, 0.5),
}
SIMULST = ("history=reference_segments", "policy.truncate=false")
TOGETHER = 4  # prefixes of one length: more would be mostly the shortest


def trained(name: str, overrides: Sequence[str]) -> float:
    """Train ``name`` unless it is there. Returns minutes. Raises ZooError when it fails."""
    folder = FOLDER / name
    if (ROOT / folder / "export" / CARD).is_file():
        return 0.0
    begin = time.perf_counter()
    command = [sys.executable, "train.py", *overrides, f"hydra.run.dir={folder}"]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise ZooError(f"The training of {name} failed; what it said stands above.")
    return (time.perf_counter() - begin) / 60


def training(options: argparse.Namespace) -> dict[str, float]:
    """All trainings; minutes of each."""
    steps = "training.curriculum.stages.{}.steps={}".format
    first = [steps("hearing", options.hearing_steps), steps("sentences", options.sentence_steps)]
    minutes = {
        SHARED: trained(SHARED, ["experiment=streamuni_mixture_shared", *first, *options.overrides])
    }
    for name, shares in MIXTURES.items():
        if shares is not None:
            mixture = (
                "training.thoughts.mixture={{non_streaming:{},streaming:{},partial:{}}}".format(
                    *shares
                )
            )
            given = [
                "experiment=streamuni_mixture",
                f"mixture={name}",
                f"backbone.name={weights('vanilla')}",
                mixture,
            ]
            minutes[name] = trained(
                name, [*given, steps("segments", options.steps), *options.overrides]
            )
    return minutes


def weights(name: str) -> Path:
    """Where the model of a mixture lies."""
    return FOLDER / (SHARED if MIXTURES[name] is None else name) / "export"


def streamed(
    options: argparse.Namespace, *, ks: Sequence[int], talks: int, given: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows of an evaluation of all models."""
    compared = {
        name: ["system=streamuni", f"backbone.name={weights(name)}", *given] for name in MIXTURES
    }
    with tempfile.TemporaryDirectory() as folder:
        settings = [
            f"compare={{{','.join(f'{name}:{entries}' for name, entries in compared.items())}}}",
            f"evaluation.knob_values={list(ks)}".replace(" ", ""),
            f"evaluation.talks={talks}",
            "evaluation.upper_bound=false",
            "evaluation.oracle_k=[]",
            f"hydra.run.dir={folder}",
        ]
        command = [sys.executable, "evaluate.py", "system=streamuni", *settings, *options.overrides]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            raise ZooError("The evaluation failed; what it said stands above.")
        return list(json.loads((Path(folder) / "results.json").read_text()))


def prefixes(system: StreamingSystem, options: argparse.Namespace) -> list[list[Thought]]:
    """Batches of the beginnings of test sentences, each batch of one length (the paper, appendix C)."""
    talks = build(compose("evaluate", ["data=minitalks"]).data).talks("tst")
    config = ThoughtConfig(mixture={"partial": 1.0}, settled=0.12)
    thoughts = Thoughts(talks, system.target_language, config, chunk_seconds=system.chunk_seconds)
    random = np.random.default_rng(0)
    batches: list[list[Thought]] = []
    while sum(map(len, batches)) < options.prefixes:
        batches.append(thoughts.batch(random, seconds=TOGETHER * config.max_seconds)[:TOGETHER])
    return batches


def low_latency(name: str, options: argparse.Namespace) -> dict[str, float]:
    """WER of the transcripts of prefixes, and BLEU of their translations against what is said by then (Table 4)."""
    chosen = ["system=streamuni", f"backbone.name={weights(name)}", *options.overrides]
    system: StreamingSystem = build(compose("evaluate", chosen).system)
    system.configure_model()
    system.eval()
    heard: list[str] = []
    written: list[str] = []
    gold: list[Thought] = []
    for batch in prefixes(system, options):
        sessions = [system.open("") for _ in batch]
        for session, thought in zip(sessions, batch, strict=True):
            session.receive(SpeechChunk(thought.samples(), final=True))
        for stage, texts in ((Task.TRANSCRIPTION, heard), (Task.TRANSLATION, written)):
            answers = system.backbone.decode(
                sessions, [Request(task=stage)] * len(batch), system.needs
            )
            texts += [system.backbone.text(answer.token_ids.tolist()).strip() for answer in answers]
        gold += batch
    bleu = BLEU(system.target_language)
    bleu.update(written, [thought.translation for thought in gold])
    said = [thought.transcript for thought in gold]
    return {
        "prefix_WER": round(error_rate(heard, said, language=system.source_language), 1),
        "prefix_BLEU": round(float(bleu.compute()), 1),
    }


def scores(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Every number, by model."""
    found: dict[str, dict[str, float]] = {name: low_latency(name, options) for name in MIXTURES}
    settings = (("SimulST", options.k, SIMULST), ("StreamST", [options.k[len(options.k) // 2]], ()))
    for setting, ks, given in settings:
        for row in streamed(options, ks=ks, talks=options.talks, given=given):
            place = f"{setting} k={row['knob']['value']:g}"
            found[row["system"]] |= {
                f"{place} {score}": round(
                    row["scores"][score] or 0.0, 2
                )  # nothing written: no latency
                for score in ("BLEU", "StreamLAAL")
            }
    return found


def shown(found: dict[str, dict[str, float]]) -> Table:
    """A line per model: WER and BLEU of prefixes, then BLEU @ latency (s) per setting."""
    any_line = next(iter(found.values()))
    places = [name.removesuffix(" BLEU") for name in any_line if name.endswith(" BLEU")]
    table = Table("trained on", "prefixes: WER", "BLEU", *places, box=None)
    for name, line in found.items():
        pairs = (
            f"{line[f'{place} BLEU']:.1f} @ {line[f'{place} StreamLAAL']:.2f}" for place in places
        )
        table.add_row(
            name.replace("_", " "),
            f"{line['prefix_WER']:.1f}",
            f"{line['prefix_BLEU']:.1f}",
            *pairs,
        )
    return table


def natural(text: str) -> int:
    """A number on the command line."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text}")
    return int(text)


def naturals(text: str) -> list[int]:
    """Several of them."""
    return [natural(part) for part in text.split(",")]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--hearing-steps", type=natural, default=800, help="of the shared stage, encoder alone"
    )
    parser.add_argument(
        "--sentence-steps", type=natural, default=600, help="of the shared stage, whole sentences"
    )
    parser.add_argument("--steps", type=natural, default=300, help="on each mixture")
    parser.add_argument("--talks", type=natural, default=3, help="test talks that are streamed")
    parser.add_argument(
        "--prefixes", type=natural, default=200, help="prefixes of test sentences, at least"
    )
    parser.add_argument(
        "--k", type=naturals, default=[1, 3, 5], help="words behind the transcript, as in 1,3,5"
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        help="Hydra overrides of trainings and evaluations, such as threads=1",
    )
    return parser.parse_intermixed_args(given)


def main() -> None:
    """Train what is missing, score, print a table and the numbers."""
    options = arguments()
    minutes = training(options)
    torch.set_num_threads(1)
    found = scores(options)
    Console(width=140).print(shown(found))
    setting = {
        name: getattr(options, name)
        for name in ("hearing_steps", "sentence_steps", "steps", "talks", "k")
    }
    done = {name: round(spent, 1) for name, spent in minutes.items() if spent}
    print(
        json.dumps(
            {"benchmark": "streamuni_mixture"}
            | setting
            | {"training_minutes": done, "scores": found}
        )
    )


if __name__ == "__main__":
    run_script(main)
