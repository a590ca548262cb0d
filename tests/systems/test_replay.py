"""A recorded log as a system."""

from pathlib import Path

import pytest

from zoo.errors import ZooError
from zoo.report.instance_log import write_log
from zoo.systems.replay import Replay
from zoo.types import Instance


def test_plays_a_log_back(tmp_path: Path) -> None:
    stream = Instance(3, "talk", 2.0, "a b", ("a", "b"), (1.0, 2.0), (1.5, 2.5), "a b", convention="cumulative")
    write_log(tmp_path / "instances.log", [stream])
    replay = Replay(log=str(tmp_path / "instances.log"), target_language="de")
    assert list(replay.instances()) == [stream]
    assert list(replay.instances()) == [stream], "again from the start"


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="There is no log"):
        list(Replay(log=tmp_path / "none.log", target_language="de").instances())
    with pytest.raises(ZooError, match="Unknown language 'xx'"):
        Replay(log="x", target_language="xx")
