"""Checks of a composed configuration before the work begins."""

from omegaconf import DictConfig

from zoo.config.arguments import check_recorded
from zoo.config.current import overrides
from zoo.config.records import check_folders
from zoo.config.sources import composed, plain
from zoo.errors import check_choice, unknown_choice
from zoo.languages import LANGUAGES


def check_config(cfg: DictConfig, config_name: str) -> None:
    """Raise ZooError for what no job can use: languages, keys, records of folders.

    Args:
        cfg: configuration of the running job.
        config_name: ``train`` or ``evaluate``.
    """
    check_languages(cfg)
    _check_keys(cfg, config_name)
    check_recorded(plain(cfg, resolve=False))
    check_folders(cfg)


def check_languages(cfg: DictConfig) -> None:
    """Raise ZooError for a language that is no text."""
    for key in ("source_language", "target_language"):
        if not isinstance(cfg[key], str):
            raise unknown_choice(key, cfg[key], LANGUAGES)


def _check_keys(cfg: DictConfig, config_name: str) -> None:
    """Raise ZooError for a top-level key that an override with ``+`` adds; no code reads it."""
    given = overrides()
    declared = [item for item in given if not item.startswith("+")]
    if declared != given:
        keys = [str(key) for key in composed(config_name, declared)]
        for key in cfg:
            check_choice("key", key, keys)
