"""Logs of other tools and our own."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest

from zoo.base.errors import ZooError
from zoo.base.languages import Language, language
from zoo.base.types import ChunkTime, Instance, StreamEvent
from zoo.formats.logs import read_log
from zoo.formats.simuleval import write_log
from zoo.streaming.elapsed import with_convention

EVENTS = (
    StreamEvent("transcript", 0.75, chunk=0, text="one"),
    StreamEvent("truncation", 1.5, chunk=2, reason="silence", tokens=3, frames=20),
    StreamEvent("cut", 0.0, chunk=2, tokens=1),
)

DE, ZH = language("de"), language("zh")
RECORD = {
    "index": 0,
    "prediction": "eins zwei",
    "delays": [1000.0, 2500.0],
    "elapsed": [1500.0, 3500.0],
    "prediction_length": 2,
    "reference": "eins drei",
    "source": ["wavs/2022.acl-long.110.wav", "samplerate: 16000 Hz"],
    "source_length": 3000.0,
}


def log(folder: Path, *records: Any) -> Path:
    path = folder / "instances.log"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def changed(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in {**RECORD, **values}.items() if value is not ...}


def chunk(
    second: float, tokens: list[str], deleted: list[str] | None = None, client: int = 9
) -> dict[str, Any]:
    return {
        "id": client,
        "total_audio_processed": second,
        "computation_time": 0.5,
        "generated_tokens": tokens,
        "deleted_tokens": deleted or [],
    }


HEAD = {"id": 9, "metadata": {"wav_name": "x/talk.one.wav"}}


def test_simuleval_line(tmp_path: Path) -> None:
    (stream,) = read_log(log(tmp_path, RECORD), language=DE)
    assert stream == Instance(
        index=0,
        talk="2022.acl-long.110",
        source_length=3.0,
        text="eins zwei",
        units=("eins", "zwei"),
        delays=(1.0, 2.5),
        elapsed=(1.5, 3.5),
        reference="eins drei",
        convention="cumulative",
    )


@pytest.mark.parametrize("elapsed", [..., [], None, [0, 0]])
def test_log_without_elapsed_times(tmp_path: Path, elapsed: object) -> None:
    (stream,) = read_log(log(tmp_path, changed(elapsed=elapsed)), language=DE)
    assert stream.elapsed == ()


def test_spaces_around_and_between_words(tmp_path: Path) -> None:
    (stream,) = read_log(log(tmp_path, changed(prediction=" eins  zwei \n")), language=DE)
    assert stream.units == ("eins", "zwei")
    assert stream.text == "eins  zwei"


@pytest.mark.parametrize(
    ("prediction", "delays", "kept"),
    [
        ("你好AI", 4, (0, 1, 2, 3)),
        ("你好 AI", 5, (0, 1, 3, 4)),
        ("你好 AI", 4, (0, 1, 2, 3)),
        ("你好AI ", 4, (0, 1, 2, 3)),
    ],
)
def test_characters_with_and_without_delays_for_spaces(
    tmp_path: Path, prediction: str, delays: int, kept: tuple[int, ...]
) -> None:
    times = [1000.0 * (index + 1) for index in range(delays)]
    (stream,) = read_log(
        log(tmp_path, changed(prediction=prediction, delays=times, elapsed=times)), language=ZH
    )
    assert stream.units == tuple("你好AI")
    assert stream.delays == tuple(position + 1.0 for position in kept)


def test_order_of_index_and_names(tmp_path: Path) -> None:
    records = [changed(index=index, source=f"talk{index}.mp3") for index in (2, 0, 1)]
    assert [stream.talk for stream in read_log(log(tmp_path, *records), language=DE)] == [
        "talk0",
        "talk1",
        "talk2",
    ]
    (text_input,) = read_log(log(tmp_path, changed(index=7, source="one two .")), language=DE)
    assert text_input.talk == "7"


def test_empty_prediction(tmp_path: Path) -> None:
    (stream,) = read_log(log(tmp_path, changed(prediction="", delays=[], elapsed=[])), language=DE)
    assert stream.units == ()


def event(**values: Any) -> list[Any]:
    """The record with one event."""
    events = [{"kind": "cut", "at": 0.0, "chunk": 0, **values}]
    return [changed(events=events, chunks=[[3000, 1]], chunk_of=[0, 0])]


NO_LOG = "line 1, is not a log in the format 'simuleval'"
NO_NUMBER = "line 2: talk 'talk.one' has .* at least 0 and finite"
REFUSED: list[tuple[Any, list[Any] | str | bytes, str]] = [  # format, records or content, sentence
    ("simuleval", [changed(delays=[1.0])], r"'2022.acl-long.110' has 2 words but 1 delays"),
    ("simuleval", [changed(elapsed=[1.0])], "2 delays but 1 elapsed"),
    ("simuleval", [changed(source_length=...)], "no 'source_length'"),
    ("simuleval", [changed(delays=...)], "no 'delays'"),
    ("simuleval", [changed(delays=["x", "y"])], "not a list of numbers"),
    ("simuleval", [changed(prediction=None)], "not text"),
    ("simuleval", [changed(source_length="long")], NO_LOG),
    ("simuleval", [changed(index="first")], NO_LOG),
    ("simuleval", [changed(chunks=[1], chunk_of=[0, 0])], NO_LOG),
    ("simuleval", [changed(chunks=[[1000, 1]], chunk_of=[1, 1])], "line 1: talk .* chunks that it"),
    ("simuleval", [RECORD, RECORD], "index 0 twice"),
    ("simuleval", [changed(intervals=[[0, 1]])], "the wave file eins zwei, which is missing"),
    ("simuleval", [[1, 2]], "line 1, is not a JSON object"),
    ("simuleval", [], "is empty"),
    ("simuleval", event(chunk=1), "has events of chunks that it lacks"),
    ("simuleval", event(chunk=-1), "has events of chunks that it lacks"),
    ("simuleval", event(kind="gone"), "has an event 'gone'"),
    ("simuleval", event(tokens="1"), "are no counts"),
    ("simuleval", event(text=1), "has 1 where a text must be"),
    ("simuleval", event(colour=1), NO_LOG),
    ("simuleval", '{"index": 0\n', "line 1, is not JSON"),
    ("simuleval", b"\xff\xfe\x00", "not a text file"),
    ("simuleval", '{"delays": [NaN]}\n', "line 1, is not JSON: NaN is no number"),
    ("simuleval", '{"delays": [-Infinity]}\n', "line 1, is not JSON: -Infinity is no number"),
    ("simuleval", "[" * 100_000 + "]" * 100_000 + "\n", "line 1, is not JSON: nested too deeply"),
    ("simuleval", "9" * 5000 + "\n", "line 1, is not JSON"),
    ("csv", [RECORD], "simuleval, omnisteval, simulstream, streamuni"),
    ("streamuni", '[{"index": 0\n', "line 2, is not JSON"),
    ("streamuni", [RECORD], "is not a JSON list"),
    ("streamuni", "[]", "is empty"),
    ("streamuni", "[1]", "item 1, is not a JSON object"),
    ("streamuni", "[NaN]", "is not JSON: NaN is no number"),
    ("streamuni", "[" * 100_000, "is not JSON: nested too deeply"),
    ("streamuni", '[{"audio_path": "\\ud800"}]', "item 1, has half of a character"),
    ("streamuni", b"\xff\xfe\x00", "not a text file"),
    ("omnisteval", [RECORD], r"segment 0-0 has no 'emission_cu'; is this an OmniSTEval"),
    ("simulstream", [RECORD], "has no line with metadata; is this a simulstream log"),
    ("simulstream", [{"id": 0, "metadata": {}}], "is not a log in the format 'simulstream'"),
    ("simulstream", [HEAD, chunk(2.0, ["a"]), HEAD], "'talk.one' twice"),
    ("simulstream", [HEAD, {**HEAD, "id": 10}], "'talk.one' twice"),
    ("simulstream", [HEAD, chunk(4.0, ["a"]), chunk(2.0, ["b"])], "goes back in time"),
    ("simulstream", [HEAD, chunk(4.0, ["a"]), chunk(5.0, [], ["b"])], "deletes tokens at 5 s"),
    ("simulstream", [chunk(4.0, ["a"])], "client 9 before its metadata"),
    *(
        ("simulstream", [HEAD, {**chunk(1.0, ["eins"]), key: value}], NO_NUMBER)
        for key in ("total_audio_processed", "computation_time")
        for value in (-1.0, 1e400)
    ),
]


@pytest.mark.parametrize(("format", "content", "message"), REFUSED)
def test_errors_name_their_cause(
    tmp_path: Path, format: Any, content: list[Any] | str | bytes, message: str
) -> None:
    path = log(tmp_path, *(content if isinstance(content, list) else []))
    if isinstance(content, list):
        path.write_text(path.read_text().replace("Infinity", "1e400"))
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ZooError, match=message):
        read_log(path, language=DE, format=format)


def test_a_missing_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="There is no file"):
        read_log(tmp_path / "none.log", language=DE)


def simulation(**values: Any) -> Instance:
    chunks = (ChunkTime(1.0, 0.5), ChunkTime(2.0, 2.0), ChunkTime(3.0, 0.125))
    stream = Instance(
        4,
        "a talk",
        3.0,
        "eins zwei",
        ("eins", "zwei"),
        (1.0, 3.0),
        (1.5, 4.125),
        "ref",
        chunk_indices=(0, 2),
        chunks=chunks,
    )
    return replace(stream, **values)


@pytest.mark.parametrize(
    "stream",
    [
        simulation(),
        simulation(batched=True),
        simulation(events=EVENTS),
        simulation(
            text="你好 AI",
            units=tuple("你好AI"),
            unit="char",
            delays=(1.0, 1.0, 3.0, 3.0),
            elapsed=(1.5, 1.5, 4.125, 4.125),
            chunk_indices=(0, 0, 2, 2),
        ),
        simulation(text="", units=(), delays=(), elapsed=(), chunk_indices=()),
        simulation(chunks=(), chunk_indices=(), convention="cumulative"),
    ],
)
def test_our_log_is_read_back(tmp_path: Path, stream: Instance) -> None:
    write_log(tmp_path / "instances.log", [stream])
    assert read_log(tmp_path / "instances.log", language=ZH if stream.unit == "char" else DE) == [
        stream
    ]


def test_our_log_is_simulevals(tmp_path: Path) -> None:
    write_log(tmp_path / "instances.log", [simulation()])
    record = json.loads((tmp_path / "instances.log").read_text(encoding="utf-8"))
    assert record["delays"] == [1000.0, 3000.0]
    assert record["elapsed"] == [1500.0, 5625.0], (
        "SimulEval's are cumulative: audio read and all compute so far"
    )
    assert record["prediction"] == "eins zwei"
    assert record["prediction_length"] == 2
    assert record["source"][0] == "a talk.wav"
    assert record["source_length"] == 3000.0
    assert with_convention(simulation(), "cumulative").elapsed == (1.5, 5.625)


def test_events_are_compact_and_a_log_without_them_has_none(tmp_path: Path) -> None:
    write_log(tmp_path / "instances.log", [simulation(events=EVENTS)])
    record = json.loads((tmp_path / "instances.log").read_text(encoding="utf-8"))
    assert record["events"][0] == {"kind": "transcript", "at": 750.0, "chunk": 0, "text": "one"}
    assert record["events"][2] == {"kind": "cut", "at": 0.0, "chunk": 2, "tokens": 1}
    write_log(tmp_path / "instances.log", [simulation()])
    assert "events" not in json.loads((tmp_path / "instances.log").read_text(encoding="utf-8"))


def test_omnisteval_segments(tmp_path: Path) -> None:
    record = {
        "index": 5,
        "docid": 1,
        "segid": 2,
        "prediction": "a b",
        "reference": "a",
        "source_length": 900.0,
    }
    (stream,) = read_log(
        log(tmp_path, {**record, "emission_cu": [-100.0, 300.0], "emission_ca": [0.5, 400.0]}),
        language=DE,
        format="omnisteval",
    )
    assert (stream.talk, stream.delays, stream.elapsed) == ("1-2", (-0.1, 0.3), (0.0005, 0.4))
    (empty,) = read_log(
        log(tmp_path, {**record, "prediction": ""}), language=DE, format="omnisteval"
    )
    assert empty.units == ()


def test_simulstream_retranslation(tmp_path: Path) -> None:
    lines = [
        {"model_loading_time": 1.0},
        HEAD,
        chunk(2.0, ["▁Hal", "lo", "▁Wel"]),
        chunk(4.0, ["t", "▁wie"]),  # the last word grows: it is written now
        chunk(6.0, ["▁was", "."], ["▁wie"]),
    ]
    (stream,) = read_log(log(tmp_path, *lines), language=DE, format="simulstream")
    assert stream.talk == "talk.one"
    assert stream.units == ("Hallo", "Welt", "was.")
    assert stream.delays == (2.0, 4.0, 6.0)
    assert stream.elapsed == (2.5, 4.5, 6.5)
    assert stream.source_length == 6.0
    assert [time.compute for time in stream.chunks] == [0.5, 0.5, 0.5]


def test_simulstream_takes_everything_back(tmp_path: Path) -> None:
    lines = [HEAD, chunk(2.0, ["a", "b"]), chunk(4.0, [], ["a", "b"]), chunk(6.0, ["c"])]
    (stream,) = read_log(log(tmp_path, *lines), language=DE, format="simulstream")
    assert (stream.units, stream.delays) == (("c",), (6.0,))


def test_simulstream_counts_spaces_between_characters(tmp_path: Path) -> None:
    (stream,) = read_log(
        log(tmp_path, HEAD, chunk(2.0, ["你", " ", "A"])), language=ZH, format="simulstream"
    )
    assert stream.units == ("你", " ", "A")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"source_length": 0}, "a source of 0 s; it must be above 0"),
        ({"source_length": -3000}, "a source of -3 s"),
        ({"source_length": 1e308}, "a source of 1e[+]305 s; it must be above 0 and finite"),
        ({"source_length": 3.0}, "a delay of 2.5 s, long after the end of its source"),
        ({"delays": [1000.0, 9000.0]}, "a delay of 9 s, long after the end of its source"),
        ({"delays": [1000.0, 1e308]}, "a delay of 1e[+]305 s"),
        ({"delays": [2500.0, 1000.0]}, "delays that go back in time, to 1 s"),
        ({"delays": [1000.0, 10**400]}, "a number of 401 digits"),
        ({"delays": [1.0, 1.0], "source_length": 9000}, "after 0.001 s .* are its delays seconds"),
        ({"chunks": [[2000, 1], [1000, 1]], "chunk_of": [0, 1]}, "chunks do not go back in time"),
        ({"chunks": [[1000, -1]], "chunk_of": [0, 0]}, "computation is at least 0"),
        ({"chunks": [[1000, 1]], "chunk_of": [0, -1]}, "units of chunks that it lacks"),
        ({"chunks": [[1000, 1]], "chunk_of": [0]}, "2 units but 1 numbers of chunks"),
        ({"batched": "no"}, "'no' for 'batched'"),
        ({"convention": "mine"}, "the convention 'mine'; it must be one of: queue"),
        ({"reference": ["eins"]}, r"has \['eins'\] where a text must be"),
        ({"prediction": "eins zw\ud800ei"}, "has half of a character"),
        ({"reference": "eins \udfff"}, "has half of a character"),
        ({"talk": "t\ud800"}, "has half of a character"),
    ],
)
def test_impossible_streams_are_refused(
    tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ZooError, match=message) as error:
        read_log(log(tmp_path, {**RECORD, "index": 1}, changed(**values)), language=DE)
    text = str(error.value)
    assert "\n" not in text
    assert "line 2" in text or "format" in text


def test_a_mark_of_the_byte_order_is_no_text(tmp_path: Path) -> None:
    path = log(tmp_path, RECORD)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_log(path, language=DE)) == 1


PIECES = {
    "marked": ("▁", "a", "▁b", "c▁", "▁▁d"),
    "decoded": (" ", "a", "b c", "d ", "  e", "f"),
    "words": ("a", "b c", "d", "e"),
}


def retranslated(chunks: int, form: str) -> list[dict[str, Any]]:
    """Chunks that each take the last token back and emit three, with odd spaces among them."""
    pieces = PIECES[form]
    random = Random(chunks)
    lines, tokens = [], list[str]()
    for number in range(chunks):
        deleted = tokens[-random.randint(1, 3) :] if number % 2 else []
        tokens = tokens[: len(tokens) - len(deleted)]
        new = [random.choice(pieces) for _ in range(random.randint(0, 3))]
        tokens += new
        lines.append(chunk(float(number), new, deleted))
    return lines


@pytest.mark.parametrize("form", PIECES)
@pytest.mark.parametrize("target", [DE, ZH])
def test_units_of_simulstream_are_those_of_the_whole_text(
    tmp_path: Path, form: str, target: Language
) -> None:
    """The tool splits the whole text after every chunk: new units, and a changed last word."""
    for chunks in range(1, 40):
        lines = retranslated(chunks, form)
        emitted = [token for line in lines for token in line["generated_tokens"]]
        marked_text = any("▁" in token or token != token.strip() for token in emitted)
        tokens, units, changed = list[str](), list[str](), list[float]()
        for line in lines:
            for part in ("deleted_tokens", "generated_tokens"):
                given = line[part]
                tokens = tokens[: len(tokens) - len(given)] if part[0] == "d" else tokens + given
                joined = "".join(tokens).replace("▁", " ").strip()
                text = joined if marked_text else target.join(tokens)
                now = list(text) if target is ZH else [word for word in text.split(" ") if word]
                kept = min(len(units), len(now))
                at = line["total_audio_processed"]
                changed = changed[:kept] + [at] * (len(now) - kept)
                if target is DE and kept and now[kept - 1] != units[kept - 1]:
                    changed[kept - 1] = at
                units = now
        (stream,) = read_log(
            log(tmp_path, HEAD, *lines, chunk(100.0, [])), language=target, format="simulstream"
        )
        assert stream.units == tuple(units)
        assert stream.delays == tuple(changed)


def test_a_simulstream_log_is_read_in_linear_time(tmp_path: Path) -> None:
    """Lines of Python that run, not seconds, so that the count is the same on every machine."""

    def lines_run(chunks: int) -> int:
        lines = [chunk(float(number), ["▁ein", "s"]) for number in range(chunks)]
        path = log(tmp_path, HEAD, *lines)
        count = 0

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal count
            count += event == "line" and "simulstream" in frame.f_code.co_filename
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            read_log(path, language=DE, format="simulstream")
        finally:
            sys.settrace(before)
        return count

    assert lines_run(400) < 2.2 * lines_run(200)
