"""Regression check for refactorings: compares every word, delay, score and loss bit for bit.

    python benchmarks/same_words.py --record FILE      run this tree and write a recording
    python benchmarks/same_words.py --check FILE       run this tree and compare with a recording
    python benchmarks/same_words.py --against COMMIT   run COMMIT and this tree, compare the two
    python benchmarks/same_words.py --list             print the names of the cases

With ``--at COMMIT``, COMMIT runs in a temporary worktree instead of this tree, as in a bisection.

A case is one command line, run in a subprocess from the root of a tree on one thread in float32:

    stream/NAME   ``evaluate.py`` on two talks of minitalks tst, one knob value of a shipped system
    train/NAME    ``train.py experiment=NAME``, five steps of each stage on a few talks

``--only TEXT`` (repeatable) selects the cases whose name contains TEXT or matches it as a glob
pattern. All cases take about seven minutes on one core; ``--only infinisst --only train/offline``
takes less than one. Wall-clock fields are not compared. Floating-point results depend on processor
and library versions, so a recording is valid only on the machine that wrote it and is never
committed. Exit code 1: a case differs or fails.
"""

import argparse
import contextlib
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import wave
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
EVALUATION_TALKS, TRAINING_TALKS, CLIPS = 2, 6, 40
STEPS = 5  # of each training stage
BATCH_SECONDS = 20  # of audio per training step
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
KNOBS = {  # one knob value per system preset: the middle of its curve
    "infinisst": 2,
    "streamatt": 8,
    "streamatt_plus": 8,
    "streamuni": 3,
    "local_agreement": 0.96,
    "wait_k": 5,
    "alignatt": 4,
    "edatt": 0.1,
    "simulu": 4,
    "doa": 10,
    "retranslation": 2.0,
    "learned_wait": 2,
}
BESIDES_BENCHMARK = {  # cases that experiment=benchmark does not have
    "infinisst_es": ["target_language=es"],
    "infinisst_zh": ["target_language=zh"],
    "simulu": ["system=simulu"],
}
SHARED_CACHES = ("minitalks-*", "utterances-*")  # audio; encoder outputs are computed anew
TIMED = ("_CA", "RTF")  # ends of the names of scores that depend on the clock

Result = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One command line: ``script`` (evaluate or train) with ``overrides``."""

    name: str
    script: str
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """Result of one comparison.

    Attributes:
        name: of the case.
        equal: whether all values are.
        difference: the first difference, or a remark on equal values.
    """

    name: str
    equal: bool
    difference: str = ""


def cases(tree: Path) -> list[Case]:
    """All cases of ``tree``, read from its ``conf/experiment``."""
    experiments = tree / "conf" / "experiment"
    compared = yaml.safe_load((experiments / "benchmark.yaml").read_text())["compare"]
    sizes = yaml.safe_load((tree / "conf" / "size" / "minitalks.yaml").read_text())
    streaming_cases = [
        Case(f"stream/{name}", "evaluate", tuple(at_size(text, sizes) for text in overrides))
        for name, overrides in (compared | BESIDES_BENCHMARK).items()
    ]
    training_cases = [
        Case(f"train/{path.stem}", "train", (f"experiment={path.stem}",))
        for path in sorted(experiments.glob("*_minitalks.yaml"))
    ]
    return streaming_cases + training_cases


def at_size(override: str, sizes: Mapping[str, Any]) -> str:
    """Replace ``${size.NAME}``, which only the entries of a comparison may use, by its value."""
    return re.sub(r"\$\{size\.(\w+)\}", lambda name: str(sizes[name[1]]), override)


def selected(found: Sequence[Case], patterns: Sequence[str]) -> list[Case]:
    """Cases whose name contains a pattern or matches it as a glob; all of them without patterns."""
    return [
        case
        for case in found
        if not patterns or any(part in case.name or fnmatch(case.name, part) for part in patterns)
    ]


def record(tree: Path, chosen: Sequence[Case]) -> dict[str, Result]:
    """Run the cases in ``tree``, one after the other; the result of each by its name."""
    results: dict[str, Result] = {}
    with isolated_cache() as cache:
        for case in chosen:
            start = time.perf_counter()
            results[case.name] = run_case(tree, case, cache)
            seconds = time.perf_counter() - start
            print(f"{case.name}: {seconds:.0f} s", file=sys.stderr, flush=True)
    return results


def run_case(tree: Path, case: Case, cache: Path) -> Result:
    """Words and scores of a stream, or losses of a training; ``error`` if the process failed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            if case.script == "evaluate":
                run(tree, "evaluate", [*case.overrides, *streaming_overrides(case)], folder, cache)
                return streamed_result(Path(folder))
            config = composed(tree, case, cache)
            run(tree, "train", [*case.overrides, *training_overrides(config)], folder, cache)
            return {"losses": losses(Path(folder) / "metrics.csv")}
        except subprocess.CalledProcessError as error:
            return {"error": "\n".join((error.stderr or "").strip().splitlines()[-3:])}


