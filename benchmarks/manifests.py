"""Memory and time of one rank before its first batch, on manifests of thousands of hours.

    python benchmarks/manifests.py --hours 10000

A manifest of ``--block`` hours is written and indexed, in a process of its own. Its index is then
repeated up to ``--hours``: all rows of the index exist, and their segments are those of the block.
So a rank reads what it would read of the whole manifest, which has about 0.6 GB per 1000 hours. The
rank opens the talks, makes the sampler of InfiniSST's robust segments, counts the steps of a pass
and makes the examples of the first step, for one of eight GPUs, without audio and network. The last
line is JSON.
"""

import json
import multiprocessing
import resource
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from harness import parser_of, print_result, print_table, rounded
from zoo.data import manifest
from zoo.data.corpora import Aligned
from zoo.data.lazy_manifest import StoredTalks
from zoo.data.manifest_index import DESCRIPTION, NAMES, Description, array
from zoo.data.robust_segments import RobustSegmentConfig
from zoo.data.sampling import Sampler, Stretches
from zoo.data.talks import Segment, Talk, Target, Word
from zoo.data.windows import WindowedSampler
from zoo.languages import language
from zoo.training.schedule import Limits, Schedule

SENTENCE = 5.0  # seconds from the start of a sentence to the next
WORDS = 12  # of a sentence, in each language
MINUTES = 15  # of a talk
SIZES = {
    "hours": (10_000, 20, "hours of the manifest"),
    "block": (5, 1, "hours that are really written"),
    "steps": (400, 3, "steps that are timed after the first one"),
}
GPUS = 8
STEP_SECONDS = 3600.0  # of audio, of all GPUs together
MEGA = 1e6


def talk(folder: Path, number: int) -> Talk:
    """Make a talk of sentences whose words are aligned one by one."""
    segments = []
    for index in range(round(MINUTES * 60 / SENTENCE)):
        start = index * SENTENCE
        words = tuple(
            Word(
                f"source{place}", round(start + 0.4 * place, 2), round(start + 0.4 * place + 0.3, 2)
            )
            for place in range(WORDS)
        )
        target = tuple(f"target{place}" for place in range(WORDS))
        alignment = tuple((place,) for place in range(WORDS))
        text = " ".join(word.text for word in words)
        targets = {"de": Target(" ".join(target), target, alignment)}
        segments.append(Segment(start, 4.8, text, words, targets))
    return Talk(f"talk-{number}", folder / f"{number}.wav", MINUTES * 60.0, "en", tuple(segments))


def write_block(folder: Path, hours: float) -> None:
    """Write and index a manifest of some hours; write ``seconds.txt``, the time of the index."""
    manifest.write(
        folder / "train.jsonl",
        (talk(folder, number) for number in range(round(hours * 60 / MINUTES))),
    )
    start = time.perf_counter()
    Aligned(folder=str(folder), lazy=True).stored_talks("train")
    (folder / "seconds.txt").write_text(str(time.perf_counter() - start))


def repeat_index(folder: Path, times: int) -> None:
    """Repeat the rows of the index of the block, each time with other names of the talks."""
    index = folder / "train.jsonl.index"
    talks, segments = array(index, "talks").copy(), array(index, "segments").copy()
    lines = (index / NAMES).read_bytes().splitlines()
    place = 0
    with (
        (index / "talks.new").open("wb") as new_talks,
        (index / "segments.new").open("wb") as new_segments,
        (index / "names.new").open("wb") as names,
    ):
        for number in range(times):
            rows = talks.copy()
            rows["segment"] += number * len(segments)
            for row, line in zip(rows, lines, strict=True):
                row["name"] = place
                named = line.replace(b"talk-", f"talk-{number}-".encode()) + b"\n"
                names.write(named)
                place += len(named)
            new_talks.write(rows.tobytes())
            new_segments.write(segments.tobytes())
    for new, old in (
        ("talks.new", "talks.bin"),
        ("segments.new", "segments.bin"),
        ("names.new", NAMES),
    ):
        (index / new).replace(index / old)
    found = Description(**json.loads((index / DESCRIPTION).read_text()))
    found = replace(found, seconds=times * found.seconds, segments=times * found.segments)
    (index / DESCRIPTION).write_text(json.dumps(asdict(found)))


def prepare(folder: Path, hours: float, block: float) -> None:
    """Write the block and the index of all hours."""
    write_block(folder, block)
    repeat_index(folder, round(hours / block))


def resident() -> float:
    """Return the resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(pages * resource.getpagesize())


def make(talks: "list[Talk]", windows: int) -> Sampler:
    """Make InfiniSST's sampler of a window."""
    return RobustSegmentConfig().sampler(
        talks,
        target=language("de"),
        chunk_seconds=0.96,
        stretches=Stretches((30,), tuple(range(1, 13))),
    )


def main() -> None:
    """Measure and print."""
    given = parser_of(__doc__, SIZES).parse_args()
    with tempfile.TemporaryDirectory(prefix="manifests-") as place:
        folder = Path(place)
        process = multiprocessing.get_context("spawn").Process(
            target=prepare, args=(folder, given.hours, given.block)
        )
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(f"The manifest could not be written: exit code {process.exitcode}.")
        found = measure(folder, steps=given.steps, block=given.block)
        print_table(["measure", "value"], [(name, f"{found[name]:g}") for name in found])
        print_result("manifests", rounded(found))


def measure(folder: Path, *, steps: int, block: float) -> dict[str, float]:
    """Measure what a rank needs.

    Args:
        folder: Folder of the manifest and its index.
        steps: Number of steps after the first one.
        block: Hours of the manifest.
    """
    before, start = resident(), time.perf_counter()
    talks = Aligned(folder=str(folder), lazy=True).stored_talks("train")
    assert isinstance(talks, StoredTalks)
    sampler = WindowedSampler(talks, make)  # type: ignore[arg-type]
    limits = Limits(STEP_SECONDS / GPUS)
    schedule = Schedule(sampler, limits, steps=0, parts=GPUS, seed=[0])
    per_pass = schedule.steps_per_pass
    schedule = Schedule(sampler, limits, steps=round(per_pass), parts=GPUS, seed=[0])

    def batch(step: int) -> None:
        for example in schedule.examples(step, 0):
            example.turns("de")  # type: ignore[attr-defined]

    batch(0)
    first, memory = time.perf_counter() - start, resident() - before
    times = []
    for step in range(1, steps + 1):
        start = time.perf_counter()
        batch(step)
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    return {
        "hours": talks.hours,
        "talks": len(talks),
        "segments": talks.description.segments,
        "windows": sampler.windows(0),
        "steps_per_pass": round(per_pass),
        "first_batch_s": round(first, 2),
        "later_batch_s": round(float(np.median(times)), 3),
        "memory_mb": round(memory / MEGA, 1),
        "peak_mb": round(peak / MEGA, 1),
        "index_s_per_hour": round(float((folder / "seconds.txt").read_text()) / block, 3),
        "index_mb": round(sum(file.stat().st_size for file in folder.glob("*.index/*")) / MEGA, 1),
        "manifest_mb_per_hour": round((folder / "train.jsonl").stat().st_size / MEGA / block, 2),
    }


if __name__ == "__main__":
    main()
