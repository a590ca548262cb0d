"""A tiny random model of every backbone that is offered, in a folder, and the overrides that a user would give for it.

What they say is nonsense, but different nonsense for any audio.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks import tiny_checkpoints
from zoo.backbones.cascade.prompt import Template
from zoo.backbones.common.text.tokenizer import SPECIAL_TOKENS, train_tokenizer
from zoo.backbones.wav2text.transcript import SourceWords
from zoo.config import build, compose, plain
from zoo.systems.base import StreamingSystem
from zoo.training.export import export, weights_key

ENCODER = {"conv_channels": "[4,4,4,4,4,4,8]", "hidden": 16, "layers": 1, "heads": 2, "ff": 24}
CAUSAL = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
    "tie_word_embeddings": "false",
}
CROSS = {
    "d_model": 16,
    "decoder_layers": 3,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 24,
    "init_std": 0.5,
}
OURS = {  # whose weights are exported here: a system it fits, and the decoder's shape
    "infinisst_minitalks": ("infinisst", CAUSAL),
    "lst_minitalks": ("streamatt", CAUSAL),
    "offline_minitalks": ("streamatt", CROSS),
}
NAMED = {  # the same classes
    "phi4_minitalks": "phi4_multimodal",
    "qwen_minitalks": "qwen2_5_omni",
    "simulu_minitalks": "seamless_m4t_speech",
}
CASCADES = {"cascade": "whisper", "cascade_minitalks": "offline_minitalks"}  # and what transcribes
TEXTS = (
    "Julia hat das Geld ausgegeben. Wenn die Bank klein ist, fragt die Frau nach dem Haus!",
    "早上好，今天天气很好。",
)
Overrides = list[str]


def tiny_models(folder: Path) -> dict[str, Overrides]:
    """Write one model per backbone below ``folder``: by the backbone's name, what chooses it."""
    chosen: dict[str, Overrides] = {}
    for kind, make in tiny_checkpoints.KINDS.items():
        make(folder / kind)
        chosen[kind] = [f"backbone.name={folder / kind}"]
    for kind in OURS:
        key, place = exported(kind, folder / kind)
        chosen[kind] = [f"backbone.{key}={place}", *shape(kind)]
    key, place = exported("lst_minitalks", folder / "lst")
    chosen["lst"] = [f"backbone.{key}={place}"]  # whose shape stands beside its weights
    for kind in ("phi4_multimodal", "qwen2_5_omni"):
        chosen[kind].append("backbone.alignment.layer=3")  # the tiny ones have four
    chosen |= {kind: chosen[same] for kind, same in NAMED.items()}
    chosen["recogniser_minitalks"] = [f"backbone.name={_recogniser(folder / 'recogniser')}"]
    translator = _translator(folder / "translator")
    for kind, transcriber in CASCADES.items():
        heard = [
            given.replace("backbone.", "backbone.transcriber.", 1) for given in chosen[transcriber]
        ]
        chosen[kind] = [f"backbone.name={translator}", *heard]
    return {kind: [f"backbone={kind}", *given] for kind, given in chosen.items()}


def _recogniser(folder: Path) -> Path:
    """A tiny recogniser of random weights, as its own class writes it."""
    tiny = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    given = ["backbone.name=null", *_below("backbone.config", tiny | {"intermediate_size": 16})]
    torch.manual_seed(0)
    backbone = build(
        compose(
            "evaluate", ["system=local_agreement", "backbone=recogniser_minitalks", *given]
        ).backbone
    )
    backbone.load()
    backbone.save(folder)
    return folder


def _translator(folder: Path) -> Path:
    """A tiny text LLM."""
    special = list(dict.fromkeys([*SPECIAL_TOKENS, *Template().tokens]))
    tokenizer = train_tokenizer(TEXTS, vocabulary_size=300, special_tokens=special)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        **CAUSAL
        | {"tie_word_embeddings": False, "vocab_size": len(tokenizer), "pad_token_id": None}
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def shape(kind: str) -> Overrides:
    """Tiny instead of small."""
    system, decoder = OURS[kind]
    size = [*_below("backbone.encoder", ENCODER), *_below("backbone.decoder", decoder)]
    size += ["backbone.embedding_std=0.5"] if decoder is CAUSAL else []
    return (
        [*size, "backbone.alignment.layer=2", "backbone.alignment.heads=null"]
        if system == "streamatt"
        else size
    )


def exported(kind: str, folder: Path) -> tuple[str, Path]:
    """A random model as ``train.py`` leaves a trained one: the key that names it, and its folder."""
    tokenizer = folder / "tokenizer"
    train_tokenizer(TEXTS, vocabulary_size=300).save_pretrained(tokenizer)
    SourceWords.of(["Julia", "spent", "the", "money."]).write(tokenizer)
    chosen = [f"backbone={kind}", f"system={OURS[kind][0]}", *shape(kind)]
    key = weights_key(plain(compose("evaluate", chosen))["backbone"])
    cfg = compose("evaluate", [*chosen, f"backbone.{key}=null", f"backbone.tokenizer={tokenizer}"])
    torch.manual_seed(0)
    system: StreamingSystem = build(cfg.system)
    system.configure_model()
    config = {**plain(cfg), "training": {}}
    return key, export(
        system,
        folder / "model",
        config=config,
        corpus="",
        trained=[],
        evaluated=[],
        dtype="float32",
    )


def _below(node: str, values: Mapping[str, object]) -> Overrides:
    return [f"{node}.{name}={value}" for name, value in values.items()]