def streaming_overrides(case: Case) -> list[str]:
    """Two talks, one knob value, no reference rows, no ASR of the synthesised speech."""
    chosen = dict(override.split("=", 1) for override in case.overrides)
    knob = KNOBS.get(chosen.get("system", "infinisst"))
    return [
        f"evaluation.talks={EVALUATION_TALKS}",
        "evaluation.upper_bound=false",
        "evaluation.oracle_k=[]",
        "evaluation.recogniser=null",
        *([] if knob is None else [f"system.knob.values=[{knob}]"]),
    ]


def training_overrides(config: Mapping[str, Any]) -> list[str]:
    """Few steps, talks and clips in float32, every loss logged. config: as the case composes it."""
    training = config["training"]
    overrides = [
        f"training.train_talks={TRAINING_TALKS}",
        "training.dev_talks=1",
        "training.evaluate_last=false",
        "training.log_every_steps=1",
        "training.data_workers=0",
        "trainer.precision=32-true",
        "threads=1",
    ]
    for name in training["curriculum"]["stages"]:
        key = f"training.curriculum.stages.{name}"
        overrides += [f"{key}.steps={STEPS}", f"{key}.batch_seconds={BATCH_SECONDS}"]
    return overrides + [f"{key}.count={CLIPS}" for key in clip_options("training", training)]


def clip_options(key: str, node: object) -> Iterator[str]:
    """Keys of all options of clips in a configuration."""
    if isinstance(node, Mapping):
        if str(node.get("_target_")).endswith(".ClipConfig"):
            yield key
        for name, value in node.items():
            yield from clip_options(f"{key}.{name}", value)


def composed(tree: Path, case: Case, cache: Path) -> dict[str, Any]:
    """The case's configuration as its script composes it."""
    printed = run_script(tree, [f"{case.script}.py", *case.overrides, "--cfg", "job"], cache)
    config: dict[str, Any] = yaml.safe_load(printed)
    return config


def run(tree: Path, script: str, overrides: Sequence[str], folder: str, cache: Path) -> None:
    """Run the script on the CPU with ``folder`` as its run folder. Raises CalledProcessError."""
    shared = ["device=cpu", "logger=csv", f"hydra.run.dir={folder}"]
    run_script(tree, [f"{script}.py", *overrides, *shared], cache)


