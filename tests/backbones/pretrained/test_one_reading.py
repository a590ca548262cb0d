"""What is checked is what is loaded: a file that has two readings, or none, is refused."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import WhisperConfig, WhisperForConditionalGeneration

from tests.fixtures import tiny_checkpoints
from tests.fixtures.judge import judge
from zoo.backbones.pretrained.loading import load_network, load_part, read_config
from zoo.backbones.pretrained.settings import FILES, check_folder
from zoo.backbones.pretrained.weights import LARGEST_HEADER, MOST_TENSORS, open_tensors
from zoo.base.errors import ZooError

KERNEL = '"_attn_implementation": "evil/kernels"'
HIDDEN = {  # texts of a config.json that Transformers reads, or may read in another version
    "equal keys": f'{{"zz": 1, "zz": 1, {KERNEL}}}',
    "equal keys, one escaped": f'{{"zz": 1, "\\u007az": 1, {KERNEL}}}',
    "equal keys of a part": f'{{"text_config": {{"zz": 1, "zz": 1}}, {KERNEL}}}',
    "the setting twice": f'{{{KERNEL}, "_attn_implementation": "eager"}}',
    "the setting escaped": '{"\\u005fattn_implementation": "evil/kernels"}',
    "a number of 400 digits": f'{{"zz": {"9" * 400}, {KERNEL}}}',
    "quantization": '{"zz": 1, "zz": 1, "quantization_config": {"quant_method": "gptq"}}',
    "two million layers": '{"zz": 1, "zz": 1, "encoder_layers": 2000000}',
    "a byte order mark": f"\ufeff{{{KERNEL}}}",
    "two documents": f"{{}} {{{KERNEL}}}",
    "a comment": f"/* */ {{{KERNEL}}}",
    "no JSON": "{",
    "nothing": "",
}
Damage = Callable[[Path], object]


def config(content: str | bytes) -> Damage:
    """Write a config.json."""
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / "config.json").write_bytes(data)


BYTES: dict[str, Damage] = {
    "UTF-16": config(f"{{{KERNEL}}}".encode("utf-16")),
    "UTF-32": config(f"{{{KERNEL}}}".encode("utf-32")),
    "Latin-1": config(f'{{"é": 1, {KERNEL}}}'.encode("latin-1")),
    "a folder": lambda folder: (folder / "config.json").mkdir(),
    "a link to nothing": lambda folder: (folder / "config.json").symlink_to("nothing"),
    "a pipe": lambda folder: os.mkfifo(folder / "config.json"),
    "another case": lambda folder: (folder / "Config.JSON").write_text(f"{{{KERNEL}}}"),
}


@pytest.mark.parametrize("kind", [*HIDDEN, *BYTES])
def test_a_configuration_with_a_second_reading(kind: str, tmp_path: Path) -> None:
    (BYTES.get(kind) or config(HIDDEN[kind]))(tmp_path)
    with judge(folder=tmp_path), pytest.raises(ZooError) as raised:
        read_config(str(tmp_path))
    assert str(tmp_path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("pattern", FILES)
def test_every_file_of_settings_is_read_once(pattern: str, tmp_path: Path) -> None:
    name = pattern.replace("*", "pytorch_model.fp16.bin")
    for text in ('{"zz": 1, "zz": 1, "vocab_file": "/outside"}', "{"):
        (tmp_path / name).write_text(text)
        with pytest.raises(ZooError, match=name.replace(".", r"\.")):
            check_folder("x", tmp_path)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("whisper")
    tiny_checkpoints.whisper(folder)
    return folder


@pytest.fixture
def model(intact: Path, tmp_path: Path) -> Path:
    """A Whisper whose weights lie outside of its folder."""
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for path in intact.glob("*.json"):
        (folder / path.name).write_bytes(path.read_bytes())
    (tmp_path / "outside.safetensors").write_bytes((intact / "model.safetensors").read_bytes())
    return folder


def index(place: str, names: list[str], *, twice: bool = False) -> str:
    """An index whose weights are in one place, with two equal keys if wanted."""
    places = ", ".join(f'"{name}": "{place}"' for name in names)
    extra = '"metadata": {}, ' if twice else ""
    return f'{{{extra}"metadata": {{"total_size": 1}}, "weight_map": {{{places}}}}}'


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("place", ["../outside.safetensors", "sub/../../outside.safetensors"])
@pytest.mark.parametrize("named", ["model.safetensors.index.json", "sub/m.safetensors.index.json"])
def test_an_index_names_weights_beside_it(named: str, place: str, twice: bool, model: Path) -> None:
    names = list(load_file(model.parent / "outside.safetensors"))
    (model / named).write_text(index(place, names, twice=twice))
    settings = json.loads((model / "config.json").read_text()) | {"transformers_weights": named}
    (model / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ZooError, match=r"own folder alone|two keys 'metadata'"):
        load_network(WhisperForConditionalGeneration, str(model), torch.float32)


@pytest.mark.parametrize("text", ["[]", "{}", '{"weight_map": []}', '{"weight_map": {"a": 1}}'])
def test_an_index_that_is_none(text: str, model: Path) -> None:
    (model / "model.safetensors.index.json").write_text(text)
    with pytest.raises(ZooError, match=r"no index of weights|own folder alone"):
        load_network(WhisperForConditionalGeneration, str(model), torch.float32)


def header(path: Path, tensors: int) -> None:
    """Write a file of empty tensors."""
    entry = '"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    text = "{" + ",".join(entry % number for number in range(tensors)) + "}"
    path.write_bytes(struct.pack("<Q", len(text)) + text.encode())


@pytest.mark.parametrize("tensors", [MOST_TENSORS + 1, 1_000_000])
def test_a_header_of_many_tensors(tensors: int, intact: Path, tmp_path: Path) -> None:
    for path in intact.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    header(tmp_path / "model.safetensors", tensors)
    assert (tmp_path / "model.safetensors").stat().st_size > LARGEST_HEADER or tensors < 10**6
    with pytest.raises(ZooError, match="no model"):
        load_network(WhisperForConditionalGeneration, str(tmp_path), torch.float32)


def test_a_header_of_a_large_model(tmp_path: Path) -> None:
    header(tmp_path / "a.safetensors", MOST_TENSORS // 2)
    assert len(open_tensors(tmp_path / "a.safetensors").keys()) == MOST_TENSORS // 2


def test_an_intact_folder_is_loaded(intact: Path) -> None:
    name = str(intact)
    assert isinstance(load_part("config", WhisperConfig.from_pretrained, name), WhisperConfig)
    load_network(WhisperForConditionalGeneration, name, torch.float32)


def test_weights_in_parts_are_loaded(model: Path) -> None:
    tensors = load_file(model.parent / "outside.safetensors")
    parts = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    places = {name: parts[number % 2] for number, name in enumerate(sorted(tensors))}
    for part in parts:
        chosen = {name: tensors[name] for name, place in places.items() if place == part}
        save_file(chosen, model / part, metadata={"format": "pt"})
    content = {"metadata": {"total_size": 1}, "weight_map": places}
    (model / "model.safetensors.index.json").write_text(json.dumps(content))
    load_network(WhisperForConditionalGeneration, str(model), torch.float32)
