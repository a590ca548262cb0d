"""Code that a checkpoint folder contains never runs."""

import ast
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import (
    AutoConfig,
    AutoFeatureExtractor,
    AutoModelForCausalLM,
    AutoModelForCTC,
    AutoTokenizer,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperTokenizer,
)

import zoo
from tests.fixtures import hostile, tiny_checkpoints
from zoo.backbones.base import without_weights
from zoo.backbones.decoding.causal.decoder import build_decoder, decoder_config
from zoo.backbones.pretrained import hub
from zoo.backbones.pretrained.loading import (
    find_config,
    load_network,
    load_part,
    load_tokenizer,
)
from zoo.backbones.pretrained.lora import FOLDER, read_adapter
from zoo.backbones.pretrained.settings import check_settings
from zoo.base.errors import ZooError

LOADING = (  # the only files that may load
    Path("backbones/pretrained/loading.py"),
    # runs without the zoo; the encoders of COMET are classes of Transformers, never Auto classes
    Path("metrics/comet/score.py"),
)
KERNEL = {"_attn_implementation": "evil/kernel"}
OWN = "it must be one of: eager, sdpa, flash_attention_2"
ELSEWHERE = "a model is read from files of its own folder alone"
REFUSED: list[tuple[str, dict[str, Any], str]] = [  # file, settings and end of the sentence
    ("config", KERNEL, rf"_attn_implementation='evil/kernel'; {OWN}"),
    ("config", {"attn_implementation": "paged|evil/kernel"}, OWN),
    ("config", {"_attn_implementation_internal": "evil/kernel"}, OWN),
    ("config", {"_attn_implementation": {"": "eager", "text_config": "evil/kernel"}}, OWN),
    ("config", {"per_layer_config": {"0": KERNEL}}, OWN),
    ("config", {"parts": [{"text_config": KERNEL}]}, OWN),
    ("config", {"attribute_map": {"x": "_attn_implementation"}, "x": "evil/kernel"}, "classes of"),
    ("config", {"sub_configs": {"x": "y"}}, "classes of Transformers"),
    ("config", {"_auto_class": "AutoConfig"}, "classes of Transformers"),
    ("config", {"_experts_implementation": "sonicmoe"}, "eager, batched_mm, grouped_mm"),
    ("config", {"use_kernels": True}, "no code is loaded or compiled"),
    ("config", {"kernel_config": {"kernel_mapping": {"RMSNorm": "evil/kernel:N"}}}, "no code is"),
    ("config", {"quantization_config": {"quant_method": "gptq"}}, "weights are not supported"),
    ("config", {"torch_dtype": "hub"}, "torch_dtype='hub'; it must be a dtype of PyTorch"),
    ("config", {"configuration_files": ["config.4.0.0.json"]}, "from its own files alone"),
    ("config", {"transformers_weights": "../other/model.safetensors"}, ELSEWHERE),
    ("config", {"backbone": "other/model"}, "from its own files alone"),
    ("config", {"use_pretrained_backbone": True}, "from its own files alone"),
    ("config", {"vocoder": "/srv/vocoder"}, ELSEWHERE),
    ("generation_config", {"compile_config": {"backend": "evil"}}, "no code is loaded or compiled"),
    ("generation_config", KERNEL, OWN),
    ("tokenizer_config", {"vocab_file": "/etc/passwd"}, ELSEWHERE),
    ("tokenizer_config", {"sp_model_kwargs": {"model_file": "a/../../b"}}, ELSEWHERE),
    ("tokenizer_config", {"fast_tokenizer_files": ["../tokenizer.4.0.json"]}, ELSEWHERE),
    ("tokenizer_config", {"gguf_file": "/srv/model.gguf"}, "from its own files alone"),
    ("tokenizer_config", {"init_inputs": ["/etc/passwd"]}, "from its own files alone"),
    ("special_tokens_map", {"vocab_file": "vocabulary.json"}, ELSEWHERE),
    ("special_tokens_map", {"tokenizer_file": "C:\\tokenizer.json"}, ELSEWHERE),
    ("preprocessor_config", {"repo_path": "other/data"}, "from its own files alone"),
    ("processor_config", {"audio_tokenizer": {"audio_tokenizer_class": "X"}}, "own files alone"),
    ("audio_tokenizer_config", {"audio_tokenizer_name_or_path": "a/b"}, "own files alone"),
    ("model.safetensors.index", {"weight_map": {"a.weight": "/srv/b.safetensors"}}, ELSEWHERE),
    ("adapter_config", {"base_model_name_or_path": "other/model"}, "names another model"),
]
HARMLESS: list[tuple[str, dict[str, Any]]] = [  # as in published files
    ("config", {"auto_map": hostile.AUTO_MAP, "custom_pipelines": {"x": {"impl": "code.Model"}}}),
    ("config", {"auto_map": {"AutoModel": "evil/code--code.Model"}, "trust_remote_code": True}),
    ("config", {"_name_or_path": "/home/author/model", "_attn_implementation_autoset": True}),
    ("config", {"_attn_implementation": "sdpa", "quantization_config": None}),
    ("config", {"id2label": {"0": "/m/09x0r", "1": "../x"}}),
    ("generation_config", {"custom_generate": "evil/generate", "trust_remote_code": True}),
    ("tokenizer_config", {"name_or_path": "/home/author/x", "tokenizer_file": "/root/x.json"}),
    ("tokenizer_config", {"special_tokens_map_file": "/root/.cache/x", "trust_remote_code": True}),
    ("tokenizer_config", {"auto_map": {"AutoTokenizer": ["code.Tokenizer", "code.Tokenizer"]}}),
    ("preprocessor_config", {"auto_map": hostile.AUTO_MAP}),
]


