"""A damaged folder of a published model is refused in one sentence, whatever is damaged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.fixtures import hostile, tiny_checkpoints
from zoo.base.errors import ZooError
from zoo.config import build, compose

EXTRACTOR = "processor_config.json"  # holds the feature extractor
Damage = Callable[[Path], object]


def config(name: str = "config.json", **fields: Any) -> Damage:
    """Set fields of a JSON file."""

    def damage(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return damage


def generation(**fields: Any) -> Damage:
    """Set fields of generation_config.json."""
    return config("generation_config.json", **fields)


def extractor(**fields: Any) -> Damage:
    """Set fields of the feature extractor alone."""
    return config(EXTRACTOR, feature_extractor=fields)


def file(name: str, text: str) -> Damage:
    """Replace a file."""
    return lambda folder: (folder / name).write_text(text)


def tokenizer(text: str) -> Damage:
    """Replace all JSON files of the tokenizer."""

    def damage(folder: Path) -> None:
        for name in ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"):
            if (folder / name).exists():
                (folder / name).write_text(text)

    return damage


def weight(value: float) -> Damage:
    """Set one value of the last weight."""

    def damage(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensors[max(tensors)].view(-1)[0] = value
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return damage


def stored(change: Callable[[torch.Tensor], torch.Tensor]) -> Damage:
    """Change one tensor of the file."""

    def damage(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        name = "model.decoder.layer_norm.weight"
        tensors[name] = change(tensors[name])
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return damage


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    hostile.write_pickle(folder / "pytorch_model.bin")


def truncated(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


DAMAGES: dict[str, tuple[Damage, str]] = {
    "NaN": (weight(torch.nan), r"damaged: \S+ has values that are NaN or infinite"),
    "infinite": (weight(torch.inf), "NaN or infinite"),
    "another shape": (
        stored(lambda one: one[:-1].clone()),
        r"fit .* has shape \[\d+\], the",
    ),
    "whole numbers": (stored(lambda one: one.long()), "as I64; save the model in float32"),
    "pickled": (pickled, "cannot be loaded: Weights only load failed"),
    "truncated": (truncated, "model.safetensors is missing, damaged or no safetensors file"),
    "empty weights": (file("model.safetensors", ""), "damaged or no safetensors file"),
    "wide": (config(d_model=10**9), "has d_model=1000000000; no network has such a size"),
    "deep": (config(decoder_layers=10**9), "has decoder_layers=1000000000"),
    "negative": (config(encoder_layers=-3), "has encoder_layers=-3"),
    "another width": (config(d_model=48), "does not fit a Whisper"),
    "no heads": (config(encoder_attention_heads=0), "cannot be loaded"),
    "a text": (config(d_model="wide"), "."),
    "null": (config(d_model=None), "."),
    "a list": (file("config.json", "[]"), "."),
    "deep JSON": (file("config.json", "[" * 100_000), "."),
    "no config": (file("config.json", "{}"), "no config.json that states a model type"),
    "empty tokenizer": (tokenizer("{}"), "."),
    "tokenizer of null": (tokenizer("null"), "."),
    "tokenizer of a list": (tokenizer("[]"), "."),
    "extractor": (file(EXTRACTOR, "[]"), "."),
    "extractor of texts": (file(EXTRACTOR, '{"feature_size": "x"}'), "."),
    "generation without a start": (file("generation_config.json", "{}"), "decoder_start_token_id"),
    "a wide matrix": (extractor(feature_size=10**6), "has feature_size=1000000; no network"),
    "a window of 2**14": (extractor(n_fft=2**14), "has n_fft=16384; no network"),
    "a billion labels": (config(num_labels=10**9), "has num_labels=1000000000; no network"),
    "heads of a text": (generation(alignment_heads="ab"), "alignment_heads=ab; it must list"),
    "heads of a mapping": (
        generation(alignment_heads={"a": 1}),
        "alignment_heads=.*; it must list",
    ),
    "heads in lists": (generation(alignment_heads=[[[0, 0]]]), "alignment_heads=.*; it must list"),
    "half a head": (generation(alignment_heads=[[0.5, 0]]), "alignment_heads=.*; it must list"),
    "a head twice": (generation(alignment_heads=[[1, 0]] * 9), "alignment_heads=.*; it must list"),
    "a million heads": (generation(alignment_heads=[[0, 0]] * 10**6), "no network has so many"),
    "suppressed texts": (generation(suppress_tokens="abc"), "suppress_tokens='abc'; it must be"),
    "suppressed lists": (generation(begin_suppress_tokens=[["a"]]), "tokens='a'; it must be an id"),
    "unknown tokens": (generation(suppress_tokens=[5000]), "names the token 5000; the network has"),
    "languages in a list": (generation(lang_to_id=[1]), r"lang_to_id=\[1\]; it must have an id"),
    "an unknown task": (generation(task_to_id={"translate": 10**6}), "names the token 1000000"),
    "timestamps": (generation(no_timestamps_token_id="x"), "no_timestamps_token_id='x'; it must"),
    "generation": (file("generation_config.json", "[]"), "."),
}


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("whisper")
    tiny_checkpoints.whisper(folder)
    return folder


def load(folder: Path) -> None:
    given = ["source_language=de", "target_language=en", "system=alignatt", "backbone=whisper"]
    build(compose("evaluate", [*given, f"backbone.name={folder}"]).system).configure_model()


def test_the_intact_folder_is_loaded(intact: Path) -> None:
    load(intact)


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_folder(kind: str, intact: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in intact.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    damage, sentence = DAMAGES[kind]
    damage(folder)
    with pytest.raises(ZooError, match=sentence) as raised:
        load(folder)
    assert "\n" not in str(raised.value)
    assert not (folder / "ran").exists()
