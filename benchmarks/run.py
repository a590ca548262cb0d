"""python benchmarks/run.py [--small] [NAME ...]: all speed benchmarks, with a page and a history.

Every script of a folder that prints ratios runs, one after another, as a process of its own. Ratios
end in ``_speedup`` or ``_of_peak`` (larger is better) or in ``_over_floor`` (smaller is better). A
script that ends with a user error (exit code 2), or whose peers are absent, is skipped with its
reason. The ratios are compared with the newest line of the history that has the same sizes, and
written as a Markdown page. ``--record`` appends a line.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness import MINUTE, ROOT, parser_of, print_result, print_table, whole_number
from zoo.base.disk.files import write_text
from zoo.base.errors import BAD_INPUT, ZooError, check_choice
from zoo.base.machine.commands import run_script
from zoo.runs.provenance import git_state, hardware, versions

SPEEDUP = "_speedup"
SIGNS = {SPEEDUP: 1, "_of_peak": 1, "_over_floor": -1}  # by suffix; -1: smaller is better
MACHINE = ("cpu", "usable_cores", "memory_gib")  # fields of ``hardware`` that a line has
PACKAGES = ("torch", "transformers")
DIGITS = 2  # significant digits of a ratio in the history; clocks of busy machines vary more


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one benchmark gave.

    Attributes:
        ratios: by name.
        skipped: why there are none; empty if there are some.
        failed: the script failed.
        seconds: wall time.
    """

    ratios: Mapping[str, float] = field(default_factory=dict)
    skipped: str = ""
    failed: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One ratio beside that of the history.

    Attributes:
        benchmark: name of the script.
        ratio: name of the ratio.
        now: its value.
        before: its value in the history, or None.
    """

    benchmark: str
    ratio: str
    now: float
    before: float | None

    @property
    def change(self) -> float | None:
        """Relative change in percent, or None."""
        return 100 * (self.now / self.before - 1) if self.before else None

    @property
    def fall(self) -> float:
        """By how many percent the ratio is worse than in the history; 0 without one."""
        return -SIGNS[suffix_of(self.ratio)] * (self.change or 0.0)


def suffix_of(name: str) -> str:
    """The suffix of a ratio; "" for other names."""
    return next((suffix for suffix in SIGNS if name.endswith(suffix)), "")


def benchmarks(folder: Path) -> dict[str, Path]:
    """Scripts of a folder that print ratios, by name."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}
    return {
        path.stem: path
        for path, text in texts.items()
        if "__main__" in text
        and any(f'{suffix}"' in text for suffix in SIGNS)
        and path.resolve() != Path(__file__).resolve()
    }


def measure(command: Sequence[str], limit: float) -> Outcome:
    """Run a script and read the ratios of its last line.

    Args:
        command: interpreter, script and options.
        limit: seconds after which the script is stopped.
    """
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=False, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        reason = f"took more than {limit / MINUTE:g} minutes"
        return Outcome(skipped=reason, failed=True, seconds=limit)
    except OSError as error:
        return Outcome(skipped=f"{command[0]} cannot be started ({error.strerror})", failed=True)
    seconds = time.monotonic() - start
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        reason = lines[-1].removeprefix("error: ")
        return Outcome(skipped=reason, failed=done.returncode != BAD_INPUT, seconds=seconds)
    try:
        result = json.loads(done.stdout.strip().splitlines()[-1])
        ratios = {name: float(value) for name, value in result.items() if suffix_of(name)}
    except (AttributeError, IndexError, TypeError, ValueError):
        return Outcome(skipped="its last line is no result", failed=True, seconds=seconds)
    if not ratios:
        absent = ", ".join(result.get("absent") or ())
        reason = f"absent: {absent}" if absent else "it gave no ratio"
        return Outcome(skipped=reason, failed=not absent, seconds=seconds)
    return Outcome(ratios, seconds=seconds)