@pytest.fixture
def malicious(tmp_path: Path) -> Path:
    """A folder whose configurations name classes of a module, which writes a file when it runs."""
    return hostile.write_folder(tmp_path)


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


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("whisper")
    tiny_checkpoints.whisper(folder)
    return folder


@pytest.fixture
def model(intact: Path, tmp_path: Path) -> Path:
    """A Whisper, with a module that writes a file when it runs."""
    folder = hostile.write_folder(tmp_path / "model")
    for path in intact.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def add(folder: Path, file: str, settings: dict[str, Any]) -> None:
    """Add settings to a JSON file of a model."""
    path = folder / f"{file}.json"
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | settings))


def load_whisper(folder: Path) -> None:
    """Load all parts of the model."""
    name = str(folder)
    load_part("extractor", WhisperFeatureExtractor.from_pretrained, name)
    load_part("config", WhisperConfig.from_pretrained, name)
    load_part("tokenizer", WhisperTokenizer.from_pretrained, name)
    load_tokenizer(name)
    load_network(WhisperForConditionalGeneration, name, torch.float32)


@pytest.mark.parametrize(("file", "settings", "sentence"), REFUSED)
def test_a_setting_that_leads_out_of_the_folder(
    model: Path, file: str, settings: dict[str, Any], sentence: str
) -> None:
    add(model, file, settings)
    for load in (
        lambda: load_whisper(model),
        lambda: find_config(str(model)),
        lambda: hub.local_folder("model", str(model), files=["*"]),
    ):
        with pytest.raises(ZooError, match=rf"{model} has .*{sentence}") as raised:
            load()
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("file", "settings"), HARMLESS)
def test_a_published_setting_has_no_effect(
    model: Path, file: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    monkeypatch.setattr("transformers.dynamic_module_utils.get_class_in_module", refuse)
    add(model, file, settings)
    load_whisper(model)
    assert not (model / "ran").exists()


def refuse(*given: object, **named: object) -> None:
    raise AssertionError(f"code is imported: {given}")


def test_no_class_is_created_from_code_of_a_configuration(
    malicious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configuration of Transformers may name code for a class that Transformers lacks."""
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    add(malicious, "config", {"model_type": "wav2vec2", "vocab_size": 8})
    options: dict[str, Any] = {"vocabulary": 8, "embedding_std": None, "dtype": torch.float32}
    with pytest.raises(ZooError, match=r"^No decoder could be created: "):
        build_decoder(str(malicious), empty=True, **options)
    with without_weights(), pytest.raises(ZooError):
        load_network(AutoModelForCausalLM, str(malicious), torch.float32)
    assert not (malicious / "ran").exists()


def test_fields_of_a_decoder_are_checked() -> None:
    fields = {"model_type": "llama", "rope_parameters": None}
    with pytest.raises(ZooError, match=rf"^The decoder's configuration has .*{OWN}"):
        decoder_config(fields | KERNEL, vocabulary=8)


def test_deep_settings_are_checked() -> None:
    settings: dict[str, Any] = KERNEL
    for _ in range(5000):
        settings = {"text_config": [settings]}
    with pytest.raises(ZooError, match=OWN):
        check_settings("x", settings)


def test_an_adapter_in_a_subfolder_has_a_rank_and_nothing_else(tmp_path: Path) -> None:
    settings = {
        "r": 4,
        "lora_alpha": 8,
        "megatron_core": "code",
        "auto_mapping": {"parent_library": "code", "base_model_class": "Model"},
        "base_model_name_or_path": "evil/model",
    }
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "adapter_config.json").write_text(json.dumps(settings))
    weights = {"a.lora_A.weight": torch.zeros(4, 4)}
    save_file(weights, tmp_path / FOLDER / "adapter_model.safetensors")
    adapter = read_adapter(tmp_path)
    assert adapter is not None
    assert (adapter.config.rank, adapter.config.alpha) == (4, 8)
    assert set(adapter.files) == set(weights)


def test_models_are_loaded_in_one_place() -> None:
    root = Path(zoo.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.relative_to(root) in LOADING or "from_pretrained" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            called = node.func if isinstance(node, ast.Call) else None
            name = getattr(called, "attr", getattr(called, "id", ""))
            assert not name.startswith("from_pretrained") or isinstance(called, ast.Name), (
                f"{path}:{getattr(node, 'lineno', 0)} must load with load_part or load_network"
            )
