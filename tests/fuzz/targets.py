"""What the fuzzer calls, and the examples that each call receives.

A target returns for a legal example and raises ZooError for any other; every other outcome is a
crash.
"""

import io
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
import yaml
from hypothesis import strategies as st
from omegaconf import OmegaConf, open_dict
from safetensors.torch import save
from transformers import WhisperConfig, WhisperTokenizer

from tests.fixtures import tiny_checkpoints
from tests.formats.test_bad_fields import CHUNK, HEAD, OMNISTEVAL, SIMULEVAL
from tests.fuzz.documents import (
    compare_settings,
    compare_yaml,
    settings_files,
    yaml_texts,
)
from tests.fuzz.strategies import LEAVES, TEXTS, changed, damaged, lines, paths
from zoo.backbones.pretrained.loading import load_part
from zoo.backbones.pretrained.weights import open_tensors
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.kinds import TARGET
from zoo.base.languages import language
from zoo.base.machine.launcher import place
from zoo.config import CONF, Config, build, compose
from zoo.config.records import record_of
from zoo.data.corpora import Aligned
from zoo.extras.chat_server import answers
from zoo.extras.fbk_conformer.released import read_checkpoint as read_fairseq
from zoo.formats.logs import read_log
from zoo.formats.references import read_references
from zoo.runs.rows.join import find_runs, joined_rows
from zoo.runs.rows.store import StreamStore
from zoo.training.writing import read_file

