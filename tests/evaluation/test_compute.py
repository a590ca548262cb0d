"""The compute of a row by stage, and rows of a loaded machine."""

from dataclasses import replace
from typing import Any

import pytest

from zoo.base.types import ChunkTime, Instance, StageTimes
from zoo.evaluation import compute
from zoo.evaluation.compute import compute_facts, load_note, stage_parts
from zoo.runs.rows.row import Row
from zoo.runs.rows.settings import Compute, RowSettings


def stream(length: float, cpu: float = 0.5, **seconds: float) -> Instance:
    chunks = (ChunkTime(length / 2, 0.5), ChunkTime(length, 0.5))
    stages = StageTimes(seconds, cpu) if seconds else None
    return Instance(0, "talk", length, "", (), (), (), chunks=chunks, stages=stages)


def row(**settings: Any) -> Row:
    return Row("s", None, "d", "tst", "en", "de", {}, {}, "i", settings=RowSettings(**settings))


def test_parts_are_seconds_per_second_of_the_streams_that_were_measured() -> None:
    streams = [stream(4, encoder=1.0, decode=2.0), stream(6, encoder=0.5), stream(90)]
    assert stage_parts(streams) == {"encoder": 0.15, "decode": 0.2}
    assert stage_parts([stream(90)]) == {}


def test_facts_have_the_share_of_a_cpu_and_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute.os, "getloadavg", lambda: (3.0, 2.0, 1.0))
    monkeypatch.setattr(compute, "usable_cores", lambda: 2)
    streams = [stream(4, 0.75, encoder=1.0), stream(8, 0.25, decode=1.0)]
    assert compute_facts(streams) == Compute(
        chunk_seconds=3.0, cpu_share=0.5, load_average=3.0, cores=2
    )
    assert compute_facts([stream(4)]) is None


@pytest.mark.parametrize(
    ("share", "load", "loaded"), [(0.99, 0.5, False), (0.5, 0.5, True), (0.99, 9.0, True)]
)
def test_rows_of_a_loaded_machine_are_marked(share: float, load: float, loaded: bool) -> None:
    marked = row(compute=Compute(chunk_seconds=1.0, cpu_share=share, load_average=load, cores=2))
    assert marked.has_loaded_machine is loaded
    idle = row(compute=Compute(chunk_seconds=1.0, cpu_share=0.99, load_average=0.5, cores=2))
    # a row without computation, such as an oracle's, does not count
    assert ("of 1 of 2 rows are too high" in load_note([marked, idle, row()])) is loaded
    assert load_note([row()]) == ""
    assert not replace(marked, settings=RowSettings()).has_loaded_machine
