"""Discovery of backbone families: folders and files of ``zoo/backbones`` and ``zoo/extras``."""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from zoo.backbones.base import Backbone
from zoo.base.types import Capability

PLACES = ("zoo.backbones", "zoo.extras")
# What is no family: the contract, what families share, and other extras.
SHARED = (
    *("base", "excerpt", "families", "objective"),
    *("architectures", "decoding", "encoders", "pretrained", "text"),
    *("interop", "xtts"),
)


def families_exposing(needs: frozenset[Capability]) -> list[str]:
    """Return the names of all families with a backbone that exposes all of ``needs``."""
    return sorted({name for name, backbone in _backbones() if needs <= backbone.exposes})


def _backbones() -> Iterator[tuple[str, type[Backbone]]]:
    """Yield the family name and the class of every concrete backbone."""
    for place in PLACES:
        for family in pkgutil.iter_modules(import_module(place).__path__):
            if family.name in SHARED:
                continue
            package = import_module(f"{place}.{family.name}")
            submodules = pkgutil.iter_modules(getattr(package, "__path__", []))
            names = [f"{package.__name__}.{module.name}" for module in submodules]
            for module in (package, *map(import_module, names)):
                for backbone in concrete_classes(module, Backbone):
                    yield family.name, backbone


def concrete_classes(module: ModuleType, kind: type) -> Iterator[type[Any]]:
    """Yield the subclasses of ``kind`` that ``module`` defines and that are not abstract."""
    for member in vars(module).values():
        if (
            isinstance(member, type)
            and issubclass(member, kind)
            and member is not kind
            and member.__module__ == module.__name__
            and not inspect.isabstract(member)
        ):
            yield member
