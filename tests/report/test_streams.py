"""Streams of finished runs are read from their files as they were reported."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fixtures.segments import scored_segment
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.base.types import ChunkTime, Instance
from zoo.evaluation.segments import segments_of, write_segment_files
from zoo.metrics.longform import TimedSegment
from zoo.metrics.rules import find_rules
from zoo.report.page import write_report
from zoo.runs.rows.join import find_runs, joined_rows
from zoo.runs.rows.row import Row, write_rows
from zoo.runs.rows.settings import RowSettings
from zoo.runs.rows.store import StreamStore
from zoo.runs.rows.streams import finished_streams, write_talks

INSTANCE = Instance(
    0,
    "talk",
    4.0,
    "eins zwei drei",
    ("eins", "zwei", "drei"),
    (1.0, 1.0, 4.0),
    (1.5, 1.5, 4.25),
    chunks=(ChunkTime(1.0, 0.5), ChunkTime(4.0, 0.25)),
    chunk_indices=(0, 0, 1),
)
SEGMENTS = (
    scored_segment(0.0, 2.0, "one two", "eins zwei", "eins zwei"),
    scored_segment(2.0, 2.0, "three", "drei", "drei"),
)


def talk(audio: Path | None) -> Talk:
    segments = tuple(
        Segment(one.offset, one.duration, one.source, targets={"de": Target(one.reference)})
        for one in SEGMENTS
    )
    labels = {"phonemes": (Word("w", 0.0, 0.1),)}
    return Talk("talk", audio, 4.0, "en", segments, labels=labels)


def run(folder: Path, system: str, audio: Path | None) -> Path:
    row = Row(
        system,
        None,
        data="minitalks",
        split="tst",
        source_language="en",
        target_language="de",
        scores={"BLEU": 50.0},
        signatures={},
        instances="instances/00/instances.log",
        settings=RowSettings(convention="cumulative", talks=1, segments=2),
    )
    offline = replace(row, kind="ceiling", instances="instances/01/instances.log")
    log = folder / row.instances
    StreamStore(log.parent).append(INSTANCE)
    times = [(1.0, 1.0), (2.0,)]
    scored = [
        TimedSegment(
            "talk",
            one.offset,
            one.duration,
            one.reference,
            one.hypothesis,
            delays,
            elapsed=(),
            stream_delays=delays,
            stream_elapsed=(),
            stream_length=one.duration,
            recording_end=4.0 - one.offset,
        )
        for one, delays in zip(SEGMENTS, times, strict=True)
    ]
    talks = [talk(audio)]
    found = segments_of(talks, scored, language=language("de"), rules=find_rules("zoo"))
    write_segment_files(log.parent, talks, found)
    write_talks(folder, [talk(audio)])
    write_rows([row, offline], folder / "results.json")
    return folder


def test_joined_rows_have_the_streams_of_their_runs(tmp_path: Path) -> None:
    audio = tmp_path / "talk.wav"
    audio.touch()
    runs = find_runs([run(tmp_path / "a", "a", audio), run(tmp_path / "b", "b", audio)])
    folder = tmp_path / "joined" / "page"
    folder.mkdir(parents=True)
    rows = joined_rows(runs, folder)
    first, second = finished_streams(rows, folder)
    assert [rows[stream.row].system for stream in (first, second)] == ["a", "b"]
    assert first.segments == second.segments
    texts = [(one.source, one.reference, one.hypothesis) for one in SEGMENTS]
    assert [(one.source, one.reference, one.hypothesis) for one in first.segments] == texts
    assert first.talk == replace(talk(audio), labels={})
    # elapsed times follow the convention of the row
    assert first.instance.elapsed == pytest.approx((1.5, 1.5, 4.75))
    assert first.instance.units == INSTANCE.units


def test_a_page_needs_no_audio(tmp_path: Path) -> None:
    folder = run(tmp_path / "a", "a", tmp_path / "lost.wav")
    rows = joined_rows(find_runs([folder, run(tmp_path / "b", "b", None)]), tmp_path)
    streams = list(finished_streams(rows, tmp_path))
    assert [stream.talk.audio for stream in streams] == [None, None]
    write_report(tmp_path / "page.html", rows=rows, streams=streams, title="t", context={})
    assert '"marks":["==","="]' in (tmp_path / "page.html").read_text()


def test_segments_in_another_order_are_damaged(tmp_path: Path) -> None:
    folder = run(tmp_path / "a", "a", None)
    segments = folder / "instances" / "00" / "segments.jsonl"
    first, second = map(json.loads, segments.read_text().splitlines())
    first["offset"], second["offset"] = second["offset"], first["offset"]
    segments.write_text("".join(json.dumps(one) + "\n" for one in (first, second)))
    rows = joined_rows(find_runs([folder]), tmp_path)
    with pytest.raises(ZooError, match=r"segment 1 of talk 'talk' begins at .* before the segment"):
        list(finished_streams(rows, tmp_path))


@pytest.mark.parametrize(
    ("kept", "sentence"),
    [
        ([1], "it has segment 1 of talk 'talk' where segment 0 belongs"),
        ([0, 0, 1], "it has segment 0 of talk 'talk' where segment 1 belongs"),
        ([0], "it has 1 segments, its row 2"),
    ],
)
def test_segments_with_a_missing_or_doubled_line_are_damaged(
    kept: list[int], sentence: str, tmp_path: Path
) -> None:
    folder = run(tmp_path / "a", "a", None)
    segments = folder / "instances" / "00" / "segments.jsonl"
    lines = segments.read_text().splitlines(keepends=True)
    segments.write_text("".join(lines[place] for place in kept))
    rows = joined_rows(find_runs([folder]), tmp_path)
    with pytest.raises(ZooError, match=sentence):
        list(finished_streams(rows, tmp_path))


def test_segments_of_a_talk_that_the_run_lacks_are_damaged(tmp_path: Path) -> None:
    folder = run(tmp_path / "a", "a", None)
    segments = folder / "instances" / "00" / "segments.jsonl"
    segments.write_text(segments.read_text().replace('"talk": "talk"', '"talk": "other"'))
    rows = joined_rows(find_runs([folder]), tmp_path)
    with pytest.raises(ZooError, match=r"talk 'other' is not in talks\.jsonl of its run"):
        list(finished_streams(rows, tmp_path))


def test_a_row_without_some_of_its_streams_is_damaged(tmp_path: Path) -> None:
    folder = run(tmp_path / "a", "a", None)
    (folder / "instances" / "00" / "streams.jsonl").write_text("")
    rows = joined_rows(find_runs([folder]), tmp_path)
    with pytest.raises(ZooError, match="00 is damaged: it has 0 streams, its row 1"):
        list(finished_streams(rows, tmp_path))


def test_runs_without_talks_have_no_streams_and_damage_is_one_sentence(tmp_path: Path) -> None:
    folder = run(tmp_path / "a", "a", None)
    rows = joined_rows(find_runs([folder]), tmp_path)
    segments = folder / "instances" / "00" / "segments.jsonl"
    segments.write_text(json.dumps({"talk": "talk"}))
    with pytest.raises(ZooError, match=r"segments\.jsonl is damaged"):
        list(finished_streams(rows, tmp_path))
    (folder / "talks.jsonl").unlink()
    assert list(finished_streams(rows, tmp_path)) == []
