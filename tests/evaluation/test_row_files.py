"""A row's folder holds what the scorers of other tools read beside the log."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target
from zoo.base.types import ChunkTime, Instance, SpeechOutput
from zoo.formats.logs import read_log
from zoo.formats.references import read_spans, write_spans
from zoo.formats.simulstream import marked_tokens
from zoo.runs.rows.files import write_files

SEGMENTS = (
    Segment(0.1, 1.2000000000000002, "one", targets={"de": Target("eins")}),
    Segment(2.5, 1.0, "two", targets={"de": Target("zwei")}),
)
TALK = Talk('a "b": c.d', None, 4.0, "en", SEGMENTS)
STREAM = Instance(
    index=0,
    talk=TALK.name,
    source_length=4.0,
    text="Guten Tag,  Welt",
    units=("Guten", "Tag,", "Welt"),
    delays=(2.0, 2.0, 4.0),
    elapsed=(2.5, 2.5, 4.75),
    chunk_indices=(1, 1, 3),
    chunks=tuple(ChunkTime(float(end), 0.5 + 0.0625 * end) for end in (1, 2, 3, 4)),
)
GERMAN = language("de")


def written(folder: Path, instance: Instance) -> Path:
    write_files(folder / "instances.log", [instance], [TALK], [])
    return folder / "simulstream.jsonl"


def test_simulstreams_log_has_the_words_and_chunks_of_a_stream(tmp_path: Path) -> None:
    path = written(tmp_path, STREAM)
    [read] = read_log(path, language=GERMAN, format="simulstream")
    assert (read.talk, read.units, read.delays) == (STREAM.talk, STREAM.units, STREAM.delays)
    assert (read.chunks, read.chunk_indices) == (STREAM.chunks, STREAM.chunk_indices)
    config = yaml.safe_load((tmp_path / "simulstream.yaml").read_text())
    assert config == {"detokenizer_type": "simuleval", "latency_unit": "spm"}


def test_characters_keep_the_space_between_foreign_words(tmp_path: Path) -> None:
    units = tuple("ABC你")
    stream = replace(
        STREAM,
        text="AB C你",
        units=units,
        unit="char",
        delays=(1.0, 1.0, 2.0, 4.0),
        elapsed=(),
        chunk_indices=(0, 0, 1, 3),
    )
    [read] = read_log(written(tmp_path, stream), language=language("zh"), format="simulstream")
    assert (read.text, read.units) == ("AB C你", ("A", "B", " ", "C", "你"))
    assert read.delays == (1.0, 1.0, 2.0, 2.0, 4.0)


def test_an_oracle_has_a_chunk_per_time_and_a_log_without_chunk_times_no_file(
    tmp_path: Path,
) -> None:
    oracle = replace(STREAM, elapsed=STREAM.delays, chunks=(), chunk_indices=(), source_length=5.0)
    [read] = read_log(written(tmp_path, oracle), language=GERMAN, format="simulstream")
    assert (read.units, read.delays) == (oracle.units, oracle.delays)
    assert read.chunks == tuple(ChunkTime(end, 0.0) for end in (2.0, 4.0, 5.0))

    recorded = replace(oracle, elapsed=STREAM.elapsed)
    (tmp_path / "recorded").mkdir()
    assert not written(tmp_path / "recorded", recorded).exists()


@pytest.mark.parametrize("speech", [False, True])
def test_simulevals_type_of_output_is_beside_each_log(tmp_path: Path, speech: bool) -> None:
    piece = SpeechOutput(torch.zeros(1600), 2.0, 2.5, 1, "Guten")
    written(tmp_path, replace(STREAM, speech=(piece,) if speech else ()))
    assert yaml.safe_load((tmp_path / "config.yaml").read_text()) == {
        "source_type": "speech",
        "target_type": "text",
    }
    beside = tmp_path / "speech" / "config.yaml"
    assert beside.exists() == speech
    if speech:
        assert yaml.safe_load(beside.read_text())["target_type"] == "speech"


def test_places_of_segments_are_read_back_exactly(tmp_path: Path) -> None:
    write_spans(tmp_path / "segments.yaml", [TALK])
    spans = read_spans(tmp_path / "segments.yaml")
    assert [(span.wav, span.offset, span.duration) for span in spans] == [
        ('a "b": c.d.wav', one.offset, one.duration) for one in SEGMENTS
    ]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Guten Tag", ["Guten", "▁Tag"]),
        (" ist \n gut", ["▁ist", "▁gut"]),
        ("gut ", ["gut", "▁"]),
        ("你好", ["你好"]),
        ("", []),
    ],
)
def test_a_mark_in_place_of_white_space_begins_a_token(text: str, tokens: list[str]) -> None:
    assert marked_tokens(text) == tokens
