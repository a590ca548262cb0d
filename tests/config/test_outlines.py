"""Arguments read from source are those of the imported target."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from zoo.config.outlines import outline
from zoo.config.signatures import arguments, locate, part_of, path_of

ROOT = Path(__file__).resolve().parents[2]
TARGETS = sorted(
    {
        match
        for path in (ROOT / "conf").rglob("*.yaml")
        for match in re.findall(r"_target_: ([\w.]+)", path.read_text())
    }
)


def test_a_target_of_each_group_has_an_outline() -> None:
    read = [target for target in TARGETS if outline(target) is not None]
    assert len(read) > 0.9 * len(TARGETS), sorted(set(TARGETS) - set(read))


@pytest.mark.parametrize("target", TARGETS)
def test_an_outline_is_the_signature(target: str) -> None:
    found = outline(target)
    if found is None:
        return  # the target is imported
    expected = {
        name: None if (part := part_of(argument)) is None else path_of(part)
        for name, argument in arguments(locate(target)).items()
    }
    assert set(found) == set(expected)
    assert {name: part for name, part in found.items() if part} == {
        name: part for name, part in expected.items() if part
    }


@pytest.mark.parametrize("target", ["nowhere.Thing", "zoo.types.Nothing", "zoo", "json.dumps2"])
def test_what_is_not_in_the_source_has_no_outline(target: str) -> None:
    assert outline(target) is None


@pytest.mark.parametrize(
    ("script", "typed", "message"),
    [
        ("evaluate", "backbone.nonsense=1", "choose one of: backbone.encoder"),
        ("train", "backbone.lora.rnk=3", "choose one of: backbone.lora.rank"),
        ("evaluate", "policy.frames=3", "it is a key of policy=alignatt"),
        ("train", "trainer.nonsense=3", "trainer.devices"),
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
    assert f"Unknown key {typed.partition('=')[0]!r}" in done.stderr
    assert message in done.stderr
    assert done.stdout.strip() == ""
