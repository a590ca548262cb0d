"""The configurations of the systems of an evaluation, one or several in comparison."""

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Any

from zoo.base.errors import ZooError, shorten_list
from zoo.base.kinds import fits, kind_of
from zoo.config import Config, choices, compose, overrides, plain, row_name
from zoo.config.knob import typed_latency
from zoo.config.size import LINK, SMALL
from zoo.config.writing import override_key
from zoo.evaluation.left_out import left_out
from zoo.runs.weights import NETWORKS, PRETRAINED, TRAINED, check_replaced

# keys that an entry of `compare` may change
PARTS = (
    "system",
    "backbone",
    "policy",
    "history",
    "synthesizer",
    "playback",
    "context",
    "source_language",
    "target_language",
)
CHOSEN = PARTS[1:7]  # the groups of which a system consists
WEIGHTS = (*TRAINED, *PRETRAINED)  # arguments that name weights
VALUES = "evaluation.knob_values"
LINKED = re.compile(r"=\$\{([\w.]+)\}$")  # a value that is a link, as in name=${size.weights.phi4}


def system_configurations(cfg: Config) -> list[Config]:
    """Return the configuration of each system: ``cfg``, or one per entry of ``compare``.

    Entries that ``left_out`` names have none.

    Raises:
        ZooError: ``compare`` is malformed, or weights that are chosen for all systems would replace
            those of some systems only.
    """
    check_size(plain(cfg, resolve=False)["compare"])
    entries = plain(cfg)["compare"]
    if entries is None:
        check_parts([cfg], overrides())
        _apply_typed(cfg, overrides())
        return [cfg]
    if not entries or not fits(entries, kind_of(Mapping[str, Sequence[str]])):
        raise ZooError(f'compare must look like {{name: ["key=value"], other: []}}, not {entries}.')
    for name, entry in entries.items():
        for item in entry:
            if override_key(item).partition(".")[0] in ("hydra", "compare", "resume"):
                raise ZooError(
                    f"compare.{name} has {item}, which belongs to the whole evaluation; write it "
                    "outside of compare."
                )
            if override_key(item) == "system.name":
                raise ZooError(
                    f"compare.{name} has {item}; the name of a compared system is that of its "
                    f"entry, so write another name instead of {name}."
                )
    check_weights(entries)
    check_pinned(plain(cfg, resolve=False)["compare"], entries)
    shared, absent = plain(cfg, resolve=False), left_out(cfg).names
    rows = [(name, entry) for name, entry in entries.items() if name not in absent]
    found = [_compared(shared, name, entry) for name, entry in rows]
    check_parts(found, overrides())
    return found


def check_size(entries: Any) -> None:
    """Raise ZooError unless every system follows a size that was chosen.

    Args:
        entries: value of ``compare`` with its links.
    """
    size = choices(overrides()).get("size")
    if size == SMALL:
        return
    if not isinstance(entries, Mapping):
        raise ZooError(
            f"size={size} chooses the models of a comparison, and there is none; choose "
            "backbone=... for one system."
        )
    for name, entry in entries.items():
        if not any(LINK in str(item) for item in entry):
            raise ZooError(
                f"size={size} would not change compare.{name}, which names its backbone without "
                "${size...}; a table does not mix sizes."
            )


def check_weights(entries: Mapping[str, Sequence[str]]) -> None:
    """Raise ZooError for weights on the command line that only some entries of ``compare`` have.

    Args:
        entries: overrides of each system.
    """
    for part in NETWORKS:
        named = [f"{part}.{argument}" for argument in WEIGHTS]
        given = [item for item in overrides() if override_key(item) in (part, *named)]
        if not given:
            continue
        chosen = {
            name: choices([*overrides(), *entry]).get(part) for name, entry in entries.items()
        }
        listed = ", ".join(f"{name}: {choice}" for name, choice in chosen.items())
        choose = {override_key(item) for entry in entries.values() for item in entry}
        differs = len(set(chosen.values()) - {None}) > 1
        for item in given:
            if differs or (override_key(item) == part and part in choose):
                raise ZooError(
                    f"{item} would not replace the {part} of all compared systems ({listed}); "
                    "choose size=..., which replaces the models of a whole table, or "
                    "size.weights.NAME=..., which replaces the weights of one family, or write a "
                    "compare of your own."
                )


