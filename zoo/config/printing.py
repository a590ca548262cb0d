"""A part of a composed configuration as YAML, for ``--cfg job --package KEY``.

Hydra has no exit code of a wrong input for a part that does not exist, and takes null for one.
"""

from collections.abc import Sequence

from omegaconf import Container, DictConfig, OmegaConf, open_dict

from zoo.base.errors import ZooError
from zoo.config.compose import compose
from zoo.config.filling import HYDRA
from zoo.config.sources import Folders, composed
from zoo.config.unknown import unknown_key

WHOLE = "_global_"  # Hydra's name of the package that is the whole configuration
_ABSENT = object()


def printed_part(
    config_name: str,
    given: Sequence[str],
    folders: Folders,
    *,
    kind: str,
    package: str,
    resolve: bool = False,
) -> str:
    """Return a part of a configuration as Hydra prints it.

    Args:
        config_name: name of the main file, such as ``train``.
        given: overrides.
        folders: folders of more YAML files.
        kind: ``job``, ``hydra`` or ``all``.
        package: key of the part.
        resolve: whether to replace links by the values that they name.

    Raises:
        ZooError: an override is wrong, or there is no such part.
    """
    cfg = (
        compose(config_name, given, folders)
        if kind == "job"
        else composed(config_name, given, folders, with_hydra=True)
    )
    part = _part(cfg, package, kind)
    if part is _ABSENT:
        known = "" if HYDRA in package else unknown_key(config_name, package, given, folders)
        raise ZooError(known or f"--package: there is no {package!r} in the configuration.")
    if not isinstance(part, Container):
        return "null" if part is None else str(part)
    if resolve:
        OmegaConf.resolve(part)
    return f"# @package {package}\n{OmegaConf.to_yaml(part).rstrip()}"


def _part(cfg: DictConfig, package: str, kind: str) -> object:
    """Return the node or value at a key; ``_ABSENT`` if there is none."""
    if kind == HYDRA:
        with open_dict(cfg):
            for key in [key for key in cfg if key != HYDRA]:
                del cfg[key]
    if package == WHOLE:
        return cfg
    try:
        return OmegaConf.select(cfg, package, default=_ABSENT)
    except (ValueError, TypeError):  # such as a[b] of a list
        return _ABSENT
