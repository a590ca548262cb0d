"""Damaged manifests, logs and folders on the command line: one sentence and exit code 2."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.evaluation.conftest import Evaluate
from tests.evaluation.test_bad_input import refused
from tests.formats.test_bad_fields import SIMULEVAL
from tests.fuzz.targets import TALK


def inside(line: str) -> str:
    """Return a talk with a second segment that lies in its first."""
    talk = json.loads(line)
    first = talk["segments"][0]
    talk["segments"].append({**first, "offset": 1.25, "duration": 0.25})
    return json.dumps(talk)


RECORDED = ("system=replay", "data=recorded")
MANIFESTS: dict[str, tuple[Callable[[str], bytes], str]] = {
    "a text as time": (lambda line: line.replace("3.5", '"x"').encode(), "duration"),
    "NaN": (lambda line: line.replace("3.5", "NaN").encode(), "at line 1"),
    "negative": (lambda line: line.replace("1.0, 1.25", "-1.0, 1.25").encode(), "at line 1"),
    "reversed": (lambda line: line.replace("1.0, 1.25", "1.25, 1.0").encode(), "at line 1"),
    "one segment inside another": (
        lambda line: inside(line).encode(),
        "segments[1], from 1.25 to 1.5 s, lies in the segment before it, which ends at 1.75 s",
    ),
    "null as text": (lambda line: line.replace('"Gute Katze."', "null").encode(), "at line 1"),
    "UTF-16": (lambda line: line.encode("utf-16"), "at line 1"),
    "Latin-1": (lambda line: line.replace("Gute", "Häme").encode("latin-1"), "at line 1"),
    "deep JSON": (lambda line: b"[" * 100_000, "at line 1"),
    "one name twice": (lambda line: (line + "\n" + line).encode(), "name"),
}
LOGS: dict[str, tuple[dict[str, object], str]] = {
    "NaN": ({"delays": [math.nan, 2500.0]}, "line 1"),
    "infinite": ({"source_length": math.inf}, "line 1"),
    "negative": ({"source_length": -3000.0}, "it must be above 0"),
    "null as text": ({"prediction": None, "text": None}, "line 1"),
    "a text as time": ({"delays": ["x", 1.0]}, "line 1"),
    "reversed": ({"delays": [2500.0, 1000.0]}, "go back in time"),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_manifest(kind: str, evaluate: Evaluate, here: Path, tmp_path: Path) -> None:
    damage, sentence = MANIFESTS[kind]
    (tmp_path / "tst.jsonl").write_bytes(damage(json.dumps(TALK, ensure_ascii=False)))
    refused(evaluate("data=aligned", f"data.folder={tmp_path}"), sentence)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("kind", LOGS)
def test_a_log(kind: str, evaluate: Evaluate, here: Path, tmp_path: Path) -> None:
    changes, sentence = LOGS[kind]
    log = tmp_path / "instances.log"
    log.write_text(json.dumps({**SIMULEVAL, "events": [], **changes}) + "\n")
    refused(evaluate(*RECORDED, f"system.log={log}", "logger=csv", tiny=False), sentence)
    assert list(here.iterdir()) == []


@pytest.mark.usefixtures("_no_home")
def test_no_home_folder(evaluate: Evaluate, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIMULZOO_CACHE", raising=False)
    refused(evaluate(), "There is no home folder; set SIMULZOO_CACHE to a writable folder.")