def check_pinned(linked: Mapping[str, Sequence[str]], entries: Mapping[str, Sequence[str]]) -> None:
    """Raise ZooError for an override that an entry of an experiment's ``compare`` replaces.

    Entries that the user has typed may differ from what is typed for all systems.

    Args:
        linked: overrides of each system, with their links.
        entries: the same with the values of links.
    """
    typed = {override_key(item): item for item in overrides()}
    if "compare" in typed:
        return
    for name, entry in entries.items():
        for own, link in zip(entry, linked[name], strict=True):
            item = typed.get(key := override_key(own))
            if item is None or item == own:
                continue
            follows = LINKED.search(link)
            advice = f"write {follows[1]}=..." if follows else "write a compare of your own"
            raise ZooError(
                f"compare.{name} has {own}, so that {item} would have no effect on it; {advice}, "
                f"or leave out {key}."
            )


def _compared(shared: dict[str, Any], name: str, entry: Sequence[str]) -> Config:
    """Return the configuration of one entry of ``compare``.

    Raises ZooError if the entry sets a key that all systems share.
    """
    choice = compose("evaluate", [*overrides(), *entry])
    choice.system.name = row_name(name, overrides(), entry)
    own = plain(choice, resolve=False)
    for key in own:
        if key == "trainer":
            shared.setdefault(key, own[key])  # a recorded log has no trainer
        # each entry trusts the packages of the classes that it names
        if key not in (*PARTS, "trusted_packages") and own[key] != shared.get(key):
            raise ZooError(
                f"compare.{name} sets {key}, which all systems share; set it outside of compare."
            )
    check_parts([choice], entry)
    _apply_typed(choice, [*overrides(), *entry])
    return choice


def check_parts(configurations: Sequence[Config], typed: Sequence[str]) -> None:
    """Raise ZooError for a typed part that no system has, such as a backbone of a recorded log.

    Args:
        configurations: configuration of each system.
        typed: overrides of all of them.
    """
    linked = {part for part in CHOSEN for cfg in configurations if _is_linked(cfg, part)}
    for item in typed:
        part = override_key(item).partition(".")[0].partition("@")[0]
        if part in CHOSEN and part not in linked and item != f"{part}=none":
            names = shorten_list([repr(str(cfg.system.name)) for cfg in configurations])
            raise ZooError(f"{item} has no effect: there is no {part} in {names}; leave it out.")


def _is_linked(cfg: Config, part: str) -> bool:
    """Return whether a configuration refers to one of its parts, such as ``${backbone}``."""
    others = {key: value for key, value in plain(cfg, resolve=False).items() if key != part}
    return re.search(rf"\$\{{{part}[.}}]", repr(others)) is not None


def _apply_typed(cfg: Config, typed: Sequence[str]) -> None:
    """Check that every typed override has an effect; let a typed latency replace the knob's."""
    check_replaced(cfg, typed)
    keep_typed_latency(cfg, typed)


def keep_typed_latency(cfg: Config, typed: Sequence[str]) -> None:
    """Evaluate the latency setting that the user has typed instead of those of the latency knob.

    ``system=streamatt policy.frames=6`` is evaluated at f = 6 alone: the knob would set
    ``policy.frames`` to each of its own values.

    Args:
        cfg: configuration of one system, whose knob gets the value.
        typed: overrides of the command line and of the entry in ``compare``.

    Raises:
        ZooError: other values of the knob are configured beside it.
    """
    if (found := typed_latency(cfg, typed)) is None:
        return
    override, key = found
    keys = set(map(override_key, typed))
    for rival in (VALUES, "system.knob.values"):
        values = reduce(getitem, rival.split("."), cfg)
        if rival in keys or (rival == VALUES and values is not None):
            raise ZooError(
                f"{override} sets the latency of system {cfg.system.name!r}, and "
                f"{rival}={values} lists other values for it; leave one of them out."
            )
    cfg.system.knob["values"] = [reduce(getitem, key.split("."), cfg)]
