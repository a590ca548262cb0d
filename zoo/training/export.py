"""A trained backbone as files that anybody can load: weights, tokenizer, configuration and a card."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from zoo.backbones.ctc.ctc import CTC
from zoo.data.corpora import MiniTalks
from zoo.errors import ZooError, unknown_choice
from zoo.systems.base import StreamingSystem

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
BUILT_IN = """on the built-in corpus minitalks: synthetic speech over a closed grammar. It shows that a system works; it
does not translate real talks."""


def export(
    system: StreamingSystem,
    folder: Path,
    *,
    config: Mapping[str, Any],
    corpus: str,
    trained: Sequence[str],
    evaluated: Sequence[str],
    dtype: str,
) -> Path:
    """Write ``model.safetensors``, tokenizer, ``config.yaml`` and ``README.md``. Raises ZooError if one is there.

    corpus: its name. trained: overrides of this training. evaluated: those of them that an evaluation must repeat.
    """
    if dtype not in DTYPES:
        raise unknown_choice("dtype", dtype, DTYPES)
    if (folder / "model.safetensors").exists():
        raise ZooError(f"{folder} already holds an exported model; move it away first.")
    system.backbone.save(folder, DTYPES[dtype])
    described: dict[str, Any] = {
        name: config[name]
        for name in ("backbone", "training", "source_language", "target_language", "seed")
    }
    beside = (
        weights_key(config["backbone"]),
        "encoder_weights",
        "tokenizer",
        "vocoder",
    )  # all lie in the folder
    described["backbone"] = {
        **described["backbone"],
        **{name: None for name in beside if name in described["backbone"]},
    }
    if transcriber := described["backbone"].get(
        "transcriber"
    ):  # of a cascade, which lies elsewhere
        described["backbone"]["transcriber"] = {**transcriber, weights_key(transcriber): None}
    (folder / "config.yaml").write_text(
        yaml.safe_dump(described, sort_keys=False, allow_unicode=True)
    )
    text = card(
        system, corpus=corpus, trained=trained, evaluated=evaluated, dtype=dtype, key=beside[0]
    )
    (folder / "README.md").write_text(text)
    return folder


def weights_key(backbone: Mapping[str, Any]) -> str:
    """The key under which a backbone's configuration names trained weights."""
    return "checkpoint" if "checkpoint" in backbone else "name"


def card(
    system: StreamingSystem,
    *,
    corpus: str,
    trained: Sequence[str],
    evaluated: Sequence[str],
    dtype: str,
    key: str = "checkpoint",
) -> str:
    """What this model is, how it was made and what it must not be taken for. key: see ``weights_key``."""
    size = sum(parameter.numel() for parameter in system.backbone.parameters()) / 1e6
    data = BUILT_IN if corpus == MiniTalks.name else f"on {corpus}."
    return f"""# {system.name}, {system.source_language.name} to {system.target_language.name}

{size:.2f} M parameters, {dtype}. Trained by

    python train.py {" ".join(trained)}

{data} Evaluate it with `{evaluation(system, evaluated, f"{key}=<this folder>")}`.
"""


def evaluation(system: StreamingSystem, evaluated: Sequence[str], weights: str) -> str:
    """The command that measures what was trained. weights: overrides one key of a backbone or recogniser."""
    if isinstance(system.backbone, CTC):  # transcribes the synthesised speech of another system
        return f"python evaluate.py system=wait_k synthesizer=espeak recogniser.{weights}"
    return f"python evaluate.py {' '.join([*evaluated, f'backbone.{weights}'])}"
