"""Searches for input that ends in a traceback: ``python -m tests.fuzz --examples 50000``.

A crash becomes a line of ``tests/known_issues/test_fuzzed.py``.
"""

import argparse
import faulthandler
import sys

from tests.fuzz.running import find_crash
from tests.fuzz.targets import targets


def main() -> None:
    """Run all targets, or those that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=2000, help="of all targets together")
    parser.add_argument("targets", nargs="*", help="names of targets")
    given = parser.parse_args()
    faulthandler.enable()

    chosen = {
        name: target
        for name, target in targets().items()
        if not given.targets or name in given.targets
    }
    crashes = 0
    for name, target in chosen.items():
        crash = find_crash(target, given.examples // len(chosen), judged=True)
        crashes += bool(crash)
        print(f"{name}: {crash or 'no crash'}", flush=True)
    sys.exit(min(crashes, 1))


if __name__ == "__main__":
    main()
