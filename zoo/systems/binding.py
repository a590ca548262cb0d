"""Compatibility of the parts of a system, checked before any weights are loaded."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import cast

from zoo.backbones.base import Backbone
from zoo.backbones.families import concrete_classes
from zoo.base.errors import ZooError
from zoo.base.languages import DETECTED, Language
from zoo.base.types import Capability
from zoo.history.base import History
from zoo.policies.base import Policy
from zoo.synthesizers.base import Synthesizer
from zoo.systems.context.base import ContextSource
from zoo.systems.playback.base import Playback

Part = Policy | History | Synthesizer | ContextSource


def bind(
    backbone: Backbone,
    policy: Policy,
    history: History,
    synthesizer: Synthesizer | None = None,
    context: ContextSource | None = None,
    playback: Playback | None = None,
) -> frozenset[Capability]:
    """Check that a backbone exposes every capability that the other parts need.

    Args:
        backbone: Backbone of the system.
        policy: Policy of the system.
        history: History of the system.
        synthesizer: Synthesizer of the system. None: text output only.
        context: Context source of the system. None: prompts without context.
        playback: What shortens late target speech. None: nothing does.

    Returns:
        All capabilities that the parts need.

    Raises:
        ZooError: The backbone lacks a capability, or the policy revises output that another part
            needs, or there is no speech to shorten. The message names it and the choices that fit.
    """
    needs: frozenset[Capability] = frozenset()
    parts: list[tuple[str, type[Part], Part | None]] = [
        ("policy", Policy, policy),
        ("history", History, history),
        ("synthesizer", Synthesizer, synthesizer),
        ("context", ContextSource, context),
    ]
    for noun, kind, part in parts:
        if part is None:
            continue
        missing = part.needs - backbone.exposes
        if missing:
            hints = [backbone.unexposed[one] for one in sorted(missing & {*backbone.unexposed})]
            unexposed = " ".join([type(backbone).__name__, "does not expose", *hints])
            raise ZooError(
                f"{noun.capitalize()} {type(part).__name__} needs {', '.join(sorted(missing))}, "
                f"which backbone {unexposed}; {noun} choices that fit it: "
                f"{_fitting_choices(kind, backbone.exposes)}."
            )
        needs |= part.needs
    if policy.revises:
        _check_revised(policy, history, synthesizer)
    if playback is not None and synthesizer is None:
        raise ZooError(
            f"Playback {type(playback).__name__} shortens target speech, and the system has none; "
            "choose a synthesizer, such as synthesizer=espeak, or playback=queue."
        )
    return needs


def check_languages(
    backbone: Backbone, synthesizer: Synthesizer | None, source: Language, target: Language
) -> None:
    """Check the languages of a system.

    Args:
        backbone: Backbone of the system.
        synthesizer: Synthesizer of the system, which must speak ``target``. None: text output only.
        source: Source language, or ``DETECTED``.
        target: Target language.

    Raises:
        ZooError: A part does not support its languages.
    """
    if source is DETECTED and not backbone.detects_language:
        raise ZooError(
            f"{type(backbone).__name__} does not detect the language of the speech; set "
            "source_language, or choose backbone=whisper."
        )
    backbone.check_languages(source, target)
    if synthesizer:
        synthesizer.check(target)


def _check_revised(policy: Policy, history: History, synthesizer: Synthesizer | None) -> None:
    """Raise ZooError if other parts need the output that a policy may delete."""
    name = type(policy).__name__
    if synthesizer is not None:
        raise ZooError(
            f"Policy {name} revises its output, and emitted speech cannot be revised; set "
            "synthesizer=null, or choose another policy."
        )
    if history.selects_text:
        parts = cast("Iterator[tuple[str, type[History]]]", _parts(History))
        names = sorted(name for name, part in parts if not part.selects_text)
        raise ZooError(
            f"Policy {name} keeps no text, which history {type(history).__name__} selects; choose "
            f"history from: {', '.join(names)}."
        )


def _fitting_choices(kind: type[Part], exposes: frozenset[Capability]) -> str:
    """List the configuration names of the parts of a kind whose needs are exposed."""
    names = sorted(name for name, part in _parts(kind) if part.needs <= exposes)
    return ", ".join(names) or "none"


def _parts(kind: type[Part]) -> Iterator[tuple[str, type[Part]]]:
    """Yield module name and class of each concrete part in the package that defines ``kind``.

    The configuration files are named after the modules.
    """
    package = import_module(kind.__module__.rpartition(".")[0])
    for module in pkgutil.iter_modules(package.__path__):
        for part in concrete_classes(import_module(f"{package.__name__}.{module.name}"), kind):
            yield module.name, part
