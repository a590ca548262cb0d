"""A recorded log as a source of instances."""

from pathlib import Path
from typing import Any

import pytest

from zoo.base.errors import ZooError
from zoo.base.types import Instance
from zoo.formats.simuleval import write_log
from zoo.systems.replay import Replay


def replay(log: str | Path | None, **options: Any) -> Replay:
    return Replay(**{"log": log, "source_language": "en", "target_language": "de", **options})


def test_plays_a_log_back(tmp_path: Path) -> None:
    stream = Instance(
        3, "talk", 2.0, "a b", ("a", "b"), (1.0, 2.0), (1.5, 2.5), "a b", convention="cumulative"
    )
    write_log(tmp_path / "instances.log", [stream])
    source = replay(str(tmp_path / "instances.log"), name="theirs")
    assert list(source.instances()) == [stream]
    assert list(source.instances()) == [stream], "again from the start"
    assert (source.name, source.source_language.code, source.target_language.code) == (
        "theirs",
        "en",
        "de",
    )


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="There is no file"):
        list(replay(tmp_path / "none.log").instances())
    with pytest.raises(ZooError, match=r"needs system\.log, the path"):
        list(replay(None).instances())
    with pytest.raises(ZooError, match="Unknown language 'xx'"):
        replay("x", target_language="xx")


def test_pieces_are_for_logs_of_simulstream(tmp_path: Path) -> None:
    write_log(tmp_path / "log", [Instance(0, "talk", 2.0, "a", ("a",), (1.0,), (1.5,), "a")])
    with pytest.raises(ZooError, match=r"system\.pieces=words is for logs of simulstream"):
        list(replay(tmp_path / "log", pieces="words").instances())