def history_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a history; none if the file does not exist.

    Raises ZooError for a damaged line.
    """
    if not path.exists():
        return []
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            line = json.loads(text)
            line["small"], line["ratios"].items()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ZooError(f"Line {number} of {path} is no line of a history.") from error
        lines.append(line)
    return lines


def compared(outcomes: Mapping[str, Outcome], before: Mapping[str, Any] | None) -> list[Row]:
    """One row per ratio."""
    old = before["ratios"] if before else {}
    return [
        Row(name, ratio, value, old.get(name, {}).get(ratio))
        for name, outcome in outcomes.items()
        for ratio, value in outcome.ratios.items()
    ]


def new_line(outcomes: Mapping[str, Outcome], *, small: bool, load: float) -> dict[str, Any]:
    """The line of this run: date, commit, machine without its name, load and ratios.

    Args:
        outcomes: by benchmark.
        small: whether the sizes are small.
        load: processes that wanted the CPU when the run began, on average over a minute.
    """
    state = git_state(ROOT)
    found = hardware()
    machine = {name: found[name] for name in MACHINE}
    machine |= {name: value for name, value in versions(PACKAGES).items() if value}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": state.commit[:12] if state else None,
        "changed": bool(state and state.dirty),
        "small": small,
        "machine": machine,
        "load": round(load, 1),
        "ratios": {
            name: {ratio: short(value) for ratio, value in outcome.ratios.items()}
            for name, outcome in outcomes.items()
            if outcome.ratios
        },
        "skipped": {name: outcome.skipped for name, outcome in outcomes.items() if outcome.skipped},
    }


def short(value: float) -> float:
    """A ratio to ``DIGITS`` significant digits."""
    return float(f"{value:.{DIGITS}g}")


def page_of(line: Mapping[str, Any], rows: Sequence[Row], before: Mapping[str, Any] | None) -> str:
    """The Markdown page of a run."""
    machine = ", ".join(f"{name} {value}" for name, value in line["machine"].items())
    commit = f"Commit {line['commit']}{' with changes' if line['changed'] else ''}, {line['date']}"
    sizes = "small sizes" if line["small"] else "default sizes"
    text = [
        "# Speed",
        "",
        f"{commit}, {sizes}, load {line['load']:g}: {machine}.",
        "Larger is better: a ratio of 2 is half of the time of the other side. `over_floor`: 1 is",
        "the floor of the machine, smaller is better. `of_peak`: 1 is the peak of the machine.",
        "",
        "| benchmark | ratio | now | before | change |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        old = "" if row.before is None else f"{row.before:g}"
        text.append(
            f"| {row.benchmark} | {row.ratio.removesuffix(SPEEDUP)} | {row.now:.3g} | {old} | "
            f"{changed_by(row)} |"
        )
    text += ["", *(f"- {name}: skipped, {why}" for name, why in line["skipped"].items())]
    if before:
        same = "this machine" if before["machine"] == line["machine"] else "another machine"
        text += ["", f"Before: commit {before['commit']}, {before['date']}, {same}."]
    return "\n".join(text).rstrip() + "\n"


def changed_by(row: Row) -> str:
    """The change of a ratio in percent, for people."""
    return "" if row.change is None else f"{row.change:+.0f} %"


def arguments() -> argparse.Namespace:
    """The parsed command line."""
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="benchmarks to run; none: all")
    add("--small", action="store_true", help="small sizes of every benchmark")
    add("--folder", type=Path, default=ROOT / "benchmarks", help="folder of the scripts")
    add("--history", type=Path, help="JSON lines; None: history.jsonl in the folder")
    add("--record", action="store_true", help="append this run to the history")
    add("--page", type=Path, default=Path("outputs/benchmarks.md"), help="page to write")
    add(
        "--fall",
        type=float,
        default=20.0,
        help="percent by which a listed ratio is worse",
    )
    add("--minutes", type=whole_number, default=60, help="longest time of one benchmark")
    add("--options", action="append", default=[], metavar="NAME=OPTIONS", help="of one benchmark")
    add("--python", action="append", default=[], metavar="NAME=PYTHON", help="of one benchmark")
    return parser.parse_args()


def assigned(option: str, values: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Parse ``NAME=VALUE``. Raises ZooError for another form or an unknown benchmark."""
    found = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals:
            raise ZooError(f"{option} needs NAME=..., not {value!r}.")
        check_choice("benchmark", name, names)
        found[name] = rest
    return found


def main() -> None:
    """Run the benchmarks, print and write the comparison, and record it if asked to."""
    given = arguments()
    scripts = benchmarks(given.folder)
    for name in given.names:
        check_choice("benchmark", name, scripts)
    options = assigned("--options", given.options, list(scripts))
    pythons = assigned("--python", given.python, list(scripts))
    history = given.history or given.folder / "history.jsonl"
    lines = history_lines(history)
    before = next((line for line in reversed(lines) if line["small"] == given.small), None)

    load = os.getloadavg()[0]
    outcomes = {}
    for name in given.names or scripts:
        command = [pythons.get(name, sys.executable), str(scripts[name])]
        command += ["--small"] * given.small + shlex.split(options.get(name, ""))
        outcome = outcomes[name] = measure(command, MINUTE * given.minutes)
        state = "failed" if outcome.failed else "skipped" if outcome.skipped else "done"
        print(f"{name}: {state} after {outcome.seconds:.0f} s {outcome.skipped}", flush=True)

    rows = compared(outcomes, before)
    line = new_line(outcomes, small=given.small, load=load)
    cells = [(row.benchmark, row.ratio, f"{row.now:.3g}", changed_by(row)) for row in rows]
    print_table(("benchmark", "ratio", "now", "change"), cells)
    fell = [row for row in rows if row.fall > given.fall]
    for row in fell:
        print(f"worse: {row.benchmark} {row.ratio} from {row.before:g} to {row.now:.3g}")
    given.page.parent.mkdir(parents=True, exist_ok=True)
    write_text(given.page, page_of(line, rows, before))
    if given.record:
        texts = [json.dumps(one) for one in (*lines, line)]
        write_text(history, "\n".join(texts) + "\n")
    failed = [name for name, outcome in outcomes.items() if outcome.failed]
    fallen = [f"{row.benchmark}.{row.ratio}" for row in fell]
    print_result("run", {"ratios": line["ratios"], "failed": failed, "fell": fallen})
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    run_script(main)
