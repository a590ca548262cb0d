"""CPU seconds of ``make demo``, as a speed-up over those of another commit.

    python benchmarks/demo.py --against 9562736

Both run as processes of their own, one after the other, with one thread; the commit runs in a
worktree of this repository, with this environment. Rows with other words or delays are listed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import ROOT, parser_of, print_result, print_table


def main() -> None:
    """Measure both commits and print their times, their ratio and the rows that differ."""
    parser = parser_of(__doc__)
    parser.add_argument("--against", required=True, help="commit to compare with")
    parser.add_argument("overrides", nargs=argparse.REMAINDER, help="overrides of the demo")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, before = Path(name), Path(name) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(before), given.against], check=True)
        try:
            trees = {given.against: before, "here": ROOT}
            times = {
                label: cpu_seconds(tree, folder / label, given.overrides)
                for label, tree in trees.items()
            }
        finally:
            subprocess.run([*git, "remove", "--force", str(before)], check=True)
        old, new = (written(folder / label) for label in trees)

    rows = [[label, f"{seconds:.1f}"] for label, seconds in times.items()]
    print_table(["commit", "CPU seconds"], rows)
    differing = sorted(name for name in new if name not in old or old[name] != new[name])
    for row in differing:
        print(f"differs: {row}")
    result = {
        "demo_speedup": round(times[given.against] / times["here"], 2),
        "rows": len(new),
        "rows_differ": len(differing),
    }
    print_result("demo", result)


def cpu_seconds(tree: Path, folder: Path, overrides: list[str]) -> float:
    """Return the user and system time of the demo.

    Args:
        tree: the repository whose code runs.
        folder: run folder.
        overrides: overrides of ``experiment=demo``.
    """
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "evaluate.py", "experiment=demo", f"hydra.run.dir={folder}"]
    before = os.times()
    subprocess.run(
        [*command, *overrides], cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=True
    )
    after = os.times()
    whole = after.children_user + after.children_system
    return whole - before.children_user - before.children_system


def written(folder: Path) -> dict[str, list[Any]]:
    """Return the units and delays of each stream of a run, by the row of results."""
    found = {}
    for row in json.loads((folder / "results.json").read_text(encoding="utf-8")):
        lines = (folder / row["instances"]).read_text(encoding="utf-8").splitlines()
        streams = [json.loads(line) for line in lines]
        setting = row["knob"]["value"] if row["knob"] else None
        label = f"{row['system']} {row['kind']} {setting} {row['target_language']}"
        found[label] = [[one["prediction"], one["delays"]] for one in streams]
    return found


if __name__ == "__main__":
    main()
