"""Executes the commands of the pages for published weights and real corpora, from end to end.

    python -m tests.rehearsal                   all commands, in a temporary folder
    python -m tests.rehearsal --short           one chain from preparation to report, in minutes
    python -m tests.rehearsal --only papers     those whose page, line or text contains this
    python -m tests.rehearsal --list            print them, run none
    python -m tests.rehearsal --folder DIR      keep models, corpora, logs and run folders there

Exit code 1: a command fails, or leaves nothing usable.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.rehearsal.commands import ROOT, Command, commands, filled
from tests.rehearsal.places import Places
from tests.rehearsal.small import reduced
from zoo.base.errors import ZooError
from zoo.evaluation.smoke_run import FAILED

SECONDS = 1200  # after which a command is taken to be endless
# One preparation, both stages of a training, its export, converted weights, a table and its report.
PAPER = "size=llama8b trainer.devices=8 data=aligned data.folder=<aligned> target_language=zh ("
SHORT = (
    "infinisst.md: python -m zoo convert-infinisst",
    f"papers.md: python train.py experiment=infinisst_paper_stage1 {PAPER}",
    f"papers.md: python train.py experiment=infinisst_paper_stage2 {PAPER}",
    "papers.md: python evaluate.py system=infinisst backbone=infinisst",
    "papers.md: python -m zoo report <run> --scores BLEU,StreamLAAL --minutes 10",
    "fbk_conformer.md: python -m zoo convert-fbk-conformer",
    "fbk_conformer.md: python evaluate.py system=edatt backbone=fbk_conformer",
    "papers.md: python evaluate.py experiment=streamuni_direct",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the commands and print a table of those that fail."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.rehearsal",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", default=[], metavar="TEXT")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--folder", type=Path)
    typed = parser.parse_args(arguments)
    wanted = [*typed.only, *(SHORT if typed.short else ())]
    chosen = [
        command
        for command in commands()
        if not wanted or any(text in str(command) for text in wanted)
    ]
    if typed.list:
        print("\n".join(map(str, chosen)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = (typed.folder or Path(temporary)).resolve()
        failed = rehearse(chosen, Places.make(folder))
    sys.exit(1 if failed else 0)


def rehearse(chosen: Sequence[Command], places: Places) -> list[Command]:
    """Run commands one after the other; return those that fail."""
    failures = Table("command", "seconds", "failure", box=None)
    failed = []
    for number, command in enumerate(chosen):
        start = time.monotonic()
        problem = run(command, places, places.logs / f"{number:03d}.log")
        seconds = time.monotonic() - start
        print(f"{'FAILED' if problem else 'passed'} {seconds:5.0f} s  {command}", flush=True)
        if problem:
            print(f"        {problem}", flush=True)
            failures.add_row(str(command), f"{seconds:.0f}", problem)
            failed.append(command)
    print(f"{len(chosen) - len(failed)} of {len(chosen)} commands passed")
    if failed:
        Console().print(failures)
    return failed


def run(command: Command, places: Places, log: Path) -> str:
    """Run a command; return what is wrong, in one sentence, or an empty text.

    Args:
        command: command.
        places: where models, corpora and runs are.
        log: file of the output.
    """
    try:
        places.unlink_exports()
        if command.kind == "evaluate":
            places.link_exports()
        values = places.values(command)
    except ZooError as error:
        return str(error)
    try:
        words = reduced(command, filled(command, values))
    except KeyError as error:
        return f"The placeholder {error} has no value."
    except ZooError as error:
        return f"It does not compose: {error}"
    if words[1] != "-m":
        words[1] = str(ROOT / words[1])
    words[0] = sys.executable
    with log.open("w", encoding="utf-8") as output:
        try:
            code = subprocess.run(
                words,
                cwd=places.runs,
                env={**os.environ, **places.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return f"It takes more than {SECONDS} s."
    if code == FAILED and "smoke=true" in words:
        return ""  # a random model cannot pass the test
    if code:
        lines = [line for line in log.read_text(encoding="utf-8").splitlines() if line.strip()]
        return f"exit code {code}: {lines[-1] if lines else ''}"
    return places.problem(command, words)


if __name__ == "__main__":
    main()
