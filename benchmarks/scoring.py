"""CPU seconds to score one log: one pass of ours against the scorers of three other tools together.

    python benchmarks/scoring.py --simuleval PYTHON --omnisteval PYTHON --simulstream PYTHON

Each option names the Python of an environment with the tool (docs/interop.md). The log has talks of
100 segments of random words, of which the system changes, drops and repeats some. Ours is one
``evaluate.py system=replay``, with its table, files of segments, plots and page; theirs are
SimulEval's scores, OmniSTEval's twelve and simulstream's StreamLAAL. All are processes of their own
on the same files, and the smallest CPU time of several repetitions counts.
"""

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness import ROOT, parser_of, print_result, print_table, rounded
from zoo.base.talks import Segment, Talk, Target
from zoo.base.types import ChunkTime, Instance, Seconds
from zoo.formats import simulstream
from zoo.formats.references import write_spans
from zoo.formats.simuleval import write_config, write_log
from zoo.streaming.elapsed import with_convention

SEGMENTS = 100  # of a talk
WORDS = 16  # of a segment
SEGMENT: Seconds = 6.0
CHUNK: Seconds = 1.0
COMPUTE: Seconds = 0.3
VOCABULARY = 3000  # distinct words
OURS = (
    *(str(ROOT / "evaluate.py"), "system=replay", "system.log=instances.log", "data=recorded"),
    *("data.segments=segments.yaml", "data.references=segments.ref", "evaluation.rules=simuleval"),
    "logger=csv",
)
# Arguments of Python, by the name of the option with its interpreter.
TOOLS = {
    "simuleval": (
        *("-m", "simuleval.cli", "--score-only", "--output", "."),
        *("--latency-metrics", "AL", "LAAL", "AP", "DAL", "ATD"),
    ),
    "omnisteval": (
        *("-m", "omnisteval.cli", "longform", "--speech_segmentation", "segments.yaml"),
        *("--ref_sentences_file", "segments.ref", "--hypothesis_file", "instances.log"),
        *("--lang", "de", "--word_level", "--fix_simuleval_emission_ca"),
    ),
    "simulstream": (
        *("-m", "simulstream.metrics.score_latency", "--eval-config", "simulstream.yaml"),
        *("--log-file", "simulstream.jsonl", "--audio-definition", "segments.yaml"),
        *("--reference", "segments.ref", "--scorer", "stream_laal"),
    ),
}


def main() -> None:
    """Score one log with all tools and print the ratio."""
    sizes = {
        "talks": (25, 1, f"talks of {SEGMENTS} segments"),
        "repetitions": (3, 1, "runs of each tool"),
    }
    parser = parser_of(__doc__, sizes)
    for tool in TOOLS:
        parser.add_argument(f"--{tool}", metavar="PYTHON", help=f"Python with {tool}")
    given = parser.parse_args()

    pythons = {tool: getattr(given, tool) for tool in TOOLS}
    absent = [tool for tool, python in pythons.items() if not has_package(python, tool)]
    if absent:
        options = ", ".join(f"--{tool} PYTHON" for tool in absent)
        print(f"absent: {', '.join(absent)}; name environments that have them with {options}")
    commands = {
        tool: (pythons[tool], *arguments) for tool, arguments in TOOLS.items() if tool not in absent
    }
    times: dict[str, Seconds] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, talks=given.talks)
        commands = {"ours": (sys.executable, *OURS, "hydra.run.dir=run"), **commands}
        for _ in range(given.repetitions):
            for tool, command in commands.items():
                seconds = cpu_seconds(command, folder)
                times[tool] = min(seconds, times.get(tool, seconds))

    print_table(("tool", "CPU seconds"), [(tool, f"{times[tool]:.1f}") for tool in times])
    theirs = sum(seconds for tool, seconds in times.items() if tool != "ours")
    facts = {"segments": given.talks * SEGMENTS, "absent": absent, "seconds": rounded(times)}
    speedup = {} if absent else {"scoring_speedup": round(theirs / times["ours"], 3)}
    print_result("scoring", facts, speedup)


def has_package(python: str | None, package: str) -> bool:
    """Return whether an interpreter imports a package; False without an interpreter."""
    if python is None:
        return False
    try:
        done = subprocess.run([python, "-c", f"import {package}"], check=False, capture_output=True)
    except OSError:
        return False
    return done.returncode == 0


def write_files(folder: Path, *, talks: int) -> None:
    """Write the log in the formats of all tools, and its references."""
    generator = random.Random(0)
    pairs = [talk_and_stream(number, generator) for number in range(talks)]
    instances = [with_convention(stream, "queue") for _, stream in pairs]
    write_log(folder / "instances.log", instances)
    write_config(folder, speech=False)
    simulstream.write_log(folder / "simulstream.jsonl", instances)
    write_spans(folder / "segments.yaml", [talk for talk, _ in pairs])
    lines = [segment.targets["de"].text for talk, _ in pairs for segment in talk.segments]
    (folder / "segments.ref").write_text("".join(f"{line}\n" for line in lines))


def talk_and_stream(number: int, generator: random.Random) -> tuple[Talk, Instance]:
    """Return a talk with references, and a stream that writes most of their words."""
    vocabulary = [f"wort{place}" for place in range(VOCABULARY)]
    segments: list[Segment] = []
    units: list[str] = []
    chunk_of: list[int] = []
    length = SEGMENTS * SEGMENT
    last = int(length / CHUNK) - 1
    for place in range(SEGMENTS):
        words = generator.choices(vocabulary, k=generator.randint(WORDS // 2, 3 * WORDS // 2))
        words[-1] += "."
        text = Target(" ".join(words))
        segments.append(Segment(place * SEGMENT, SEGMENT, "", targets={"de": text}))
        for position, word in enumerate(words):
            spoken = place * SEGMENT + SEGMENT * (position + 1) / len(words)
            copies = generator.choices((0, 1, 2), weights=(10, 88, 2))[0]
            kept = word if generator.random() < 0.7 else generator.choice(vocabulary)
            units += [kept] * copies
            chunk_of += [min(last, int((spoken + 1.5) / CHUNK))] * copies

    name = f"talk{number}"
    chunks = tuple(ChunkTime((index + 1) * CHUNK, COMPUTE) for index in range(last + 1))
    stream = Instance(
        index=number,
        talk=name,
        source_length=length,
        text=" ".join(units),
        units=tuple(units),
        delays=tuple(chunks[index].arrival for index in chunk_of),
        elapsed=(),
        reference=" ".join(segment.targets["de"].text for segment in segments),
        chunk_indices=tuple(chunk_of),
        chunks=chunks,
    )
    return Talk(name, Path(f"{name}.wav"), length, "en", tuple(segments)), stream


def cpu_seconds(command: Sequence[str], folder: Path) -> Seconds:
    """Run a command in a folder and return its user and system time, which other load leaves.

    Exits with the end of its stderr if it fails.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    before = os.times()
    done = subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True
    )
    after = os.times()
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    whole = after.children_user + after.children_system
    return whole - before.children_user - before.children_system


if __name__ == "__main__":
    main()
