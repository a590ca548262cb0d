"""Files whose sizes, places and numbers attack whoever reads them end in one sentence."""

import gzip
import json
import os
import struct
import tracemalloc
import zipfile
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.fuzz.targets import ROW, finished
from zoo.alignment.times.textgrid import read_textgrid
from zoo.alignment.words.pharaoh import read_links
from zoo.base.disk.parsing import LARGEST_FILE
from zoo.base.disk.tar_members import member_of
from zoo.base.errors import ZooError
from zoo.data.readers.huggingface import HuggingFace
from zoo.data.readers.lhotse import Lhotse
from zoo.data.readers.subtitles import read_srt
from zoo.extras.fbk_conformer.data_files import data_files, read_statistics, vocabulary
from zoo.extras.hibiki.config import read_config
from zoo.extras.voxtral_realtime.tekken import read_tekken
from zoo.formats.text import LARGEST, LONGEST_LINE
from zoo.runs.rows.join import find_runs
from zoo.runs.rows.row import log_in, read_rows
from zoo.runs.rows.segments import read_segments
from zoo.runs.rows.store import StreamStore
from zoo.runs.rows.training import read_curve

INFINITE = float("inf")


def refused(read: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ZooError, match=sentence) as raised:
        read()
    assert "\n" not in str(raised.value)


HIBIKI: dict[str, Any] = {
    "dep_q": 2,
    "n_q": 4,
    "delays": [0, 1, 1, 1, 1],
    "hidden_scale": 4.0,
    "context": 10,
    "dim": 8,
    "num_layers": 1,
    "num_heads": 2,
    "positional_embedding": "rope",
    "card": 10,
    "depformer_dim": 8,
    "depformer_num_layers": 1,
    "depformer_num_heads": 2,
    "text_card": 10,
    "gating": "silu",
    "norm": "rms_norm_f32",
    "depformer_pos_emb": "none",
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delays", [0, 1, 1, 1, INFINITE]),
        ("hidden_scale", INFINITE),
        ("hidden_scale", 1e308),
        ("kv_repeat", 0),
        ("kv_repeat", -1),
        ("depformer_kv_repeat", INFINITE),
        ("depformer_weights_per_step_schedule", [INFINITE, 0]),
        ("depformer_weights_per_step_schedule", [10**9, 0]),
        ("depformer_dim_feedforward", INFINITE),
        ("existing_text_padding_id", INFINITE),
        ("text_card", 10**12),
        ("dim", 10**308),
    ],
)
def test_numbers_of_a_hibiki(key: str, value: object, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(HIBIKI))
    assert read_config(tmp_path).temporal.width == 8
    (tmp_path / "config.json").write_text(json.dumps({**HIBIKI, key: value}))
    refused(lambda: read_config(tmp_path), "is no description of a Hibiki")


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("audio", "transcription_delay_ms", INFINITE),
        ("audio", "streaming_n_left_pad_tokens", INFINITE),
        ("audio", "streaming_n_left_pad_tokens", 10**12),
        ("config", "default_num_special_tokens", 10**9),
        ("config", "default_num_special_tokens", -5),
        ("config", "default_vocab_size", -3),
        ("special_tokens", 0, {"token_str": "<s>", "rank": INFINITE}),
    ],
)
def test_numbers_of_a_tekken(part: str, key: Any, value: object, tmp_path: Path) -> None:
    content: dict[str, Any] = {
        "special_tokens": [
            {"token_str": name, "rank": rank}
            for rank, name in enumerate(["<s>", "[STREAMING_PAD]"])
        ],
        "config": {"default_num_special_tokens": 2, "default_vocab_size": 3},
        "vocab": [{"token_bytes": b64encode(b"a").decode()}],
        "audio": {
            "transcription_format": "streaming",
            "sampling_rate": 16000,
            "frame_rate": 12.5,
            "transcription_delay_ms": 480,
        },
    }
    (tmp_path / "tekken.json").write_text(json.dumps(content))
    assert read_tekken(tmp_path, "x").delay == 6
    content[part][key] = value
    (tmp_path / "tekken.json").write_text(json.dumps(content))
    refused(lambda: read_tekken(tmp_path, "x"), "is damaged")


