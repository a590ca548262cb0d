"""The size of models: values of the small models of ``conf/size`` beside a larger backbone."""

from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from zoo.base.errors import ZooError

SMALL = "minitalks"  # the size if none is chosen
LINK = "${size."  # of a value that follows the size


def check_small_parts(cfg: DictConfig, chosen: Mapping[str, Any], parts: tuple[str, ...]) -> None:
    """Refuse values of the small models in a system whose backbone is none of them.

    ``backbone=seamless_m4t synthesizer=seamless_tts`` would speak MuST-C with the text to speech
    that was trained on the built-in corpus.

    Args:
        cfg: configuration.
        chosen: choice of each group.
        parts: groups that a system chooses.

    Raises:
        ZooError: a part links to a value of the size.
    """
    if chosen.get("size") != SMALL or not chosen.get("backbone"):
        return
    plain: Any = OmegaConf.to_container(cfg, resolve=False)
    if chosen["backbone"] in plain["size"].values():
        return
    for part in parts:
        for key, link in _links(plain.get(part), part):
            raise ZooError(
                f"{key} is {link}, of the small model of the built-in corpus (size={SMALL}), "
                f"beside backbone={chosen['backbone']}; choose {key}=..., a folder or hub id."
            )


def _links(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield key and value of each text below a node of plain values that follows the size."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _links(item, f"{key}.{name}")
    elif isinstance(value, str) and LINK in value:
        yield key, value
