"""Scores the logs of tests/metrics/parity with other tools; needs no package but the tools.

``python tests/extras/interop/score_with_tools.py simuleval`` computes the scores of the named tools
again, in the environment of this Python, and compares them with ``numbers.json``. With ``--write``
the scores are written there. Names are those of ``zoo.metrics``; values and units are those that
the tool prints.
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

PARITY = Path(__file__).resolve().parents[2] / "metrics" / "parity"
NUMBERS = PARITY / "numbers.json"
TOKENIZERS = {"de": "13a", "zh": "zh", "ja": "ja-mecab"}
PACKAGES = {
    "simuleval": ("simuleval", "sacrebleu"),
    "omnisteval": ("omnisteval", "simulstream", "sacrebleu"),
    "simulstream": ("simulstream", "mweralign", "sacrebleu"),
}
# Prints all columns of the table, which pandas shortens otherwise.
SIMULEVAL = (
    "import pandas; pandas.set_option('display.width', 1000, 'display.max_columns', None); "
    "import simuleval.cli; simuleval.cli.main()"
)
SIMULEVAL_LATENCIES = ("AL", "LAAL", "AP", "DAL", "ATD", "StartOffset", "EndOffset")

Scores = dict[str, float]
# Path of a log, its scores.
Scored = Iterator[tuple[str, Scores]]


def printed(folder: Path, *arguments: str) -> str:
    """What Python prints with the arguments.

    Args:
        folder: Working folder, which is also a folder of modules.
        *arguments: Command line of Python.

    Raises:
        SystemExit: The command fails.
    """
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        encoding="utf-8",
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stderr}")
    return done.stdout


def environment(folder: Path) -> dict[str, str]:
    """Environment of a tool, which reads and writes UTF-8 and finds the modules of ``folder``."""
    return {**os.environ, "PYTHONUTF8": "1", "PYTHONPATH": str(folder)}


def simuleval(folder: Path, target: str) -> Scored:
    """Scores of SimulEval, of sentences and of whole talks; times are milliseconds.

    With ``--computation-aware`` all its latencies are computation-aware.
    """
    unit = "word" if target == "de" else "char"
    for kind in ("sentences", "talks"):
        command = (
            *("-c", SIMULEVAL, "--score-only", "--output", f"{target}/{kind}"),
            *("--eval-latency-unit", unit, "--sacrebleu-tokenizer", TOKENIZERS[target]),
            *("--latency-metrics", *SIMULEVAL_LATENCIES),
        )
        scores: Scores = {}
        for flags, names in (
            ((), ("BLEU", *SIMULEVAL_LATENCIES)),
            (("--computation-aware",), [f"{name}_CA" for name in SIMULEVAL_LATENCIES]),
        ):
            head, values = printed(folder, *command, *flags).strip().splitlines()[-2:]
            table = dict(zip(head.split(), map(float, values.split()[1:]), strict=True))
            scores |= {name: table[name] for name in names}
        yield f"{target}/{kind}/instances.log", scores


def omnisteval(folder: Path, target: str) -> Scored:
    """Scores of OmniSTEval, of sentences and of both logs of talks; times are milliseconds."""
    unit = ("--word_level", "--lang", "de") if target == "de" else ("--char_level",)
    common = (*unit[:1], "--bleu_tokenizer", TOKENIZERS[target])
    references = ("--ref_sentences_file", f"{target}/segments.ref")
    long = ("--speech_segmentation", f"{target}/segments.yaml", *references, *unit[1:])
    config = ("--simulstream_config_file", f"{target}/talks/simulstream.yaml")
    for log, options in (
        ("sentences/instances.log", ("shortform", *references)),
        ("talks/instances.log", ("longform", *long, "--fix_simuleval_emission_ca")),
        (
            "talks/simulstream.jsonl",
            ("longform", *long, "--hypothesis_format", "simulstream", *config),
        ),
    ):
        command = (*options, *common, "--hypothesis_file", f"{target}/{log}")
        text = printed(folder, "-m", "omnisteval.cli", *command)
        found = re.findall(
            r"^  (BLEU|chrF|[A-Za-z]*A[LP])(?: \((CU|CA)\))? +(-?[\d.]+)$", text, re.MULTILINE
        )
        yield (
            f"{target}/{log}",
            {name + "_CA" * (times == "CA"): float(value) for name, times, value in found},
        )


def simulstream(folder: Path, target: str) -> Scored:
    """Scores of simulstream, in seconds.

    Its scorer of BLEU imports COMET, which BLEU does not need; an empty module stands for it.
    """
    (folder / "comet.py").write_text("download_model = load_from_checkpoint = None\n")
    log = f"{target}/talks/simulstream.jsonl"
    unit = ("--latency-unit", "word" if target == "de" else "char")
    given = ("--eval-config", f"{target}/talks/simulstream.yaml", "--log-file", log, *unit)
    places = (*given, "--audio-definition", f"{target}/segments.yaml")
    references = f"{target}/segments.ref"
    latency = printed(
        folder,
        *("-m", "simulstream.metrics.score_latency", *places),
        *("--reference", references, "--scorer", "stream_laal"),
    )
    quality = printed(
        folder,
        *("-m", "simulstream.metrics.score_quality", *places, "--references", references),
        *("--scorer", "sacrebleu", "--tokenizer", TOKENIZERS[target]),
    )
    stats = printed(folder, "-m", "simulstream.metrics.stats", *given)
    ideal, aware = re.findall(r"latency=(-?[\d.e-]+)", latency)
    yield (
        log,
        {
            "BLEU": float(quality.rpartition(":")[2]),
            "StreamLAAL": float(ideal),
            "StreamLAAL_CA": float(aware),
            "RTF": json.loads(stats.partition(":")[2])["real_time_factor"]["value"],
        },
    )


TOOLS: dict[str, Callable[[Path, str], Scored]] = {
    "simuleval": simuleval,
    "omnisteval": omnisteval,
    "simulstream": simulstream,
}


def computed(tool: str) -> dict[str, dict[str, Scores] | dict[str, str]]:
    """Versions and scores of a tool.

    Raises:
        SystemExit: A package is not installed, or the tool fails.
    """
    try:
        versions = {package: version(package) for package in PACKAGES[tool]}
    except PackageNotFoundError as error:
        sys.exit(f"{error.name} is not installed here; .ci/interop makes environments with it.")
    with TemporaryDirectory() as name:
        folder = Path(name)
        for target in TOKENIZERS:  # SimulEval writes beside the log
            shutil.copytree(PARITY / target, folder / target)
        scores = {log: found for target in TOKENIZERS for log, found in TOOLS[tool](folder, target)}
    return {"versions": versions, "scores": scores}


def differences(old: dict[str, Scores], new: dict[str, Scores]) -> list[str]:
    """A line for each score that differs, or that only one side has."""
    found: list[str] = []
    for log in sorted(old | new):
        before, after = old.get(log, {}), new.get(log, {})
        for name in sorted(before | after):
            pair = before.get(name, math.nan), after.get(name, math.nan)
            if not math.isclose(*pair, rel_tol=1e-9):
                found.append(f"{log}: {name} is {pair[1]}, not {pair[0]}")
    return found


def main() -> None:
    """Compare or write the scores of the tools on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", nargs="+", choices=TOOLS)
    parser.add_argument("--write", action="store_true", help="write the scores to numbers.json")
    options = parser.parse_args()
    recorded = json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.is_file() else {}
    wrong: list[str] = []
    for tool in options.tools:
        new = computed(tool)
        if options.write:
            recorded[tool] = new
            continue
        old = recorded.get(tool, {"versions": {}, "scores": {}})
        wrong += [f"{tool}: {line}" for line in differences(old["scores"], new["scores"])]
        count = sum(map(len, new["scores"].values()))
        print(f"{tool}: {count} scores with {new['versions']}; recorded with {old['versions']}.")
    if options.write:
        NUMBERS.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
