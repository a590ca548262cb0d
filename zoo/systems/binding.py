"""Do these parts fit? Decided from what each declares, before any weight is loaded."""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import zoo.history
import zoo.policies
import zoo.synthesizers
from zoo.backbones.base import Backbone
from zoo.errors import ZooError
from zoo.history.base import History
from zoo.policies.base import Policy
from zoo.synthesizers.base import Synthesizer
from zoo.types import Capability

Part = Policy | History | Synthesizer
PACKAGES: dict[str, tuple[type[Part], ModuleType]] = {
    "policy": (Policy, zoo.policies),
    "history": (History, zoo.history),
    "synthesizer": (Synthesizer, zoo.synthesizers),
}


def bind(
    backbone: Backbone, policy: Policy, history: History, synthesizer: Synthesizer | None = None
) -> frozenset[Capability]:
    """All capabilities the parts need of the backbone. Raises ZooError naming what is missing and what would fit."""
    needs: frozenset[Capability] = frozenset()
    parts: dict[str, Part | None] = {
        "policy": policy,
        "history": history,
        "synthesizer": synthesizer,
    }
    for noun, part in parts.items():
        if part is None:
            continue
        missing = part.needs - backbone.exposes
        if missing:
            raise ZooError(
                f"{noun.capitalize()} {type(part).__name__} needs {_names(missing)}, which backbone "
                f"{type(backbone).__name__} does not expose; {_advice(noun, backbone.exposes)}."
            )
        needs |= part.needs
    return needs


def _advice(noun: str, exposes: frozenset[Capability]) -> str:
    """What to choose instead, by the names the configuration knows: those of the modules."""
    kind, package = PACKAGES[noun]
    fits = sorted(name for name, part in _parts(kind, package) if part.needs <= exposes)
    return f"{noun} choices that fit it: {', '.join(fits) or 'none'}"


def _parts(kind: type[Part], package: ModuleType) -> Iterator[tuple[str, type[Part]]]:
    """Module name and class of everything ``package`` offers beside the contract itself."""
    for module in pkgutil.iter_modules(package.__path__):
        for part in vars(import_module(f"{package.__name__}.{module.name}")).values():
            own = isinstance(part, type) and part.__module__ == f"{package.__name__}.{module.name}"
            if (
                own
                and issubclass(part, kind)
                and not inspect.isabstract(part)
                and module.name != "base"
            ):
                yield module.name, part


def _names(capabilities: frozenset[Capability]) -> str:
    return ", ".join(sorted(capabilities))
