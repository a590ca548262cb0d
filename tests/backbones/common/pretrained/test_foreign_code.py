"""Code that a checkpoint folder contains never runs."""

import ast
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoFeatureExtractor,
    AutoModelForCausalLM,
    AutoModelForCTC,
    AutoTokenizer,
)

import zoo
from zoo.backbones.common.pretrained.loading import load_network, load_part, load_tokenizer
from zoo.errors import ZooError

LOADING = (  # the only files that may load
    Path("backbones/common/pretrained/loading.py"),
    # runs without the zoo; the encoders of COMET are classes of Transformers, never Auto classes
    Path("metrics/comet/score.py"),
)
CLASSES = ("Config", "Model", "Tokenizer", "FeatureExtractor")


@pytest.fixture
def malicious(tmp_path: Path) -> Path:
    """A folder whose configurations name classes of a module, which writes a file when it runs."""
    auto_map: dict[str, Any] = {
        "AutoConfig": "code.Config",
        "AutoModelForCausalLM": "code.Model",
        "AutoModelForCTC": "code.Model",
        "AutoFeatureExtractor": "code.FeatureExtractor",
        "AutoTokenizer": ["code.Tokenizer", "code.Tokenizer"],
    }
    for name in ("config", "tokenizer_config", "preprocessor_config"):
        described = {"model_type": "another", "auto_map": auto_map}
        (tmp_path / f"{name}.json").write_text(json.dumps(described))
    classes = "".join(f"class {name}: pass\n" for name in CLASSES)
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n{classes}")
    return tmp_path


@pytest.mark.parametrize(
    "load",
    [
        load_tokenizer,
        lambda name: load_part("config", AutoConfig.from_pretrained, name),
        lambda name: load_part("tokenizer", AutoTokenizer.from_pretrained, name),
        lambda name: load_part("extractor", AutoFeatureExtractor.from_pretrained, name),
        lambda name: load_network(AutoModelForCausalLM, name, torch.float32),
        lambda name: load_network(AutoModelForCTC, name, torch.float32),
    ],
)
def test_a_folder_with_code_is_refused(
    malicious: Path, load: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    with pytest.raises(ZooError):
        load(str(malicious))
    assert not (malicious / "ran").exists()


def test_models_are_loaded_in_one_place() -> None:
    root = Path(zoo.__file__).parent
    for path in root.rglob("*.py"):
        if path.relative_to(root) in LOADING:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            name = getattr(called, "attr", getattr(called, "id", ""))
            assert not name.startswith("from_pretrained") or isinstance(called, ast.Name), (
                f"{path}:{getattr(node, 'lineno', 0)} must load with load_part or load_network"
            )