def run_script(tree: Path, arguments: Sequence[str], cache: Path) -> str:
    """Standard output of ``python ARGUMENTS`` in ``tree``. Raises CalledProcessError."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        **dict.fromkeys(ONE_THREAD, "1"),
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "PYTHONHASHSEED": "0",
        "SIMULZOO_CACHE": str(cache),
    }
    finished = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return finished.stdout


@contextlib.contextmanager
def isolated_cache() -> Iterator[Path]:
    """A temporary cache folder that shares audio, but no encoder outputs, with the user's.

    Encoder outputs of an earlier run would hide a change of the encoder.
    """
    own = os.environ.get("SIMULZOO_CACHE")
    user = Path(own) if own else Path.home() / ".cache" / "simulzoo"
    user.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        for pattern in SHARED_CACHES:
            for shared in user.glob(pattern):
                (cache / shared.name).symlink_to(shared.resolve())
        yield cache
        for pattern in SHARED_CACHES:
            for entry in cache.glob(pattern):
                if not entry.is_symlink() and not (user / entry.name).exists():
                    shutil.move(entry, user / entry.name)


def streamed_result(folder: Path) -> Result:
    """Words with delays (seconds), speech and scores of all rows in a run folder."""
    logs = sorted(folder.glob("instances/*/instances.log"))
    talks = [
        talk_result(json.loads(line), log.parent)
        for log in logs
        for line in log.read_text(encoding="utf-8").splitlines()
    ]
    scores = [
        {name: value for name, value in row["scores"].items() if not name.endswith(TIMED)}
        for row in json.loads((folder / "results.json").read_text())
    ]
    return {"talks": talks, "scores": scores}


def talk_result(logged: Mapping[str, Any], folder: Path) -> Result:
    """One line of an instance log without its clock times."""
    text = logged.get("text", logged["prediction"])
    delays = [delay / 1000 for delay in logged["delays"]]
    words = logged["prediction"].split(" ")
    if len(words) != len(delays):  # characters are the units
        words = list(logged["prediction"])
    result: Result = {"talk": logged["talk"], "text": text, "words": words, "delays": delays}
    if speech := logged.get("speech"):
        result["speech"] = [[piece["delay"], piece["samples"], piece["text"]] for piece in speech]
        result["samples"] = samples_hash(folder / "speech" / f"{logged['talk']}.target.wav")
    return result


def samples_hash(path: Path) -> str:
    """Hash of the non-zero 16-bit samples.

    When a piece of speech is played, and so the silence before it, depends on the clock.
    """
    with wave.open(str(path)) as file:
        samples = memoryview(file.readframes(file.getnframes())).cast("h")
    sounding = b"".join(sample.to_bytes(2, "little", signed=True) for sample in samples if sample)
    return hashlib.sha256(sounding).hexdigest()


def losses(path: Path) -> list[Result]:
    """Logged losses per step of a ``metrics.csv``: stage, step, and values as text by name."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    logged: list[Result] = []
    for row in rows:
        values = {
            name.removeprefix("train/"): value
            for name, value in row.items()
            if value and name.startswith("train/")
        }
        stages = [name.split("/")[0] for name in values if "/" in name]
        if stages:
            named = {name.split("/")[-1]: value for name, value in values.items()}
            logged.append({"stage": stages[0], "step": int(row["step"]), "values": named})
    return logged


def compare(
    before: Mapping[str, Result], now: Mapping[str, Result], names: Sequence[str]
) -> list[Outcome]:
    """Compare the named cases; a case that only one side has differs."""
    return [compare_case(name, before.get(name), now.get(name)) for name in names]


def compare_case(name: str, before: Result | None, now: Result | None) -> Outcome:
    """Compare one case exactly and describe the first difference."""
    if before is None or now is None:
        side = "before" if before is None else "now"
        return Outcome(name, False, f"there is no such case {side}")
    for side, result in (("before", before), ("now", now)):
        if "error" in result:
            return Outcome(name, False, f"fails {side}: {result['error']}")
    if "losses" in before:
        return compare_losses(name, before["losses"], now["losses"])
    difference = talks_difference(before["talks"], now["talks"]) or scores_difference(
        before["scores"], now["scores"]
    )
    return Outcome(name, not difference, difference)


def talks_difference(before: Sequence[Result], now: Sequence[Result]) -> str:
    """The first difference in talks, words, delays, text or speech; empty where there is none."""
    for old, new in zip_longest(before, now):
        if old is None or new is None:
            return f"{len(before)} talks before, {len(now)} now"
        pairs = [zip(side["words"], side["delays"], strict=True) for side in (old, new)]
        for place, (was, became) in enumerate(zip_longest(*pairs)):
            if was != became:
                return f"{old['talk']}, word {place}: {shown(was)} before, {shown(became)} now"
        for key in ("talk", "text", "speech", "samples"):
            if old.get(key) != new.get(key):
                return f"{old['talk']}: {key} differs"
    return ""


def shown(word: tuple[str, float] | None) -> str:
    """A word and its delay for a message."""
    return "none" if word is None else f"{word[0]!r} at {word[1]} s"


