"""The keys of a composed configuration: value, what each accepts, and what it means.

The meanings are those of the docstrings, which ``arguments.json`` records, and the comments of the
files in ``conf/``. Nothing is imported but the targets of other packages.
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from zoo.base.kinds import TARGET, Kind, described
from zoo.config.compose import compose
from zoo.config.inspection import Argument
from zoo.config.signatures import arguments_of_target
from zoo.config.sources import CONF, Folders, job_loader, plain
from zoo.config.targets import INSTANTIATE_KEYS
from zoo.config.writing import quote_text

_LINK = re.compile(r"\$\{[\w.:/-]+\}", re.ASCII)  # the same for a link
_WORDS = ("null", "true", "false", "nan", "inf")  # texts that would be other values
GLOBAL = "# @package _global_"  # first line of a file whose keys are full keys
COLUMN = 46  # of the meanings
_FORMS: Mapping[type, Kind] = {
    bool: Kind("bool"), int: Kind("int"), float: Kind("float"), str: Kind("str"),
}  # fmt: skip
_PLAIN = re.compile(r"[A-Za-z_/][\w./@:+-]*", re.ASCII)  # a text that needs no quotes


@dataclass(frozen=True, slots=True)
class Key:
    """A key that an override may set.

    Attributes:
        name: full key, such as ``policy.frames``.
        value: plain value in effect; links (``${device}``) are not resolved.
        accepts: what it accepts, in words; empty if that is not known.
        meaning: one sentence; empty if nothing describes it.
    """

    name: str
    value: Any
    accepts: str = ""
    meaning: str = ""

    def __str__(self) -> str:
        """As a shell reads it, ``policy.frames=4  # meaning (what it accepts)``."""
        value = as_override(self.value)
        override = f"{self.name}=..." if "\n" in value else shlex.quote(f"{self.name}={value}")
        accepts = f"({self.accepts})" if self.accepts else ""
        comment = " ".join(part for part in (self.meaning, accepts) if part)
        return f"{override:<{COLUMN}} # {comment}" if comment else override


def keys_of(config_name: str, given: Sequence[str] = (), folders: Folders = ()) -> list[Key]:
    """Return the keys of a configuration, in its order.

    Args:
        config_name: ``train``, ``evaluate``, ``translate`` or ``prepare``.
        given: overrides.
        folders: additional folders of a new loader; see ``job_loader``.

    Raises:
        ZooError: an override is wrong.
    """
    cfg = plain(compose(config_name, given, folders), resolve=False)
    found, search = job_loader(folders)
    comments = comments_of(CONF / f"{config_name}.yaml")
    for group, choice in found.choices(config_name, [*search, *given]).items():
        for folder in (CONF, *map(Path, folders)):
            path = folder / group / f"{choice}.yaml"
            if group.isidentifier() and path.is_file():
                comments |= comments_of(path, group)
    return list(_keys(cfg, "", comments))


def as_override(value: Any) -> str:
    """Return a plain value as an override writes it, also a list or mapping."""
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{name}:{as_override(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(as_override, value))}]"
    if not isinstance(value, str):
        return json.dumps(value)
    if _LINK.fullmatch(value) or (_PLAIN.fullmatch(value) and value.lower() not in _WORDS):
        return value
    return quote_text(value) if set(value) & set('"\\') else f'"{value}"'


def comments_of(path: Path, group: str = "") -> dict[str, str]:
    """Return the comments at the ends of lines of a YAML file and those it begins with, by key.

    Args:
        path: file.
        group: key of the content, unless the file says that its keys are full keys.
    """
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    where = "" if GLOBAL in lines else f"{group}." if group else ""

    def below(node: yaml.Node | None, where: str) -> Iterator[tuple[str, str]]:
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            line = lines[key.start_mark.line]
            at = value.end_mark.column if isinstance(value, yaml.ScalarNode) else 0
            _, sign, comment = line[at:].partition(" # ")
            if sign:
                yield f"{where}{key.value}", sentence(comment)
            yield from below(value, f"{where}{key.value}.")

    content = yaml.safe_load(text) or {}
    begins = [item for item in content.get("defaults", ()) if isinstance(item, str)]
    found: dict[str, str] = {}
    for base in (path.parent / f"{name}.yaml" for name in begins if group):
        found |= comments_of(base, group) if base.is_file() else {}
    return found | dict(below(yaml.compose(text, Loader=yaml.SafeLoader), where))


def sentence(text: str) -> str:
    """Return the first sentence of a docstring or comment as plain text, without a full stop."""
    first = re.split(r"(?<=[.;])\s+", text.strip(), maxsplit=1)[0].rstrip(".;")
    return re.sub(r":\w+:`~?|``?", "", first)


def _keys(
    node: Mapping[str, Any], where: str, comments: Mapping[str, str], about: str = ""
) -> Iterator[Key]:
    """Yield the keys below a node, its values before its parts.

    Args:
        node: plain values, with the links.
        where: key of the node with a final dot.
        comments: comments of configuration files by full key.
        about: words for keys that nothing describes, about the node.
    """
    target = node.get(TARGET)
    named = arguments_of_target(target, where=where).named if target else {}
    about = f"argument of {target}" if target else about
    parts = []
    for name, value in node.items():
        if name in INSTANTIATE_KEYS:
            continue
        key, argument = f"{where}{name}", named.get(name, Argument(None))
        meaning = comments.get(key, "") or sentence(argument.meaning)
        if isinstance(value, Mapping) and value:
            parts.append((value, f"{key}.", f"of {key}: {meaning}" if meaning else about))
        else:
            kind = argument.kind or _FORMS.get(type(value))
            yield Key(key, value, described(kind) if kind else "", meaning or about)
    for value, place, words in parts:
        yield from _keys(value, place, comments, words)


def parts_of(keys: Iterable[Key]) -> dict[str, list[Key]]:
    """Return keys by their first components; those without a dot are under the empty text."""
    found: dict[str, list[Key]] = {"": []}
    for key in keys:
        part, dot, _ = key.name.partition(".")
        found.setdefault(part if dot else "", []).append(key)
    return found
