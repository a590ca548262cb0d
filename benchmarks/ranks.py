"""Speed of a sharded evaluation: the streaming phase on one rank against several ranks.

    python benchmarks/ranks.py                 minitalks tst with InfiniSST, one rank and two
    python benchmarks/ranks.py --talks 4 system=streamatt

Each rank has one thread and streams one talk at a time. The streaming phase begins when a rank has
its weights and ends when rank 0 has all streams. Words and delays of both runs must be equal.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import ROOT, add_overrides, parser_of, print_result, print_table, streams_without_clock

SHARED = (
    "evaluation.batch_size=1",
    "evaluation.upper_bound=false",
    "evaluation.oracle_k=[]",
    "evaluation.recogniser=null",
    "device=cpu",
    "threads=1",
    "logger=csv",
)


def main() -> None:
    """Evaluate on one rank and on several, and print the ratio."""
    sizes = {"talks": (10, 2, "talks of the test set"), "ranks": (2, 2, "number of ranks")}
    parser = parser_of(__doc__, sizes)
    add_overrides(parser)
    given = parser.parse_intermixed_args()

    overrides = [f"evaluation.talks={given.talks}", *given.overrides]
    one, several = (evaluate(ranks, overrides) for ranks in (1, given.ranks))
    seconds = [
        sum(row["settings"]["streaming_seconds"] for row in rows) for rows, _ in (one, several)
    ]
    print_table(
        ("ranks", "streaming seconds"),
        [("1", f"{seconds[0]:.1f}"), (str(given.ranks), f"{seconds[1]:.1f}")],
    )
    equal = one[1] == several[1]
    print_result(
        "ranks",
        {"talks": given.talks, "ranks": given.ranks, "equal": equal},
        {"streaming_seconds": seconds, "ranks_speedup": round(seconds[0] / seconds[1], 3)},
    )
    sys.exit(0 if equal else 1)


def evaluate(ranks: int, overrides: Sequence[str]) -> tuple[list[dict[str, Any]], list[Any]]:
    """Run evaluate.py.

    Returns:
        The rows of results, and the logged streams without times of the clock.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, str(ROOT / "evaluate.py"), *SHARED, *overrides]
        subprocess.run(
            [*command, f"trainer.devices={ranks}", f"hydra.run.dir={run}"],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
        )
        rows = json.loads((run / "results.json").read_text())
        return rows, streams_without_clock(run)


if __name__ == "__main__":
    main()
