"""The store of streams restores every stream bit for bit, whatever a kill leaves behind."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from zoo.base.errors import ZooError
from zoo.base.types import ChunkTime, Instance, SpeechOutput, StageTimes, StreamEvent
from zoo.runs.rows.store import StreamStore

INSTANCE = Instance(
    index=3,
    talk="a talk/with ä sign",
    source_length=0.1 + 0.2,
    text="Zwölf Boxkämpfer",
    units=("Zwölf", "Boxkämpfer"),
    delays=(1 / 3, 2 / 3),
    elapsed=(0.7, 0.9),
    reference="Zwölf \u2028 Boxkämpfer",
    chunk_indices=(0, 1),
    chunks=(ChunkTime(1 / 3, 0.1), ChunkTime(2 / 3, 1e-7)),
    batched=True,
    stages=StageTimes({"encoder": 0.1, "decode": 1 / 3}, 0.4),
    events=(
        StreamEvent("transcript", 1 / 3, text="twelve"),
        StreamEvent("cut", 0.1 + 0.2, chunk=1, reason="RecentWords", tokens=1, frames=2),
        StreamEvent("revision", 0.6, chunk=1, text="Zehn", pieces=((1, 0), (3, 1))),
    ),
)


def speaking() -> Instance:
    waves = [torch.rand(5), torch.rand(2)]
    return replace(
        INSTANCE,
        index=4,
        speech=tuple(SpeechOutput(wave, 1 / 3, 0.7, 0, "zwölf") for wave in waves),
    )


def test_streams_of_all_ranks_are_restored(tmp_path: Path) -> None:
    spoken = speaking()
    StreamStore(tmp_path / "streams", rank=0).append(INSTANCE)
    StreamStore(tmp_path / "streams", rank=1).append(spoken)
    found = StreamStore(tmp_path / "streams").read()
    assert found == {3: INSTANCE, 4: spoken}
    for restored, written in zip(found[4].speech, spoken.speech, strict=True):
        torch.testing.assert_close(restored.samples, written.samples, rtol=0, atol=0)


def test_a_network_may_have_written_any_number_of_units(tmp_path: Path) -> None:
    words = tuple("es" for _ in range(500))
    stream = replace(
        INSTANCE, units=words, delays=(0.1,) * 500, elapsed=(), chunk_indices=(0,) * 500
    )
    StreamStore(tmp_path).append(stream)
    assert StreamStore(tmp_path).read() == {stream.index: stream}


def test_a_folder_without_logs_has_no_streams(tmp_path: Path) -> None:
    assert StreamStore(tmp_path / "nowhere").read() == {}


@pytest.mark.parametrize("cut", [1, 40, -2, -1])
def test_an_incomplete_last_line_is_skipped_and_replaced(tmp_path: Path, cut: int) -> None:
    log = StreamStore(tmp_path)
    log.append(INSTANCE)
    complete = log.path.read_bytes()
    log.append(replace(INSTANCE, index=5))
    log.path.write_bytes(complete + log.path.read_bytes()[len(complete) :][:cut])
    assert log.read() == {3: INSTANCE}
    log.append(replace(INSTANCE, index=6))
    assert sorted(log.read()) == [3, 6]


def test_a_damaged_line_is_refused_in_one_sentence(tmp_path: Path) -> None:
    log = StreamStore(tmp_path)
    log.append(INSTANCE)
    log.path.write_bytes(b"{}\n" + log.path.read_bytes())
    with pytest.raises(ZooError, match=r"streams\.jsonl is damaged .* remove it and resume"):
        log.read()


def test_the_log_of_an_earlier_evaluation_is_removed(tmp_path: Path) -> None:
    log = StreamStore(tmp_path)
    log.append(INSTANCE)
    log.clear()
    assert log.read() == {}
    log.clear()


def test_an_evaluation_with_fewer_ranks_reads_no_streams_of_the_others(tmp_path: Path) -> None:
    for rank in range(3):
        StreamStore(tmp_path, rank=rank).append(replace(INSTANCE, index=rank))
    StreamStore(tmp_path, rank=1).clear(ranks=2)
    assert set(StreamStore(tmp_path).read()) == {0, 2}
    StreamStore(tmp_path, rank=0).clear(ranks=2)
    assert StreamStore(tmp_path).read() == {}
