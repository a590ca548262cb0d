"""Texts that two parsers may read in different ways, and readers of the same files to compare.

A check reads a document with one parser, and a library loads it with another one. A document is a
failure if the check passes although the library reads another value, or a setting that the check
refuses.
"""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st
from transformers import GenerationConfig, PreTrainedConfig, ProcessorMixin, WhisperConfig
from transformers.feature_extraction_utils import FeatureExtractionMixin
from transformers.models.auto.tokenization_auto import get_tokenizer_config
from transformers.utils.hub import get_checkpoint_shard_files

from tests.fuzz.strategies import TEXTS
from zoo.backbones.pretrained.loading import load_part
from zoo.backbones.pretrained.settings import (
    check_folder,
    check_index,
    check_settings,
    check_sizes,
)
from zoo.base.disk.parsing import parse_json, parse_yaml

HOSTILE: tuple[tuple[str, Any], ...] = (  # settings that every check refuses
    ("_attn_implementation", "evil/kernels"),
    ("quantization_config", {"quant_method": "gptq"}),
    ("use_kernels", True),
    ("vocab_file", "/outside"),
    ("gguf_file", "../outside"),
    ("torch_dtype", "hub"),
)
SETTINGS: Mapping[str, Any] = {"model_type": "whisper", "d_model": 16, "a": [{"b": 1.5}, None]}
INDEX: Mapping[str, Any] = {
    "metadata": {"total_size": 1},
    "weight_map": {"a": "model-1.safetensors", "b": "../model-2.safetensors"},
}
NUMBERS = ("NaN", "-Infinity", "1e999", "9" * 309, "9" * 310, "9" * 5000, "-0", "1.0", "01", "+1")
ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "utf-7")
AFTER = ("", "", "", " ", "\n", "\0", "x", ",", "{}", "\ufeff", "// x", "]", "}")
PIECES = (  # of YAML
    *("a: ", "b: ", "- ", "? ", ": ", "\n", "\n  ", "\n\t", "[", "]", "{", "}", ", ", "# x\n"),
    *(
        "&a ",
        "*a",
        "<<: *a",
        "!!str ",
        "!!int ",
        "!!float ",
        "!!set ",
        "!!binary ",
        "---\n",
        "...\n",
    ),
    *(
        "'",
        '"',
        "|\n",
        ">\n",
        "1",
        "1e3",
        "0x1f",
        "0o7",
        "010",
        "1:30",
        "1_000",
        ".inf",
        ".nan",
        "~",
    ),
    *("yes", "null", "2024-01-01", "2024-99-99", "x", "é", "\ufeff", "\x85", "\u2028", "\0", "\\"),
    *("system=infinisst", "evaluate: {overrides: [", "overrides: ", "evaluate: "),
)


