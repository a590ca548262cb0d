"""Output of StreamUni's released inference: emissions and reference segments of each stream."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.formats.test_bad_fields import VALUES
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Target
from zoo.base.types import Instance
from zoo.data.corpora import Recorded
from zoo.formats.logs import read_log, read_segments
from zoo.formats.simuleval import write_log
from zoo.metrics.sentences import score_sentences

DE, ZH = language("de"), language("zh")
START = 160_000  # samples at 16 kHz before the stream
CHUNKS = [
    {
        "seg_begin_time": START,
        "chunk_start_time": START + 16_000,
        "chunk_end_time": START + 48_000,
        "chunk_duration": 32_000,
        "source_text": "One two.",
        "target_text": "Eins zwei.",
    },
    {
        "chunk_start_time": START + 64_000,
        "chunk_end_time": START + 96_000,
        "source_text": "Three.",
        "target_text": "Drei.",
    },
]
EMISSIONS = [
    {"end_time": 2 * 22_050, "translation": "Eins  zwei", "split": "False"},
    {"end_time": 4 * 22_050, "translation": ".", "split": "True"},
    {"end_time": 5 * 22_050, "translation": "", "split": "False"},
    {"end_time": 3 * 22_050, "translation": " Drei. ", "split": "True"},
]
STREAM: dict[str, Any] = {
    "audio_path": "en_de/ted_1.wav",
    "begin_time": START,
    "end_time": START + 96_000,
    "chunks": CHUNKS,
    "inference_translation": EMISSIONS,
}
Change = Callable[[list[Any]], Any]


def log(folder: Path, *streams: Any) -> Path:
    path = folder / "output.json"
    path.write_text(json.dumps(streams, indent=4), encoding="utf-8")
    return path


def recorded(path: Path, **options: str | None) -> Recorded:
    given: dict[str, Any] = {"segments": None, "references": None, **options}
    return Recorded(
        log=str(path), source_language="en", target_language="de", format="streamuni", **given
    )


def test_words_have_the_times_of_their_emissions(tmp_path: Path) -> None:
    second = {**STREAM, "audio_path": "ted_2.wav", "inference_translation": []}
    first, empty = read_log(log(tmp_path, STREAM, second), language=DE, format="streamuni")
    assert first == Instance(
        index=0,
        talk="ted_1",
        source_length=6.0,
        text="Eins zwei . Drei.",
        units=("Eins", "zwei", ".", "Drei."),
        delays=(2.0, 2.0, 4.0, 4.0),  # the clock that was set back to 3 s counts from 4 s on
        elapsed=(),
    )
    assert (empty.index, empty.talk, empty.units) == (1, "ted_2", ())


def test_characters_have_the_times_of_their_emissions(tmp_path: Path) -> None:
    emissions = [
        {"end_time": 22_050, "translation": "你好 AI"},
        {"end_time": 44_100, "translation": "。"},
    ]
    stream = {**STREAM, "inference_translation": emissions}
    [chinese] = read_log(log(tmp_path, stream), language=ZH, format="streamuni")
    assert (chinese.text, chinese.units) == ("你好 AI。", tuple("你好AI。"))
    assert chinese.delays == (1.0, 1.0, 1.0, 1.0, 2.0)


def test_the_references_are_the_segments_of_the_file(tmp_path: Path) -> None:
    path = log(tmp_path, STREAM)
    segments = (
        Segment(1.0, 2.0, "One two.", targets={"de": Target("Eins zwei.")}),
        Segment(4.0, 2.0, "Three.", targets={"de": Target("Drei.")}),
    )
    [talk] = recorded(path).talks("tst")
    assert (talk.name, talk.segments) == ("ted_1", segments)
    (tmp_path / "other.de").write_text("Eins, zwei.\nDrei!\n")
    [talk] = recorded(path, references=str(tmp_path / "other.de")).talks("tst")
    assert [one.targets["de"].text for one in talk.segments] == ["Eins, zwei.", "Drei!"]
    (tmp_path / "other.de").write_text("Eins zwei drei.\n")
    with pytest.raises(ZooError, match=r"output.json has 2 segments but .*other.de has 1 lines"):
        recorded(path, references=str(tmp_path / "other.de")).talks("tst")


def at(*place: Any, value: Any = ...) -> Change:
    """Replace the value of a place, or delete it."""

    def change(streams: list[Any]) -> None:
        node: Any = streams
        for key in place[:-1]:
            node = node[key]
        if value is ...:
            del node[place[-1]]
        else:
            node[place[-1]] = value

    return change


TALK = "output.json, item 1: talk 'ted_1'"
EMISSION = (0, "inference_translation", 1)
CHUNK = (0, "chunks", 1)
REFUSED: dict[str, tuple[Change, str]] = {
    "a text": (at(0, value="x"), "output.json, item 1, is not a JSON object"),
    "no name": (at(0, "audio_path"), "output.json, item 1 has no 'audio_path'"),
    "a name that is a number": (at(0, "audio_path", value=1), "item 1 has 1 for 'audio_path'"),
    "two streams of one name": (
        at(1, "audio_path", value="x/ted_1.flac"),
        "item 2: talk 'ted_1' is in the file twice",
    ),
    "no output": (at(0, "inference_translation"), f"{TALK} has no 'inference_translation'"),
    "output that is a text": (
        at(0, "inference_translation", value="Eins."),
        f"{TALK} has 'Eins.' for 'inference_translation', which must be a list of objects",
    ),
    "no start": (at(0, "begin_time"), f"{TALK} has no 'begin_time'"),
    "no end": (at(0, "end_time"), f"{TALK} has no 'end_time'"),
    "an end before the start": (
        at(0, "end_time", value=START - 16_000),
        f"{TALK} has a source of -1 s; it must be above 0",
    ),
    "no time": (at(*EMISSION, "end_time"), "inference_translation 2 has no 'end_time'"),
    "a time in words": (
        at(*EMISSION, "end_time", value="soon"),
        "inference_translation 2 has 'soon' for 'end_time', which must be a number of at least 0",
    ),
    "a time long after the end": (
        at(*EMISSION, "end_time", value=60 * 22_050),
        f"{TALK} has a delay of 60 s, long after the end of its source",
    ),
    "a translation that is a list": (
        at(*EMISSION, "translation", value=["Drei."]),
        "inference_translation 2 has .* for 'translation', which must be a text",
    ),
    "no segments": (
        at(0, "chunks"),
        f"{TALK} has no 'chunks', its segments with references; name data.segments and data.ref",
    ),
    "a segment without a start": (
        at(*CHUNK, "chunk_start_time"),
        f"{TALK}, chunks 2 has no 'chunk_start_time'",
    ),
    "a segment before the stream": (
        at(*CHUNK, "chunk_start_time", value=0),
        "chunks 2 lasts from sample 0 to 256000 of a stream that starts at 160000",
    ),
    "a reversed segment": (at(*CHUNK, "chunk_end_time", value=START), "chunks 2 lasts from"),
    "no reference": (at(*CHUNK, "target_text"), "chunks 2 has no 'target_text'"),
    "a blank reference": (at(*CHUNK, "target_text", value=" "), "chunks 2 has a blank 'target_te"),
    "a transcript that is a number": (
        at(*CHUNK, "source_text", value=3),
        "chunks 2 has 3 for 'source_text'",
    ),
}


@pytest.mark.parametrize("damage", REFUSED)
def test_a_damaged_file_is_refused(damage: str, tmp_path: Path) -> None:
    change, message = REFUSED[damage]
    streams = copy.deepcopy([STREAM, {**STREAM, "audio_path": "ted_2.wav"}])
    change(streams)
    with pytest.raises(ZooError, match=message) as caught:
        recorded(log(tmp_path, *streams)).talks("tst")
    assert "\n" not in str(caught.value)


def test_a_stream_without_segments_is_scored_against_a_list(tmp_path: Path) -> None:
    path = log(tmp_path, {key: STREAM[key] for key in STREAM if key != "chunks"})
    (tmp_path / "list.yaml").write_text("- {offset: 1, duration: 5, wav: ted_1.wav}\n")
    (tmp_path / "list.de").write_text("Eins zwei drei.\n")
    lists = {"segments": str(tmp_path / "list.yaml"), "references": str(tmp_path / "list.de")}
    [talk] = recorded(path, **lists).talks("tst")
    assert talk.segments[0].targets["de"].text == "Eins zwei drei."
    assert len(read_log(path, language=DE, format="streamuni")) == 1


def variants(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The record with each field replaced by each value."""
    return [{**record, key: value} for key in record for value in VALUES]


def test_what_is_read_can_be_written_and_scored(tmp_path: Path) -> None:
    emissions = [{**STREAM, "inference_translation": [one]} for one in variants(EMISSIONS[0])]
    chunks = [{**STREAM, "chunks": [one]} for one in variants(CHUNKS[0])]
    read, sentences = 0, []
    for stream in (*variants(STREAM), *emissions, *chunks):
        path = log(tmp_path, stream)
        try:
            streams = read_log(path, language=DE, format="streamuni")
            read_segments(path, language=DE, format="streamuni")
        except ZooError as error:
            sentences.append(str(error))
            continue
        read += 1
        write_log(tmp_path / "written.log", streams)
        read_log(tmp_path / "written.log", language=DE)
        scores = score_sentences(streams, ["eins"] * len(streams), language=DE)
        assert all(abs(score.value or 0) < 1e7 for score in scores.values())
    assert read > 0
    # the unit of all times and the size of a number belong to the file, not to an item
    named = [one for one in sentences if "milliseconds?" not in one and "digits" not in one]
    assert named
    assert all("item 1" in one for one in named)
    assert all("\n" not in one for one in sentences)
