"""Checks of a composed configuration before the work begins."""

from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig

from zoo.base.errors import ZooError, check_choice, unknown_choice
from zoo.base.languages import DETECTED, LANGUAGES
from zoo.config.arguments import check_recorded
from zoo.config.current import overrides
from zoo.config.records import check_folders
from zoo.config.sources import composed, plain


def check_config(cfg: DictConfig, config_name: str) -> None:
    """Raise ZooError for what no job can use: languages, dtypes, keys, records of folders.

    Args:
        cfg: configuration of the running job.
        config_name: ``train`` or ``evaluate``.
    """
    check_languages(cfg, may_be_detected=config_name == "translate")
    check_dtypes(cfg)
    if config_name == "train" and (keys := _int8_keys(cfg)):
        raise ZooError(
            f"{keys[0]}=int8 is for streaming, and a training cannot update such weights; leave it "
            "out here, and set it in evaluate.py."
        )
    _check_keys(cfg, config_name)
    check_recorded(plain(cfg, resolve=False))
    check_folders(cfg)


def check_languages(cfg: DictConfig, *, may_be_detected: bool = False) -> None:
    """Raise ZooError for a language that is no text, or for one that may not be detected.

    Args:
        cfg: configuration.
        may_be_detected: whether the source language may be ``auto``.
    """
    if cfg.source_language == DETECTED.code and not may_be_detected:
        raise ZooError(
            "source_language=auto is for python -m zoo translate; name the language of the talks."
        )
    for key in ("source_language", "target_language"):
        if not isinstance(cfg[key], str):
            raise unknown_choice(key, cfg[key], LANGUAGES)


def check_dtypes(cfg: DictConfig) -> None:
    """Raise ZooError for networks in float16 on a CPU, and for int8 weights elsewhere.

    A CPU has no arithmetic in float16, and PyTorch's product with int8 weights is for a CPU.
    """
    values = plain(cfg, resolve=False)
    keys = [
        key
        for part in ("backbone", "synthesizer")
        for key in _keys_of(values.get(part), "dtype", "float16", part)
    ]
    int8_keys = _int8_keys(cfg)
    if not keys and not int8_keys:
        return
    from zoo.base.machine.devices import device_named  # imports torch
    from zoo.base.machine.int8 import check_int8

    device = device_named(cfg.device)
    if int8_keys:
        check_int8(int8_keys[0], device)
    if keys and device == "cpu":
        raise ZooError(
            f"{keys[0]}=float16 is several times slower than float32 on a CPU; choose float32, or "
            "bfloat16 where the CPU computes in it, or device=cuda."
        )


def _int8_keys(cfg: DictConfig) -> list[str]:
    """Return the keys that choose int8 weights."""
    values = plain(cfg, resolve=False)
    return list(_keys_of(values.get("backbone"), "decoder_weights", "int8", "backbone"))


def _keys_of(values: Any, name: str, value: object, path: str) -> Iterator[str]:
    """Yield the paths of the keys of a name that have a value, in nested mappings."""
    if not isinstance(values, Mapping):
        return
    if values.get(name) == value:
        yield f"{path}.{name}"
    for key, inner in values.items():
        yield from _keys_of(inner, name, value, f"{path}.{key}")


def _check_keys(cfg: DictConfig, config_name: str) -> None:
    """Raise ZooError for a top-level key that an override with ``+`` adds; no code reads it."""
    given = overrides()
    declared = [item for item in given if not item.startswith("+")]
    if declared != given:
        keys = [str(key) for key in composed(config_name, declared)]
        for key in cfg:
            check_choice("key", key, keys)