class Writer:
    """Writes JSON as no library does: equal keys, escapes, numbers of hundreds of digits.

    Args:
        seed: of the random choices.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rate = self.random.choice((0.02, 0.1, 0.3))

    def chance(self) -> bool:
        return self.random.random() < self.rate

    def document(self, value: Any) -> bytes:
        """The text of a document, sometimes with something around it and in another encoding."""
        text = self.value(value)
        if self.chance():
            depth = self.random.choice((3, 900, 1500, 20_000))
            text = '{"a":' * depth + text + "}" * depth
        if self.chance():
            text = self.random.choice(("\ufeff", "/* */", "\0", " ", "[]")) + text
        text += self.random.choice(AFTER) if self.chance() else ""
        encoding = self.random.choice(ENCODINGS) if self.chance() else "utf-8"
        data = bytearray(text.encode(encoding, errors="replace"))
        if self.chance():
            data[self.random.randrange(len(data))] = self.random.randrange(256)
        return bytes(data)

    def value(self, value: Any) -> str:
        if isinstance(value, Mapping):
            items = list(value.items())
            if self.chance():
                items.append(self.random.choice(HOSTILE))
            if self.chance() and items:
                items.append((self.random.choice(items)[0], self.random.choice((1, "eager"))))
            if self.chance():
                self.random.shuffle(items)
            inner = ",".join(f"{self.text(key)}:{self.value(item)}" for key, item in items)
            return f"{{{inner}{',' if self.chance() else ''}}}"
        if isinstance(value, list):
            return f"[{','.join(map(self.value, value))}]"
        if isinstance(value, str):
            return self.text(value)
        return self.random.choice(NUMBERS) if self.chance() else json.dumps(value)

    def text(self, text: str) -> str:
        """A text, sometimes with escapes, control characters or the halves of a character."""
        if not self.chance():
            return json.dumps(text)
        escaped = [f"\\u{ord(it):04x}" if self.random.random() < 0.3 else it for it in text]
        extra = self.random.choice(("", "", "", "\\ud800", "\n", "\\/", "\x01", "\\x41", "'"))
        return f'"{"".join(escaped)}{extra}"'


def _json(path: Path) -> Any:
    """Read as Transformers does where it has no function for a file."""
    with path.open(encoding="utf-8") as file:
        return json.load(file)


def _weight_index(path: Path) -> Any:
    get_checkpoint_shard_files(str(path.parent), str(path))
    return _json(path)


# The function with which Transformers reads each file; it may change what it has read.
LOADERS: Mapping[str, Callable[[Path], Any]] = {
    "config.json": PreTrainedConfig._dict_from_json_file,
    "generation_config.json": GenerationConfig._dict_from_json_file,
    "tokenizer_config.json": lambda path: get_tokenizer_config(path.parent),
    "preprocessor_config.json": lambda path: FeatureExtractionMixin.get_feature_extractor_dict(
        path.parent
    )[0],
    "processor_config.json": lambda path: ProcessorMixin.get_processor_dict(path.parent)[0],
    "special_tokens_map.json": _json,
    "added_tokens.json": _json,
    "model.safetensors.index.json": _weight_index,
}


def settings_files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Names of files and their contents."""

    def written(name: str, seed: int) -> tuple[str, bytes]:
        return name, Writer(seed).document(INDEX if "index" in name else SETTINGS)

    return st.builds(written, st.sampled_from(sorted(LOADERS)), st.integers(0, 2**32))


def compare_settings(example: tuple[str, bytes], folder: Path) -> None:
    """Check a folder, read it with Transformers, and judge what Transformers has read."""
    name, content = example
    path = folder / name
    path.write_bytes(content)
    check_folder("x", folder)  # raises ZooError for what it cannot read or refuses
    try:
        loaded = LOADERS[name](path)
    except Exception:  # not an object; a loader may raise any error, of which zoo makes a sentence
        loaded = None
    checked = parse_json(path.read_text(encoding="utf-8"))
    if loaded is not None:
        assert same(loaded, checked), f"{loaded} is loaded, {checked} was checked"
        check_settings("x", loaded, moves_files="special" in name)  # refuses nothing further
        check_sizes("x", loaded if name == "config.json" else None)
        if "index" in name:
            check_index("x", loaded)
    if name == "config.json":
        load_part("config", WhisperConfig.from_pretrained, str(folder))


def yaml_texts() -> st.SearchStrategy[str]:
    """Texts of pieces of YAML."""
    pieces = st.one_of(st.sampled_from(PIECES), st.sampled_from(PIECES), TEXTS)
    return st.lists(pieces, max_size=12).map("".join)


def compare_yaml(text: str, folder: Path) -> None:
    """Read a text with the zoo's parser and with PyYAML's own one, which libraries use."""
    try:
        checked, loaded = parse_yaml(text), yaml.safe_load(text)
    except yaml.YAMLError:  # one of them refuses it
        return
    assert same(loaded, checked), f"{loaded} is loaded, {checked} was checked"


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, types and NaN included."""
    return repr(one) == repr(other)
