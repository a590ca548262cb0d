"""Every field of every format with values of every kind: a stream or one sentence with its line."""

import json
from pathlib import Path
from typing import Any

import pytest

from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.formats.logs import read_log
from zoo.formats.simuleval import write_log
from zoo.metrics.sentences import score_sentences

DE = language("de")
VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 0.5, 7, 1e308, -1e308, 10**400),
    *("", "x", "\ud800", "eins zwei", [], {}, {"a": 1}, ["\ud800"]),
    *([None, None], [1, 2], ["a", "b"], [-1, -1], [0, 1], [0.0, "1"], [True, False]),
    *([[1, 1]], [[1000, 1], [2000, 1]]),
)
EVENT = {
    "kind": "cut",
    "at": 0.0,
    "chunk": 0,
    "reason": "x",
    "tokens": 1,
    "frames": 2,
    "text": "y",
    "pieces": [[1, 0]],
}
SIMULEVAL = {
    "index": 0,
    "prediction": "eins zwei",
    "delays": [1000.0, 2500.0],
    "elapsed": [1500.0, 3500.0],
    "reference": "eins drei",
    "source": ["a.wav", "samplerate"],
    "source_length": 3000.0,
    "talk": "t",
    "convention": "cumulative",
    "batched": False,
    "text": "eins zwei",
    "chunks": [[1000, 1], [2500, 1]],
    "chunk_of": [0, 1],
    "events": [EVENT],
    "time_to_recording_end": 5000.0,
    "repaired": False,
}
OMNISTEVAL = {
    "index": 5,
    "docid": 1,
    "segid": 2,
    "prediction": "a b",
    "reference": "a",
    "source_length": 900.0,
    "emission_cu": [-100.0, 300.0],
    "emission_ca": [0.5, 400.0],
    "time_to_recording_end": 5000.0,
}
CHUNK = {
    "id": 9,
    "total_audio_processed": 1.0,
    "computation_time": 0.5,
    "generated_tokens": ["a"],
    "deleted_tokens": [],
}
HEAD: dict[str, Any] = {"id": 9, "metadata": {"wav_name": "x/talk.wav"}}
LATER = {**CHUNK, "total_audio_processed": 2.0, "generated_tokens": [], "deleted_tokens": ["a"]}


def variants(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The record, with each field replaced by each value, and without it."""
    replaced = [{**record, key: value} for key in record for value in VALUES]
    return [record, *replaced] + [{k: v for k, v in record.items() if k != key} for key in record]


LOGS: list[tuple[Any, list[list[dict[str, Any]]]]] = [
    ("simuleval", [[one] for one in variants(SIMULEVAL)]),
    ("simuleval", [[{**SIMULEVAL, "events": [event]}] for event in variants(EVENT)]),
    ("omnisteval", [[one] for one in variants(OMNISTEVAL)]),
    ("simulstream", [[one, CHUNK, LATER] for one in variants(HEAD)]),
    ("simulstream", [[{**HEAD, "metadata": one}, CHUNK] for one in variants({"wav_name": "x"})]),
    ("simulstream", [[HEAD, one, LATER] for one in variants(CHUNK)]),
    ("simulstream", [[HEAD, CHUNK, one] for one in variants(LATER)]),
]


@pytest.mark.parametrize(("format", "logs"), LOGS)
def test_what_is_read_can_be_written_and_scored(
    tmp_path: Path, format: Any, logs: list[list[dict[str, Any]]]
) -> None:
    path = tmp_path / "instances.log"
    read = 0
    for records in logs:
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        try:
            streams = read_log(path, language=DE, format=format)
        except ZooError as error:
            sentence = str(error)
            assert "\n" not in sentence
            # the unit of all times is a property of the log, not of a line
            assert "line " in sentence or "milliseconds?" in sentence, (sentence, records)
            continue
        read += 1
        write_log(tmp_path / "written.log", streams)
        read_log(tmp_path / "written.log", language=DE)
        scores = score_sentences(streams, ["eins"] * len(streams), language=DE)
        assert all(abs(score.value or 0) < 1e7 for score in scores.values()), records
    assert 0 < read < len(logs)
