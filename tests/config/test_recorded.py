"""The recorded signatures are those of the code, and answer without its import."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zoo.config.generate import signatures, text_of
from zoo.config.inspection import inspect_arguments
from zoo.config.recorded import FILE, recorded
from zoo.config.signatures import recorded_arguments
from zoo.config.targets import locate

ROOT = Path(__file__).resolve().parents[2]


def unordered(content: Any) -> Any:
    """JSON whose unions are sorted: typing caches ``int | float`` in the order of its first use."""
    if isinstance(content, dict):
        return {name: unordered(item) for name, item in content.items()}
    if isinstance(content, list):
        items = [unordered(item) for item in content]
        return sorted(items, key=json.dumps) if content[:1] == ["union"] else items
    return content


def test_the_recorded_signatures_are_those_of_the_code() -> None:
    content, written = signatures(), json.loads(FILE.read_text())
    if content["versions"] == written["versions"]:
        found = json.loads(text_of(content))
        assert unordered(found) == unordered(written), "python -m zoo.config.generate"
    for target in recorded()["targets"]:
        known, live = recorded_arguments(target), inspect_arguments(locate(target))
        assert known is not None
        assert list(known.named) == list(live.named)
        assert known.takes_any == live.takes_any


def test_targets_of_another_version_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.config.recorded.release", lambda package: "0.1")
    targets = recorded.__wrapped__()["targets"]
    assert {target.partition(".")[0] for target in targets} == {"zoo"}


def test_each_argument_of_the_zoo_has_a_kind_and_a_meaning() -> None:
    silent = [
        f"{target}.{name}"
        for target, content in recorded()["targets"].items()
        for name, argument in content["arguments"].items()
        if target.startswith("zoo.") and not (argument.get("meaning") and "kind" in argument)
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("script", "typed", "message"),
    [
        ("evaluate", "backbone.nonsense=1", "choose one of: backbone.encoder"),
        ("train", "backbone.lora.rnk=3", "choose one of: backbone.lora.rank"),
        ("evaluate", "policy.frames=3", "it is a key of policy=alignatt"),
        ("train", "trainer.nonsense=3", "trainer.devices"),
        ("evaluate", "backbone.search.beams=x", "must be a whole number, not 'x'"),
    ],
)
def test_a_mistyped_key_is_reported_without_the_import_of_its_part(
    script: str, typed: str, message: str, tmp_path: Path
) -> None:
    code = f"""
import sys
from zoo.commands import {script}
try:
    {script}()
finally:
    print(*({{"torch", "lightning", "transformers", "scipy", "zoo.policies"}} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, typed],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert typed.partition("=")[0] in done.stderr
    assert message in done.stderr
    assert done.stdout.strip() == ""