@pytest.mark.parametrize(
    "line",
    ["bpe_tokenizer: a", "global_cmvn: [1]", "transforms: [1]", "transforms: {'*': 5}"],
)
def test_parts_of_a_configuration_of_fairseq(line: str, tmp_path: Path) -> None:
    tokenizer = "" if "bpe" in line else "bpe_tokenizer: {sentencepiece_model: v}\n"
    (tmp_path / "c.yaml").write_text(f"vocab_filename: v\n{tokenizer}{line}\n")
    (tmp_path / "v").write_text("a 1\n")
    refused(lambda: data_files(tmp_path / "c.yaml", {}), "must be a mapping|are supported")


def array(shape: str, data: bytes = b"") -> bytes:
    """A file of NumPy with this shape in its header."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    "content", [array("(1000000000000000,)"), array("(4194304,)", bytes(1 << 24))]
)
def test_statistics_larger_than_features(content: bytes, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as file:
        for name in ("mean", "std"):
            file.writestr(f"{name}.npy", content)
    refused(lambda: read_statistics(tmp_path / "a.npz"), "does not contain the arrays")


SAMPLES: dict[str, tuple[Callable[[Path], object], int]] = {
    "a pipe": (os.mkfifo, 4),
    "a header of petabytes": (lambda path: path.write_bytes(array("(1000000000000000,)")), 4),
    "more samples than pieces": (lambda path: np.save(path, np.zeros(5, np.float32)), 4),
    "two dimensions": (lambda path: np.save(path, np.zeros((4, 4), np.float32)), 4),
    "another type": (lambda path: np.save(path, np.zeros(4)), 4),
    "a negative length": (lambda path: np.save(path, np.zeros(4, np.float32)), -5),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_samples_of_a_stream(kind: str, tmp_path: Path) -> None:
    write, length = SAMPLES[kind]
    piece = {"length": length, "delay": 1.0, "elapsed": 1.0, "chunk": 0, "text": "a"}
    line = json.dumps({**finished(), "speech": [piece]})
    (tmp_path / "streams.jsonl").write_text(f"{line}\n")
    (tmp_path / "samples").mkdir()
    write(tmp_path / "samples" / "00000.npy")
    refused(lambda: StreamStore(tmp_path).read(), "is damaged|is a pipe")


READERS: dict[str, Callable[[Path], object]] = {
    "a.TextGrid": lambda path: read_textgrid(path, tier="words"),
    "a.links": read_links,
    "tekken.json": lambda path: read_tekken(path.parent, "x"),
    "config.yaml": lambda path: data_files(path, {}),
    "dict.txt": vocabulary,
    "streams.jsonl": lambda path: StreamStore(path.parent).read(),
    "metrics.csv": read_curve,
    "results.json": read_rows,
    "segments.jsonl": lambda path: read_segments(path, needed_by="a test"),
}


@pytest.mark.parametrize("name", READERS)
def test_a_sparse_file(name: str, tmp_path: Path) -> None:
    """One of terabytes takes no space on the disk, and its zeros would fill the memory."""
    with (tmp_path / name).open("wb") as file:
        file.truncate(2 * LARGEST)
    tracemalloc.start()
    try:
        refused(lambda: READERS[name](tmp_path / name), name)
        assert tracemalloc.get_traced_memory()[1] < 3 * LARGEST_FILE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["a.TextGrid", "config.yaml", "dict.txt", "metrics.csv"])
def test_a_pipe(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    refused(lambda: READERS[name](tmp_path / name), "is a pipe")


def test_logged_names_that_control_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_bytes(b"step,train/a/loss\r\n1,2\r\n")
    assert read_curve(tmp_path / "metrics.csv") == [{"step": 1, "train/a/loss": 2.0}]
    (tmp_path / "metrics.csv").write_bytes(b"step,train/\x1b[2J/loss\n1,2\n")
    refused(lambda: read_curve(tmp_path / "metrics.csv"), "contains control characters")


def test_the_index_of_an_archive_is_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(bytes(10240))
    os.mkfifo(tmp_path / "a.tar.index.json")
    refused(lambda: member_of(tmp_path / "a.tar" / "x.wav"), "is a pipe")


def test_results_with_two_readings(tmp_path: Path) -> None:
    text = json.dumps([ROW])
    (tmp_path / "results.json").write_text(text)
    assert len(read_rows(tmp_path / "results.json")) == 1
    (tmp_path / "results.json").write_text(text.replace("{", '{"system": "b", ', 1))
    refused(lambda: read_rows(tmp_path / "results.json"), "is no results.json of this version: two")


def test_compressed_cuts_without_lines(tmp_path: Path) -> None:
    """A kilobyte of gzip is a megabyte of zeros."""
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(bytes(2 * LONGEST_LINE)))
    cuts = Lhotse(cuts=str(tmp_path / "a.jsonl.gz"), source_language="en", target_language="de")
    refused(lambda: cuts.talks("x"), "longer than any manifest")


def test_marks_of_style_that_do_not_end(tmp_path: Path) -> None:
    """Each of them ends the search for the end of the one before it."""
    (tmp_path / "a.srt").write_text("00:00:01,000 --> 00:00:02,000\n<b <b <i>x</i>\n")
    assert read_srt(tmp_path / "a.srt")[0].text == "<b <b x"


def data_set(folder: Path, path: str = "a.wav") -> HuggingFace:
    """A data set on disk with three rows of sound."""
    datasets = pytest.importorskip("datasets")
    soundfile.write(folder / "a.wav", np.zeros(1600, np.float32), 16_000)
    audio = {"bytes": (folder / "a.wav").read_bytes(), "path": path}
    columns = {
        "audio": [audio] * 3,
        "transcript": ["hello 0", "hello 1", "hello 2"],
        "name": ["a", "b", "c"],
    }
    datasets.Dataset.from_dict(columns).save_to_disk(str(folder / "set"))
    return HuggingFace(
        folder=str(folder / "set"),
        source_language="en",
        target_language="de",
        transcript="transcript",
        row_name="name",
    )


def table(folder: Path, before: bytes, after: bytes) -> None:
    """Replace bytes of the table."""
    path = folder / "set" / "data-00000-of-00001.arrow"
    content = path.read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, after))


@pytest.mark.parametrize("place", [1 << 30, -(1 << 31), 1])
def test_a_table_with_places_outside_of_it(place: int, tmp_path: Path) -> None:
    """Arrow would read what the memory has there."""
    corpus = data_set(tmp_path)
    offsets = struct.pack("<4i", 0, 7, 14, 21)
    table(tmp_path, offsets, struct.pack("<4i", 0, 7, place, 21))
    refused(lambda: corpus.talks("x"), "cannot be read as a data set")


def test_a_table_with_a_text_that_is_none(tmp_path: Path) -> None:
    corpus = data_set(tmp_path)
    table(tmp_path, b"hello 1", b"hel\xff\xfe 1")
    refused(lambda: corpus.talks("x"), "cannot be read as a data set")


@pytest.mark.parametrize("files", [["../a.arrow"], ["/a.arrow"], ["a.arrow", "a.arrow"], [".."]])
def test_a_state_with_tables_elsewhere(files: list[str], tmp_path: Path) -> None:
    corpus = data_set(tmp_path)
    path = tmp_path / "set" / "state.json"
    state = json.loads(path.read_text())
    state["_data_files"] = [{"filename": name} for name in files]
    path.write_text(json.dumps(state))
    refused(lambda: corpus.talks("x"), "must be one file beside it")


@pytest.mark.parametrize("name", ["a.wa\0v", f"a.{'x' * 300}", "a.yaml"])
def test_the_name_of_stored_audio(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULZOO_CACHE", str(tmp_path / "cache"))
    talks = data_set(tmp_path, name).talks("x")
    assert {talk.audio.suffix for talk in talks if talk.audio} == {""}


@pytest.mark.parametrize("place", ["/other/instances.log", "../other/instances.log"])
def test_a_row_with_a_log_in_another_folder(place: str, tmp_path: Path) -> None:
    """COMET's scores are written beside the log, and a submission contains what is there."""
    (tmp_path / "results.json").write_text(json.dumps([ROW]))
    (run,) = find_runs([tmp_path])
    assert log_in(run.folder, run.rows[0]) == tmp_path / "instances" / "00-a" / "instances.log"
    (tmp_path / "results.json").write_text(json.dumps([{**ROW, "instances": place}]))
    refused(lambda: find_runs([tmp_path]), "names a log in another folder")