def scores_difference(
    before: Sequence[Mapping[str, float]], now: Sequence[Mapping[str, float]]
) -> str:
    """The first score that both sides have and that differs; empty where there is none."""
    if len(before) != len(now):
        return f"{len(before)} rows of scores before, {len(now)} now"
    for old, new in zip(before, now, strict=True):
        for name in old:
            if name in new and old[name] != new[name]:
                return f"{name}: {old[name]} before, {new[name]} now"
    return ""


def compare_losses(name: str, before: Sequence[Result], now: Sequence[Result]) -> Outcome:
    """Compare logged values; equal values under new names are equal, with a remark."""
    renamed = False
    for old, new in zip_longest(before, now):
        if old is None or new is None:
            return Outcome(name, False, f"{len(before)} logged steps before, {len(now)} now")
        where = f"stage {old['stage']}, step {old['step']}"
        if old["values"].keys() == new["values"].keys():
            for key, value in old["values"].items():
                if value != new["values"][key]:
                    changed = f"{key} {value} before, {new['values'][key]} now"
                    return Outcome(name, False, f"{where}: {changed}")
        elif sorted(old["values"].values()) != sorted(new["values"].values()):
            return Outcome(name, False, f"{where}: {old['values']} before, {new['values']} now")
        renamed = renamed or (old["stage"], *old["values"]) != (new["stage"], *new["values"])
    return Outcome(name, True, "renamed stages or losses" if renamed else "")


@contextlib.contextmanager
def tree_of(commit: str | None) -> Iterator[Path]:
    """The root of ``commit`` in a temporary worktree; None: of this tree."""
    if commit is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git("worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def git(*arguments: str) -> str:
    """Standard output of a git command in this tree."""
    finished = subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return finished.stdout.strip()


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """A row per case with equal or different and the first difference; a JSON line at the end."""
    table = Table("case", "result", "first difference", box=None)
    for outcome in outcomes:
        table.add_row(
            outcome.name, "equal" if outcome.equal else "DIFFERENT", outcome.difference[:400]
        )
    Console(width=None if sys.stdout.isatty() else 140).print(table, markup=False)
    different = [outcome.name for outcome in outcomes if not outcome.equal]
    print(json.dumps({"cases": len(outcomes), "different": different}))


def arguments() -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--record", type=Path, metavar="FILE", help="write a recording")
    action.add_argument("--check", type=Path, metavar="FILE", help="compare with a recording")
    action.add_argument("--against", metavar="COMMIT", help="compare with another commit")
    action.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--at", metavar="COMMIT", help="the commit to run (default: this tree)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="cases to run (repeatable)"
    )
    return parser.parse_args()


def recorded(path: Path) -> dict[str, Result]:
    """The cases of a recording by their names."""
    found: dict[str, Result] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return found


def main() -> None:
    """Record or compare; exit code 1 if a case differs or fails."""
    given = arguments()
    with tree_of(given.at) as tree:
        chosen = selected(cases(tree), given.only)
        names = [case.name for case in chosen]
        if not chosen:
            sys.exit(f"No case matches {', '.join(given.only)}; --list prints the names.")
        if given.list:
            print("\n".join(names))
            return
        before: Mapping[str, Result] = {}
        if given.check is not None:
            before = recorded(given.check)
            names = list(dict.fromkeys([*names, *names_of(before, given.only)]))
        if given.against is not None:
            with tree_of(given.against) as other:
                before = record(other, selected(cases(other), given.only))
            names = list(dict.fromkeys([*names, *before]))
        now = record(tree, chosen)
    if given.record is not None:
        commit = git("rev-parse", given.at or "HEAD")
        text = json.dumps({"commit": commit, "cases": now}, ensure_ascii=False, indent=1)
        given.record.write_text(text + "\n", encoding="utf-8")
        failed = [f"{name}: {result['error']}" for name, result in now.items() if "error" in result]
        sys.exit("\n".join(failed) or 0)
    outcomes = compare(before, now, names)
    print_outcomes(outcomes)
    sys.exit(int(not all(outcome.equal for outcome in outcomes)))


def names_of(results: Mapping[str, Result], patterns: Sequence[str]) -> list[str]:
    """Names among the results that ``--only`` selects."""
    return [case.name for case in selected([Case(name, "", ()) for name in results], patterns)]


if __name__ == "__main__":
    main()
