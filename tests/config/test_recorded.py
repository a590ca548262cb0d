"""The recorded signatures are those of the code, and answer without its import."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zoo.config.generate import signatures, text_of
from zoo.config.recorded import FILE, read_signatures
from zoo.config.signatures import arguments_json, recorded_arguments

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
    found, written = json.loads(text_of(signatures())), json.loads(FILE.read_text())
    packages = {"zoo", *dict(found["versions"].items() & written["versions"].items())}
    assert found["functions"] == written["functions"]
    assert known(found, packages) == known(written, packages), "python -m zoo.config.generate"


def known(content: dict[str, Any], packages: set[str]) -> Any:
    """The signatures of packages, with the arguments in their order."""
    targets = content["targets"].items()
    return [
        [name, list(entry["arguments"]), unordered(entry)]
        for name, entry in targets
        if name.partition(".")[0] in packages
    ]


@pytest.mark.parametrize("target", list(read_signatures()["targets"]))
def test_a_recorded_signature_is_read_as_it_was_written(target: str) -> None:
    arguments = recorded_arguments(target)
    assert arguments is not None
    assert arguments_json(arguments) == read_signatures()["targets"][target]


@pytest.mark.parametrize(
    "target", ["nowhere.Thing", "zoo.base.types.Nothing", "zoo", "json.dumps2"]
)
def test_what_no_configuration_names_is_not_recorded(target: str) -> None:
    assert recorded_arguments(target) is None


def test_targets_of_another_version_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.config.recorded.release", lambda package: "0.1")
    targets = read_signatures.__wrapped__()["targets"]
    assert {target.partition(".")[0] for target in targets} == {"zoo"}


def test_each_argument_of_the_zoo_has_a_kind_and_a_meaning() -> None:
    silent = [
        f"{target}.{name}"
        for target, content in read_signatures()["targets"].items()
        for name, argument in content["arguments"].items()
        if target.startswith("zoo.") and not (argument.get("meaning") and "kind" in argument)
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("script", "typed", "message"),
    [
        ("evaluate", "backbone.nonsense=1", "choose one of: backbone.window"),
        ("train", "backbone.lora.rnk=3", "choose one of: backbone.lora.rank"),
        ("evaluate", "policy.frames=3", "it is a key of policy=alignatt"),
        ("train", "trainer.nonsense=3", "trainer.devices"),
    ],
)
def test_a_mistyped_key_is_reported_without_the_import_of_its_part(
    script: str, typed: str, message: str, tmp_path: Path
) -> None:
    printed = refuse_without_imports(script, typed, tmp_path)
    assert f"Unknown key {typed.partition('=')[0]!r}" in printed
    assert message in printed


def test_a_wrong_value_is_reported_without_the_import_of_its_part(tmp_path: Path) -> None:
    printed = refuse_without_imports("evaluate", "backbone.search.beams=x", tmp_path)
    assert printed == "error: backbone.search.beams must be a whole number, not 'x'.\n"


def refuse_without_imports(script: str, typed: str, folder: Path) -> str:
    """What a command with a wrong override prints; it exits with 2 and imports no network."""
    code = f"""
import sys
from zoo.apps.{script} import main
try:
    main()
finally:
    print(*({{"torch", "lightning", "transformers", "scipy", "zoo.policies"}} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, typed],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout.strip() == ""
    return done.stderr
