"""benchmarks/run.py on a folder of small scripts."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from zoo.base.errors import ZooError

FAST = """
import json, sys
print("a table")
value = 1.25 if "--small" in sys.argv else 3.0
value = float(sys.argv[-1]) if "--value" in sys.argv else value
print(json.dumps({"benchmark": "fast", "ms": 7, "step_speedup": value, "whole_speedup": 2.0}))
if __name__ == "__main__": pass
"""
LACKING = """
import sys
if __name__ == "__main__":
    print("error: Needs the extra interop.", file=sys.stderr)
    sys.exit(2)  # prints step_speedup"
"""
ABSENT = """
if __name__ == "__main__":
    print('{"absent": ["simuleval", "omnisteval"], "other": "step_speedup"}')
"""
BROKEN = """
if __name__ == "__main__":
    raise RuntimeError("no step_speedup", "step_speedup")
"""
HELPER = 'print_result = {"step_speedup": 1}'
MEMORY = 'if __name__ == "__main__": print("{}")'
Run = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Scripts that are benchmarks of speed, a helper and a benchmark of memory."""
    texts = {"fast": FAST, "lacking": LACKING, "absent": ABSENT, "helper": HELPER, "memory": MEMORY}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@pytest.fixture
def run(
    script: ModuleType,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """``run(option, ...)``: exit code, last line and all of stdout."""

    def start(*options: str) -> tuple[int, dict[str, Any], str]:
        given = ["run.py", "--folder", str(folder), "--page", str(folder / "page.md"), *options]
        monkeypatch.setattr(sys, "argv", given)
        with pytest.raises(SystemExit) as ended:
            script.main()
        out = capsys.readouterr().out
        assert isinstance(ended.value.code, int)
        return ended.value.code, json.loads(out.splitlines()[-1]), out

    return start


def test_ratios_are_collected_and_the_rest_is_skipped_with_its_reason(
    run: Run, folder: Path
) -> None:
    code, result, out = run("--small")
    assert (code, result["failed"], result["fell"]) == (0, [], [])
    assert result["ratios"] == {"fast": {"step_speedup": 1.2, "whole_speedup": 2.0}}
    assert "absent: skipped after" in out
    assert "Needs the extra interop." in out
    assert "helper" not in out
    assert "memory" not in out
    page = (folder / "page.md").read_text()
    assert "| fast | step | 1.25 |" in page
    assert "- absent: skipped, absent: simuleval, omnisteval" in page
    assert "- lacking: skipped, Needs the extra interop." in page
    assert not (folder / "history.jsonl").exists()


def test_a_ratio_that_fell_is_listed_and_one_of_other_sizes_is_not_compared(
    run: Run, folder: Path
) -> None:
    run("--record")
    [line] = (folder / "history.jsonl").read_text().splitlines()
    recorded = json.loads(line)
    assert recorded["ratios"]["fast"]["step_speedup"] == 3.0
    assert set(recorded) == {
        *("date", "commit", "changed", "small", "machine", "load", "ratios", "skipped")
    }
    assert "node" not in line and "host" not in line  # noqa: PT018

    code, result, out = run("--options", "fast=--value 2.0", "--record", "fast")
    assert (code, result["fell"]) == (0, ["fast.step_speedup"])
    assert "worse: fast step_speedup from 3 to 2" in out
    assert "| fast | step | 2 | 3 | -33 % |" in (folder / "page.md").read_text()
    assert len((folder / "history.jsonl").read_text().splitlines()) == 2

    assert run("--options", "fast=--value 2.5", "fast", "--fall", "5")[1]["fell"] == []
    assert run("--small", "fast")[1]["fell"] == []


def test_of_a_ratio_to_a_floor_a_larger_one_is_worse(script: ModuleType) -> None:
    rows = {
        name: script.Row("roofline", name, now, 1.0).fall
        for name, now in (("a_over_floor", 1.5), ("b_over_floor", 0.5), ("c_of_peak", 0.5))
    }
    assert rows == {"a_over_floor": 50.0, "b_over_floor": -50.0, "c_of_peak": 50.0}
    assert script.Row("roofline", "a_over_floor", 1.5, None).fall == 0


def test_a_script_that_fails_is_an_error(run: Run, folder: Path) -> None:
    (folder / "broken.py").write_text(BROKEN)
    code, result, out = run("broken", "fast")
    assert (code, result["failed"]) == (1, ["broken"])
    assert "broken: failed after" in out
    assert "RuntimeError" in out
    code, result, _ = run("fast", "--python", f"fast={folder / 'nowhere'}")
    assert (code, result["failed"]) == (1, ["fast"])


def test_a_script_that_takes_too_long_is_stopped(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)")
    outcome = script.measure([sys.executable, str(tmp_path / "slow.py")], 0.2)
    assert outcome.failed
    assert outcome.skipped.startswith("took more than")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("nope",), "Unknown benchmark 'nope'; choose one of: absent, fast, lacking"),
        (("--options", "fast"), "--options needs NAME="),
        (("--python", "nope=x"), "Unknown benchmark 'nope'"),
    ],
)
def test_an_unknown_benchmark_is_refused(
    script: ModuleType,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    problem: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "--folder", str(folder), *options])
    with pytest.raises(ZooError, match=problem):
        script.main()


def test_a_damaged_history_is_refused(script: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"small": true, "ratios": {}}\n[]\n')
    with pytest.raises(ZooError, match=r"^Line 2 of .*history.jsonl is no line of a history\.$"):
        script.history_lines(path)


def test_the_benchmarks_of_the_repository_are_found(script: ModuleType) -> None:
    found = script.benchmarks(script.ROOT / "benchmarks")
    assert {"infinisst_step", "scoring", "ranks", "start_up"} <= set(found)
    assert not {"run", "harness", "same_words", "unbounded"} & set(found)