RATE = 16_000
DE = language("de")
TALK = {
    "version": 1,
    "name": "t",
    "audio": "t.wav",
    "offset": 0.0,
    "duration": 3.5,
    "source_language": "en",
    "voice": "v",
    "segments": [
        {
            "offset": 1.0,
            "duration": 0.75,
            "source": "Good cat.",
            "words": [["Good", 1.0, 1.25], ["cat.", 1.25, 1.75]],
            "targets": {
                "de": {
                    "text": "Gute Katze.",
                    "words": ["Gute", "Katze."],
                    "alignment": [[0], [1]],
                    "needs": [[0], []],
                }
            },
        }
    ],
    "labels": {"phonemes": [["g", 1.0, 1.1]]},
}
ROW = {
    "system": "a",
    "knob": {"name": "m", "value": 1},
    "data": "mustc",
    "split": "tst",
    "source_language": "en",
    "target_language": "de",
    "scores": {"BLEU": 10.0, "StreamLAAL": None},
    "signatures": {"BLEU": "x"},
    "flags": [],
    "instances": "instances/00-a/instances.log",
    "settings": {},
    "kind": "system",
}
SPANS = """- {wav: a.wav, offset: 0.5, duration: 1.5, speaker_id: s}
- {wav: b.wav, offset: 0, duration: 1}
"""
ANSWER = {"choices": [{"delta": {"content": "a\u2028b"}, "finish_reason": "stop"}], "error": None}
LAUNCHERS = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_PORT"),
    *("TORCHELASTIC_RUN_ID", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_NNODES", "SLURM_STEP_ID"),
    *("SLURM_NTASKS_PER_NODE", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID", "SLURM_JOB_NAME"),
)
WORDS = st.sampled_from(["0", "1", "2", "4", "-1", "1e9", "9" * 5000, "bash", "2(x3)", "\u0664"])
PIECES = (  # of the values that an attacker records
    *(
        "${",
        "}",
        "'",
        '"',
        "\\",
        ",",
        "[",
        "]",
        "{",
        "}",
        ":",
        "=",
        " ",
        "\n",
        "\t",
        "..",
        "/",
        "~",
    ),
    *(
        "_target_",
        "_args_",
        "os.system",
        "zoo.base.disk.files.os.system",
        "zoo.policies.wait_k.WaitK",
    ),
    *("oc.env:HOME", "<this folder>", "choice(", "range(1,3)", ")", "null", "true", "1", "1e400"),
    *("alignatt", "punctuation", "released", "a", "é", "???", "\0", "\ud800"),
)
SYSTEMS = ("infinisst", "alignatt", "streamuni", "simulu", "replay", "wait_k")
PARTS = ("system", "evaluation", "data", "logger", "trainer")


@dataclass(frozen=True)
class Target:
    """One thing that the fuzzer calls.

    Attributes:
        examples: what it may receive.
        call: receives an example and an empty folder.
    """

    examples: st.SearchStrategy[Any]
    call: Callable[[Any, Path], object]


def read_manifest(content: bytes, folder: Path) -> None:
    (folder / "tst.jsonl").write_bytes(content)
    Aligned(folder=str(folder)).talks("tst")


def read_logs(example: tuple[Any, bytes], folder: Path) -> None:
    format, content = example
    (folder / "log").write_bytes(content)
    read_log(folder / "log", language=DE, format=format)


def read_finished(content: bytes, folder: Path) -> None:
    (folder / "streams.jsonl").write_bytes(content)
    StreamStore(folder).read()


def read_audio(content: bytes, folder: Path) -> None:
    path = folder / "a.wav"
    path.write_bytes(content)
    audio.load(path)
    audio.load(path, start=0.01, duration=0.01)


def read_spans(content: bytes, folder: Path) -> None:
    (folder / "s.yaml").write_bytes(content)
    (folder / "s.de").write_text("Eins.\nZwei.\n")
    read_references(folder / "s.yaml", folder / "s.de", target="de")


def read_run(content: bytes, folder: Path) -> None:
    (folder / "results.json").write_bytes(content)
    joined_rows(find_runs([folder]), folder)


def read_answer(example: tuple[bool, bytes], folder: Path) -> None:
    """Read what a chat server answers; its client makes sentences of these errors."""
    events, content = example
    try:
        list(answers.pieces([content[:7], content[7:]], events=events))
    except (answers.AnswerError, answers.IncompleteError, answers.ServerError):
        answers.models(content.decode(errors="replace"))


def read_launcher(environment: dict[str, str], folder: Path) -> None:
    assert place(environment).per_node >= 1


def read_config(content: bytes, folder: Path) -> None:
    (folder / "config.json").write_bytes(content)
    load_part("config", WhisperConfig.from_pretrained, str(folder))


def read_tokenizer(files: dict[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    load_part("tokenizer", WhisperTokenizer.from_pretrained, str(folder))


def read_safetensors(content: bytes, folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(content)
    with open_tensors(folder / "model.safetensors") as file:
        list(file.keys())


def read_record(lines: list[str], folder: Path) -> None:
    """Read the record of an export; what is accepted contains parts of the zoo and plain values."""
    (folder / "config.yaml").write_text(yaml.safe_dump({"evaluate": {"overrides": lines}}))
    cfg = compose("evaluate", record_of(folder))
    preset = {str(value) for _, value in leaves(composed("infinisst"))}
    for path, value in leaves(cfg):
        text = str(value)
        assert path[-1] != TARGET or text.startswith(("zoo.", "lightning.Trainer")), text
        assert "${" not in text or text in preset | links(), text


def leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield each value of a configuration that is no container, with its key."""
    values = OmegaConf.to_container(node) if OmegaConf.is_config(node) else node
    for below in paths(values):
        value: Any = values
        for key in below:
            value = value[key]
        if below and not isinstance(value, dict | list):
            yield below, value


@cache
def links() -> set[str]:
    """The links in the zoo's own configuration files."""
    texts = (path.read_text() for path in CONF.rglob("*.yaml"))
    return {found for text in texts for found in re.findall(r"\$\{.+\}", text)}


def read_pickle(content: bytes, folder: Path) -> None:
    path = folder / "model.pt"
    path.write_bytes(content)
    for read in (read_file, read_fairseq):
        try:
            read(path)
        except ZooError:
            continue


@cache
def composed(system: str) -> Config:
    """The configuration of a system; callers change copies."""
    return compose("evaluate", [f"system={system}"])


@cache
def places(system: str) -> list[tuple[Any, ...]]:
    """The keys of a configuration that an override may set."""
    values = OmegaConf.to_container(composed(system))
    assert isinstance(values, dict)
    parts = (*PARTS, "backbone", "policy")
    return [path for path in paths(values) if len(path) > 1 and path[0] in parts]


@st.composite
def overridden(draw: st.DrawFn) -> tuple[str, tuple[Any, ...], Any]:
    """A system, one of its keys, and a value."""
    system = draw(st.sampled_from(SYSTEMS))
    path = draw(st.sampled_from(places(system)))
    value = draw(LEAVES)
    return system, path, value


def build_parts(example: tuple[str, tuple[Any, ...], Any], folder: Path) -> None:
    """Set one value of a composed configuration and create what needs no weights."""
    system, path, value = example
    values = OmegaConf.to_container(composed(system))
    node: Any = values
    for key in path[:-1]:
        node = node[key]
    if path[-1] == TARGET:
        value = f"zoo.{value}"  # any other class may do anything
    node[path[-1]] = value
    try:
        cfg = OmegaConf.create(values)
    except Exception:  # a text such as "${" is refused where overrides are parsed
        return
    with open_dict(cfg):
        for part in PARTS:
            if part in cfg:
                build(cfg[part])


@cache
def intact() -> dict[str, bytes]:
    """The files of a tiny Whisper by name, without weights."""
    with tempfile.TemporaryDirectory() as folder:
        tiny_checkpoints.whisper(Path(folder))
        return {path.name: path.read_bytes() for path in Path(folder).glob("*.json")}


def finished() -> Any:
    """The record of a finished stream."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "log").write_text(json.dumps(SIMULEVAL) + "\n")
        streams = StreamStore(folder)
        streams.append(read_log(folder / "log", language=DE)[0])
        return json.loads(streams.path.read_text())


def sound(format: str, subtype: str) -> bytes:
    """0.05 s of noise as a file."""
    file = io.BytesIO()
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, RATE // 20)
    soundfile.write(file, samples, RATE, format=format, subtype=subtype)
    return file.getvalue()


def pickles() -> bytes:
    """A small file of torch.save."""
    file = io.BytesIO()
    torch.save({"args": None, "model": {"a": torch.zeros(2)}, "step": 3}, file)
    return file.getvalue()


@st.composite
def tokenizers(draw: st.DrawFn) -> dict[str, bytes]:
    """The files of a tokenizer, one of them changed."""
    files = dict(intact())
    name = draw(st.sampled_from(sorted(files)))
    document = json.loads(files[name])
    if name == "tokenizer.json":  # the vocabulary has hundreds of equal places
        document["model"]["vocab"] = dict(list(document["model"]["vocab"].items())[:20])
        document["model"]["merges"] = []
    files[name] = json.dumps(draw(changed(document))).encode()
    return files


def targets() -> dict[str, Target]:
    """All targets by name."""
    logs = st.one_of(
        st.tuples(st.just("simuleval"), lines({**SIMULEVAL, "events": [], "text": "x"})),
        st.tuples(st.just("omnisteval"), lines(OMNISTEVAL)),
        st.tuples(st.just("simulstream"), streams()),
    )
    sounds = [
        sound("WAV", "PCM_16"),
        sound("WAV", "FLOAT"),
        sound("FLAC", "PCM_16"),
        sound("AIFF", "PCM_16"),
        sound("AU", "ULAW"),
        sound("MP3", "MPEG_LAYER_III"),
        2 * sound("MP3", "MPEG_LAYER_III"),
        sound("OGG", "VORBIS"),
        2 * sound("OGG", "OPUS"),
    ]
    config = json.loads(intact()["config.json"])
    tensors = save({"a": torch.zeros(2), "b": torch.ones(1)})
    return {
        "manifest": Target(lines(TALK), read_manifest),
        "log": Target(logs, read_logs),
        "finished streams": Target(lines(finished()), read_finished),
        "audio": Target(
            st.sampled_from(sounds).flatmap(lambda data: damaged(data, head=64)), read_audio
        ),
        "segments": Target(damaged(SPANS.encode()), read_spans),
        "results": Target(changed([ROW, ROW]).map(json.dumps).map(str.encode), read_run),
        "answer": Target(sent(), read_answer),
        "launcher": Target(
            st.dictionaries(st.sampled_from(LAUNCHERS), st.one_of(TEXTS, WORDS), max_size=6),
            read_launcher,
        ),
        "config.json": Target(changed(config).map(json.dumps).map(str.encode), read_config),
        "tokenizer": Target(tokenizers(), read_tokenizer),
        "safetensors": Target(damaged(tensors), read_safetensors),
        "pickle": Target(damaged(pickles()), read_pickle),
        "record": Target(records(), read_record),
        "values": Target(overridden(), build_parts),
        "settings": Target(settings_files(), compare_settings),
        "YAML": Target(yaml_texts(), compare_yaml),
    }


@st.composite
def sent(draw: st.DrawFn) -> tuple[bool, bytes]:
    """An answer of a chat server in which something is changed, as events or one object."""
    events = draw(st.booleans())
    body = json.dumps(draw(changed(ANSWER)), ensure_ascii=draw(st.booleans()))
    text = f"data: {body}\n\ndata: [DONE]\n\n" if events else body
    content = text.encode(errors="replace")
    return events, draw(st.one_of(st.just(content), damaged(content)))


@st.composite
def records(draw: st.DrawFn) -> list[str]:
    """The record of an export with one more line of an attacker."""
    sign = draw(st.sampled_from(["", "", "", "", "+", "++", "~", "--", " "]))
    keys = [".".join(map(str, path)) for path in places("infinisst") if path[0] != "evaluation"]
    group = st.sampled_from(
        ["policy", "history", "synthesizer", "convention", "backbone@backbone.x"]
    )
    key = draw(st.one_of(st.sampled_from(keys), group))
    value = "".join(draw(st.lists(st.sampled_from(PIECES), max_size=8)))
    return [
        "system=infinisst",
        "backbone=infinisst_minitalks",
        "backbone.checkpoint=<this folder>",
        f"{sign}{key}={value}",
    ]


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """A log of simulstream in which one line is changed."""
    items: list[Any] = [HEAD, CHUNK, {**CHUNK, "total_audio_processed": 2.0}]
    place = draw(st.integers(0, 2))
    items[place] = draw(changed(items[place]))
    return "".join(json.dumps(item) + "\n" for item in items).encode()
