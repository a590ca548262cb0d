"""An interrupted evaluation streams only the talks that its logs lack."""

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from benchmarks.harness import streams_without_clock
from tests.contract.scripted import TurnTaker
from tests.evaluation.test_runner import system, talk
from zoo.base.talks import Talk
from zoo.base.types import Instance
from zoo.evaluation.runner import Evaluator
from zoo.evaluation.settings import Settings
from zoo.runs.rows.store import StreamStore
from zoo.systems.base import StreamingSystem

ROWS = ["00-scripted-m1", "01-scripted-m3", "02-scripted-offline"]


@pytest.fixture
def talks(tmp_path: Path) -> list[Talk]:
    return [talk(tmp_path, name) for name in ("one", "two", "three")]


def evaluate(folder: Path, talks: list[Talk], *, resume: bool = False) -> list[str]:
    """Evaluate the scripted system; the names of the streamed talks, row after row.

    The streams of a warm-up are none of them.
    """
    opened: list[str] = []

    class Noted(StreamingSystem):
        def open(self, talk: str, **given: object) -> object:  # type: ignore[override]
            opened.append(talk)
            return super().open(talk, **given)  # type: ignore[arg-type]

    scripted = system(TurnTaker())
    scripted.__class__ = Noted
    evaluator = Evaluator(
        corpus="script", talks=talks, settings=Settings(), folder=folder, resume=resume
    )
    with patch("zoo.evaluation.callback.warm_up"):
        list(evaluator.run(scripted))
    return opened


def test_only_unfinished_talks_are_streamed_again(talks: list[Talk], tmp_path: Path) -> None:
    complete, folder = tmp_path / "complete", tmp_path / "run"
    assert len(evaluate(complete, talks)) == 3 + 3 + 6
    evaluate(folder, talks)
    log = folder / "instances" / ROWS[1] / "streams.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0] + lines[1][:30])  # killed while it wrote the second talk
    (folder / "instances" / ROWS[2] / "streams.jsonl").unlink()
    first = json.loads(lines[0])["talk"]

    again = evaluate(folder, talks, resume=True)
    assert sorted(again[:2]) == sorted({"one", "two", "three"} - {first})
    assert len(again) == 2 + 6
    assert streams_without_clock(folder) == streams_without_clock(complete)


def test_without_resume_everything_is_streamed(talks: list[Talk], tmp_path: Path) -> None:
    evaluate(tmp_path / "run", talks)
    assert len(evaluate(tmp_path / "run", talks)) == 12


def test_the_talks_of_a_stopped_rank_are_streamed_again(
    talks: list[Talk], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = tmp_path / "complete"
    evaluate(complete, talks)
    append, lost = StreamStore.append, []

    def append_or_lose(log: StreamStore, instance: Instance) -> None:
        if instance.talk == "two" and not lost:  # as by a rank that dies before it writes
            lost.append(instance.talk)
            return
        append(log, instance)

    monkeypatch.setattr(StreamStore, "append", append_or_lose)
    assert len(evaluate(tmp_path / "run", talks)) == 12 + 1
    assert lost
    assert streams_without_clock(tmp_path / "run") == streams_without_clock(complete)
